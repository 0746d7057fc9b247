//! WebSocket clients that others wrote: they talk to the server, to nginx and HAProxy in front of it, and to a gateway.

use std::thread;

use corehttp::websocket::{self, DeflateOptions, WebSocket};
use corehttp::{Context, Server, ServerHandle};

use super::program::Program;
use super::proxies::{haproxy, nginx};
use super::{Served, gateway};

const CLIENTS: &[Program] = &[
    Program {
        file: "websocket.py",
        runners: &[
            (&["python3"], &["python3", "-c", "import websockets"]),
            (&["/usr/bin/python3"], &["/usr/bin/python3", "-c", "import websockets"]),
        ],
    },
    Program {
        file: "websocket.mjs",
        runners: &[
            (&["node"], &["node", "-e", "WebSocket"]),
            (&["node", "--experimental-websocket"], &["node", "--experimental-websocket", "-e", "WebSocket"]),
        ],
    },
];

/// More than a message may have.
const LARGE: usize = 1 << 21;

fn origin(deflate: Option<DeflateOptions>) -> ServerHandle {
    let settings = websocket::Options { deflate, ..websocket::Options::default() };
    let echo = async move |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&settings).await?;
        let WebSocket { reader, writer, .. } = &mut socket;
        while let Some(message) = reader.receive().await? {
            writer.send(message).await?;
        }
        Ok(())
    };
    Server::bind("127.0.0.1:0").start(echo).expect("a server starts")
}

fn ask_all(url: &str) {
    thread::scope(|scope| {
        for program in CLIENTS {
            scope.spawn(|| program.run(&[url, &LARGE.to_string()]));
        }
    });
}

#[test]
fn clients_talk_to_the_server() {
    let small = DeflateOptions { message_min: 1, ..DeflateOptions::default() };
    for deflate in
        [None, Some(DeflateOptions::default()), Some(DeflateOptions { context_takeover: true, ..small })]
    {
        ask_all(&Served(origin(deflate)).url());
    }
}

#[test]
fn clients_talk_through_nginx() {
    let server = Served(origin(Some(DeflateOptions::default())));
    let settings = format!(
        "location / {{ proxy_pass {}; proxy_http_version 1.1; proxy_set_header host $http_host; \
         proxy_set_header upgrade $http_upgrade; proxy_set_header connection upgrade; }}",
        server.url()
    );
    if let Some(nginx) = nginx(&settings) {
        ask_all(&nginx.url());
    }
}

#[test]
fn clients_talk_through_haproxy() {
    let server = Served(origin(Some(DeflateOptions::default())));
    if let Some(haproxy) = haproxy(server.0.local_addr()) {
        ask_all(&haproxy.url());
    }
}

#[test]
fn clients_talk_through_a_gateway_of_ours() {
    let server = Served(origin(Some(DeflateOptions::default())));
    let gateway = Served(gateway(server.url()));
    ask_all(&gateway.url());
}
