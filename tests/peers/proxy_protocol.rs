//! HAProxy and nginx that pass bytes on, and write a PROXY header before them; and that read one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use corehttp::proxy_protocol::{ProxyHeader, ProxyProtocol, ProxyVersion};
use corehttp::{Client, Context, Server, block_on};

use super::Served;
use super::proxies::{Proxy, haproxy_for, nginx_listening, nginx_stream};

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
        if let Some(haproxy) = haproxy_for("", &settings) {
            check(&haproxy, unique_id);
        }
    }
    if let Some(nginx) = nginx_stream(&format!("proxy_pass {behind}; proxy_protocol on;")) {
        check(&nginx, None);
    }
    assert_eq!(server.0.counts().total.errors.wire, 0);
}

/// Asks as a client with headers of its own, and on behalf of another: both find the address that `proxy` reads.
fn check_reader(proxy: &Proxy) {
    let source = SocketAddr::from(([192, 0, 2, 1], 4711));
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let own = Client::builder().proxy_protocol(version).build();
        let other = own.on_behalf_of(&ProxyHeader::new(source, proxy.address()), version);
        let ask = async |client: &Client| {
            client.get(&proxy.url()).await.map(|response| response.text().map(str::to_owned))
        };
        let asked = block_on(async { [ask(&own).await, ask(&other).await, ask(&other).await] });
        let [own, first, second] =
            asked.expect("a runtime starts").map(|asked| asked.expect("it answers").expect("it is text"));
        assert!(own.starts_with("127.0.0.1:"), "{version:?}: {own}");
        assert_eq!([first, second], ["192.0.2.1:4711"; 2], "{version:?}");
        assert_eq!(other.counts().total.dials, 1);
    }
}

#[test]
fn haproxy_and_nginx_read_the_headers_of_a_client() {
    let haproxy = "http-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port]\"";
    if let Some(haproxy) = haproxy_for("accept-proxy", haproxy) {
        check_reader(&haproxy);
    }
    let nginx =
        "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; return 200 $remote_addr:$remote_port;";
    if let Some(nginx) = nginx_listening("proxy_protocol", nginx) {
        check_reader(&nginx);
    }
}
