//! Counts and reports of WebSockets: bytes, messages, and how each ended.

use std::sync::{Arc, Mutex};

use corehttp::net::MemoryListener;
use corehttp::server::ExchangeReport;
use corehttp::{Client, ClientError, Context, Server, websocket};
use tokio::io::AsyncWriteExt;

use super::clients::accept;
use super::support::{Echo, HEAD, TEXT, close, echo, echo_parts, frame, unmasked};
use crate::support::{Served, eventually, get};

/// A peer that sends `sent` is reported as `expected`: messages in and out, the code of the close frame, and by whom the
/// exchange was cut.
#[track_caller]
fn check(echo_of: Echo, sent: &[u8], expected: (u64, u64, Option<u16>, Option<&str>)) {
    type Report = (u64, u64, u64, u64, Option<u16>, Option<&'static str>);
    let reports: Arc<Mutex<Vec<Report>>> = Arc::default();
    let seen = reports.clone();
    let observe = move |server: Server| {
        server.on_exchange(move |report: &ExchangeReport| {
            let cut = report.cut.map(|cut| cut.as_str());
            assert_eq!(report.status.map(|status| status.as_u16()), Some(101));
            let socket = report.websocket.unwrap();
            let messages = (socket.messages_received, socket.messages_sent);
            let line = (messages.0, messages.1, report.received, report.sent, socket.close_code, cut);
            seen.lock().unwrap().push(line);
        })
    };
    let served = Served::with(observe, async move |ctx: &mut Context| match echo_of {
        Echo::Whole | Echo::Impatient => echo(ctx, &websocket::Options::default()).await,
        Echo::Parts => echo_parts(ctx, &websocket::Options::default()).await,
    });
    let mut peer = served.connect();
    let wire = [format!("{HEAD}\r\n").as_bytes(), sent].concat();
    peer.send(&wire);
    peer.end();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut peer.stream, &mut answer).unwrap();
    eventually("it is reported", || reports.lock().unwrap().len() == 1);
    let (messages_in, messages_out, received, sent, code, cut) = reports.lock().unwrap()[0];
    assert_eq!((messages_in, messages_out, code, cut), expected);
    assert_eq!((received, sent), (wire.len() as u64, answer.len() as u64));
    let total = served.running.counts().total;
    assert_eq!((total.messages_received, total.messages_sent), (messages_in, messages_out));
    assert_eq!((total.received, total.sent), (received, sent));
}

#[test]
fn bytes_and_messages_are_counted() {
    let messages = [frame(TEXT, "a"), frame(TEXT, "b".repeat(100_000))].concat();
    check(Echo::Whole, &[&messages[..], &close(1000, "")].concat(), (2, 2, Some(1000), None));
    check(Echo::Parts, &[&messages[..], &close(4000, "")].concat(), (2, 2, Some(4000), None));
    check(Echo::Whole, &messages, (2, 2, None, Some("peer")));
    check(Echo::Whole, &[&messages[..], &[0xff]].concat(), (2, 2, Some(1002), Some("handler")));
}

/// The exchange ends with its handler; the counts of the server go on.
#[test]
fn a_websocket_in_another_task_is_counted_to_its_end() {
    let reports: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = reports.clone();
    let served = Served::with(
        move |server| {
            server.on_exchange(move |report: &ExchangeReport| {
                seen.lock().unwrap().push(report.websocket.unwrap().messages_received);
            })
        },
        async |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&websocket::Options::default()).await?;
            tokio::task::spawn_local(async move { while let Ok(Some(_)) = socket.receive().await {} });
            Ok(())
        },
    );
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    eventually("it is reported", || *reports.lock().unwrap() == [0]);
    peer.send([frame(TEXT, "a"), close(1000, "")].concat());
    peer.end();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut peer.stream, &mut answer).unwrap();
    assert_eq!(served.running.counts().total.messages_received, 1);
}

/// A handler is the client of a WebSocket whose server leaves, or breaks RFC 6455. Its own peer has done nothing.
#[test]
fn a_failed_websocket_of_a_client_is_no_fault_of_the_peer() {
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    let behind = Server::bind(listener).cores(1).start(async |ctx: &mut Context| -> corehttp::Result {
        let sent = match ctx.request.path() {
            "/cut" => Vec::new(),
            "/text" => unmasked(TEXT, [0xff]),
            "/bits" => vec![0xf2, 0],
            _ => vec![0x82, 0x7f, 0, 0, 0, 0, 0x10, 0, 0, 0],
        };
        let key = accept(ctx.request.headers.get("sec-websocket-key").unwrap());
        ctx.response.headers.set("sec-websocket-accept", key)?;
        let mut upgraded = ctx.upgrade("websocket").await?;
        upgraded.write_all(&sent).await?;
        upgraded.flush().await?;
        Ok(())
    });
    let _behind = behind.unwrap();
    for (is_gateway, status) in [(false, 500), (true, 502)] {
        let faults: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (seen, client) = (faults.clone(), client.clone());
        let set = move |server: Server| {
            let server = server.on_error(move |report| seen.lock().unwrap().push(report.is_fault()));
            if is_gateway { server.error_status(ClientError::status) } else { server }
        };
        let served = Served::with(set, async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = client.websocket(&format!("ws://a{}", ctx.request.path())).await?;
            while socket.receive().await?.is_some() {}
            Ok(())
        });
        for path in ["/cut", "/text", "/bits", "/large"] {
            let status = if path == "/cut" { status } else { 500 };
            let answer = served.ask(get(path));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
            eventually("it is reported", || *faults.lock().unwrap() == [true]);
            faults.lock().unwrap().clear();
        }
    }
}
