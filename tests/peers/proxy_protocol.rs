//! HAProxy and nginx that pass bytes on, and write a PROXY header before them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use corehttp::{Context, ProxyProtocol, Server};

use super::Served;
use super::proxies::{Proxy, haproxy_for, nginx_stream};

/// Answers with the addresses, and the length of the identifier.
fn tell(ctx: &mut Context) {
    let header = ctx.proxy_header().expect("each connection has a header");
    let told = (header.source(), header.unique_id().map(<[u8]>::len), header.destination());
    ctx.response.set_text(format!("{} {told:?}", ctx.peer_addr()));
}

/// Asks through the proxy. Returns the address of the socket that asks, and the response.
fn ask(proxy: &Proxy) -> io::Result<(SocketAddr, String)> {
    let mut stream = TcpStream::connect(proxy.address())?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
    let mut received = String::new();
    stream.read_to_string(&mut received)?;
    Ok((stream.local_addr()?, received))
}

fn check(proxy: &Proxy, unique_id: Option<usize>) {
    for _ in 0..3 {
        let (own, received) = ask(proxy).expect("the proxy answers");
        let expected = format!("{own} (Some({own}), {unique_id:?}, Some({}))", proxy.address());
        assert!(received.ends_with(&expected), "{received} for {expected}");
    }
}

#[test]
fn the_address_comes_through_haproxy_and_nginx() {
    let policy = ProxyProtocol::required(|ip| ip.is_loopback());
    let server = Server::bind("127.0.0.1:0").proxy_protocol(policy).start(tell);
    let server = Served(server.expect("a server starts"));
    let behind = server.0.local_addr();
    // The health checks have headers of their own.
    let unique = "send-proxy-v2 proxy-v2-options unique-id check inter 20 check-send-proxy";
    for (options, unique_id) in [("send-proxy", None), ("send-proxy-v2", None), (unique, Some(4))] {
        let settings = format!("mode tcp\n unique-id-format abcd\n server only {behind} {options}");
        if let Some(haproxy) = haproxy_for(&settings) {
            check(&haproxy, unique_id);
        }
    }
    if let Some(nginx) = nginx_stream(&format!("proxy_pass {behind}; proxy_protocol on;")) {
        check(&nginx, None);
    }
    assert_eq!(server.0.stats().total.errors.wire, 0);
}
