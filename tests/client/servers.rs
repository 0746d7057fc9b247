//! The client and servers that were not written for its tests: this crate's own, and hyper's.

use std::convert::Infallible;
use std::time::Duration;

use corehttp::middleware::{self, wrap};
use corehttp::net::MemoryListener;
use corehttp::{BodyPlan, Client, Context, Method, Request, Response, Server, ServerHandle};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[cfg(target_os = "linux")]
use crate::support::eventually;
use crate::support::{Scripted, ask};

/// A request whose body is 100,000 bytes, and what they are.
fn large(url: &str, is_stream: bool) -> (Request, String) {
    let (mut request, body) = (Request::post(url).unwrap(), "0123456789".repeat(10_000));
    match is_stream {
        false => request.body.set_bytes(&body),
        true => request.body.set_stream(std::io::Cursor::new(body.clone().into_bytes()), None),
    }
    (request, body)
}

/// Asks the echo at `base` in every way, and many times at once.
async fn check(client: &Client, base: &str) {
    for _ in 0..3 {
        let get = Request::get(&format!("{base}/a?b=c")).unwrap();
        assert_eq!(ask(client, &get).await.unwrap(), (200, "GET /a?b=c".into()));
        let head = Request::head(&format!("{base}/a")).unwrap();
        assert_eq!(ask(client, &head).await.unwrap(), (200, "".into()));
        let delete = Request::delete(&format!("{base}/none")).unwrap();
        assert_eq!(ask(client, &delete).await.unwrap(), (204, "".into()));
        for is_stream in [false, true] {
            let (mut post, body) = large(&format!("{base}/echo"), is_stream);
            assert_eq!(ask(client, &post).await.unwrap(), (200, body.clone()));
            post = large(&format!("{base}/echo"), is_stream).0;
            post.headers.set("expect", "100-continue").unwrap();
            let mut response = Response::new();
            let mut reader = client.open_response(&post, &mut response).await.unwrap();
            let mut received = String::new();
            reader.read_to_string(&mut received).await.unwrap();
            assert!(received == body);
        }
        let mut response = Response::new();
        let mut call = client.open_call(&Request::put(&format!("{base}/echo")).unwrap()).await.unwrap();
        call.write_all(b"hello, ").await.unwrap();
        call.flush().await.unwrap();
        call.write_all(b"world").await.unwrap();
        let mut reader = call.finish(&mut response).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"hello, world"[..]));
        assert_eq!(reader.chunk().await.unwrap(), None);
    }
    assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0), "one connection was enough");
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let (client, url) = (client.clone(), format!("{base}/{task}"));
        tasks.spawn(async move {
            for _ in 0..20 {
                let request = Request::get(&url).unwrap();
                let (status, body) = ask(&client, &request).await.unwrap();
                assert!(status == 200 && body == format!("GET /{}", url.rsplit('/').next().unwrap()));
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(client.busy_connections(), 0);
}

/// This crate's own echo.
async fn echo(ctx: &mut Context) -> corehttp::Result {
    match (ctx.request.path(), ctx.request.method()) {
        ("/none", Method::Delete) => ctx.response.status = corehttp::Status::NO_CONTENT,
        ("/echo", _) => std::mem::swap(&mut ctx.response.body, &mut ctx.request.body),
        _ => {
            let said = format!("{} {}", ctx.request.method(), ctx.request.target());
            ctx.response.set_text(said);
        }
    }
    Ok(())
}

/// Stops a server when its test is over.
struct Stopped(ServerHandle);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop(Duration::ZERO);
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_client_talks_to_this_crates_server_over_tcp() {
    let server = Stopped(Server::bind("127.0.0.1:0").cores(1).start(echo).unwrap());
    check(&Client::new(), &format!("http://{}", server.0.local_addr())).await;
}

/// The timers of the system at the server's end of the connections to `port`, and at the client's, as it writes them:
/// `02` is for a silent peer to be asked, and `00` for nothing.
#[cfg(target_os = "linux")]
fn timers(port: u16) -> [String; 2] {
    const ESTABLISHED: &str = "01";
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let sockets = sockets.lines().map(|line| Vec::from_iter(line.split_whitespace()));
    let open = Vec::from_iter(sockets.filter(|columns| columns[3] == ESTABLISHED));
    [1, 2].map(|end| {
        let is_here = |columns: &&Vec<&str>| columns[end].ends_with(&format!(":{port:04X}"));
        let timers = open.iter().filter(is_here).filter_map(|columns| columns[5].split(':').next());
        timers.collect()
    })
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn keepalive_probes_are_sent_by_the_side_that_was_told_to_rfc9293_3_8_4() {
    let minute = Some(Duration::from_secs(60));
    for told in [[None, None], [minute, None], [None, minute], [minute, minute]] {
        let server = Server::bind("127.0.0.1:0").cores(1).tcp_keepalive(told[0]);
        let server = Stopped(server.start(echo).unwrap());
        let client = Client::builder().tcp_keepalive(told[1]).build();
        let address = server.0.local_addr();
        client.get(&format!("http://{address}/")).await.unwrap();
        let expected = told.map(|silence| if silence.is_some() { "02" } else { "00" });
        eventually("the system waits as it is told", || timers(address.port()) == expected).await;
    }
}

#[tokio::test]
async fn the_client_talks_to_this_crates_server_in_memory() {
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    let _server = Stopped(Server::bind(listener).cores(1).start(echo).unwrap());
    check(&client, "http://example.com").await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_client_talks_to_this_crates_server_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("corehttp-client-{}", std::process::id()));
    let address = format!("unix:{}", path.display());
    let _server = Stopped(Server::bind(address.as_str()).cores(1).start(echo).unwrap());
    check(&Client::builder().connect_to(path.as_path()).build(), "http://example.com").await;
}

#[tokio::test]
async fn the_client_talks_to_hyper_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(echo_of_hyper));
            tokio::spawn(serving);
        }
    });
    check(&Client::new(), &base).await;
}

async fn echo_of_hyper(
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let said = format!("{} {}", request.method(), request.uri());
    let (path, mut status) = (request.uri().path().to_owned(), 200);
    let body = match &*path {
        "/none" => {
            status = 204;
            Bytes::new()
        }
        "/echo" => request.into_body().collect().await.unwrap().to_bytes(),
        _ => said.into(),
    };
    Ok(hyper::Response::builder().status(status).body(Full::new(body)).unwrap())
}

// Elsewhere only one address of the loopback network is there from the start.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_server_sees_the_local_address_that_was_chosen() {
    let tell = |ctx: &mut Context| {
        let peer = ctx.peer_addr().to_string();
        ctx.response.set_text(peer);
    };
    let server = Stopped(Server::bind("127.0.0.1:0").cores(1).start(tell).unwrap());
    let url = format!("http://{}/", server.0.local_addr());
    for (chosen, seen) in [(None, "127.0.0.1:"), (Some([127, 0, 0, 9].into()), "127.0.0.9:")] {
        let response = Client::builder().local_address(chosen).build().get(&url).await.unwrap();
        assert!(response.body.text().unwrap().starts_with(seen), "{:?}", response.body);
    }
}

#[tokio::test]
async fn an_upgraded_connection_goes_both_ways() {
    let upgrades = async |ctx: &mut Context| -> corehttp::Result {
        let mut upgraded = ctx.upgrade("own").await?;
        let mut received = [0; 4];
        upgraded.read_exact(&mut received).await?;
        upgraded.write_all(&received).await?;
        Ok(())
    };
    let server = Stopped(Server::bind("127.0.0.1:0").cores(1).start(upgrades).unwrap());
    let mut request = Request::get(&format!("http://{}/", server.0.local_addr())).unwrap();
    request.headers.set("upgrade", "own").unwrap();
    let (client, mut response) = (Client::new(), Response::new());
    let mut tunnel = client.upgrade(&request, &mut response).await.unwrap();
    tunnel.write_all(b"ping").await.unwrap();
    let mut received = String::new();
    tunnel.read_to_string(&mut received).await.unwrap();
    assert_eq!((&*received, client.busy_connections()), ("ping", 0));
}

/// A proxy in one process: a server that forwards each piece of both bodies as it arrives.
#[tokio::test]
async fn a_proxy_written_by_hand_streams_both_ways() {
    let origin = Stopped(Server::bind("127.0.0.1:0").cores(1).start(echo).unwrap());
    let (base, client) = (format!("http://{}", origin.0.local_addr()), Client::new());
    let proxy = async move |ctx: &mut Context| -> corehttp::Result {
        let mut call = client.open_call(&ctx.request.forwarded_to(&base)?).await?;
        let mut body = ctx.body_reader();
        while let Some(chunk) = body.chunk().await? {
            call.write_all(chunk).await?;
        }
        let mut response = call.finish(&mut ctx.response).await?;
        let mut out = ctx.body_writer().await?;
        while let Some(chunk) = response.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    };
    let plan = |_: &Request| BodyPlan::Stream;
    let server =
        Stopped(Server::bind("127.0.0.1:0").cores(1).start(wrap(middleware::plan(plan), proxy)).unwrap());
    check(&Client::new(), &format!("http://{}", server.0.local_addr())).await;
}

/// The fields of the origin's own connection are not those of the one to the peer (RFC 9110 §7.6.1).
#[tokio::test]
async fn an_origin_that_closes_does_not_close_the_connection_in_front() {
    let closes = |ctx: &mut Context| -> corehttp::Result {
        ctx.response.set_text("here");
        ctx.response.headers.set("connection", "close")?;
        Ok(ctx.response.headers.set("proxy-authenticate", "Basic")?)
    };
    let origin = Stopped(Server::bind("127.0.0.1:0").cores(1).start(closes).unwrap());
    let asked = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let received = ask_in_front_of(format!("http://{}", origin.0.local_addr()), asked).await;
    assert_eq!(
        (received.matches("HTTP/1.1 200 OK").count(), received.matches("here").count()),
        (2, 2),
        "{received}"
    );
    assert!(!received.contains("proxy-authenticate"), "{received}");
}

/// A peer behind a proxy receives what the origin has sent, and judges that itself (RFC 9110 §15).
#[tokio::test]
async fn a_number_that_is_no_status_code_is_sent_on_as_it_is() {
    for code in ["600", "999"] {
        let response = format!("HTTP/1.1 {code} x\r\ncontent-length: 2\r\n\r\nno");
        let origin = Scripted::always(response).await;
        let asked = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let received = ask_in_front_of(origin.url.clone(), asked).await;
        assert!(
            received.starts_with(&format!("HTTP/1.1 {code} \r\n")) && received.ends_with("no"),
            "{received}"
        );
    }
}

/// A request about the server as a whole is forwarded as one about the server behind (RFC 9112 §3.2.4).
#[tokio::test]
async fn options_of_a_whole_server_is_asked_of_the_server_behind_it() {
    let parrot = |ctx: &mut Context| ctx.response.set_text(format!("<{}>", ctx.request.target()));
    let origin = Stopped(Server::bind("127.0.0.1:0").cores(1).start(parrot).unwrap());
    for (below, asked, expected) in [
        ("", "*", "<*>"),
        ("/", "*", "<*>"),
        ("/v1", "*", "</v1>"),
        ("", "http://a", "<*>"),
        ("", "http://a/", "</>"),
        ("", "/*", "</*>"),
    ] {
        let asked = format!("OPTIONS {asked} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let received =
            ask_in_front_of(format!("http://{}{below}", origin.0.local_addr()), asked.as_bytes()).await;
        assert!(
            received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with(expected),
            "{asked}: {received}"
        );
    }
}

/// The response to a peer that asks a server in front of `base`, until the connection closes.
async fn ask_in_front_of(base: String, request: &[u8]) -> String {
    let client = Client::new();
    let proxy = async move |ctx: &mut Context| -> corehttp::Result {
        let mut response = Response::new();
        client.send(&ctx.request.forwarded_to(&base)?, &mut response).await?;
        ctx.response = response.forwarded();
        Ok(())
    };
    let server = Stopped(Server::bind("127.0.0.1:0").cores(1).start(proxy).unwrap());
    let mut peer = tokio::net::TcpStream::connect(server.0.local_addr()).await.unwrap();
    peer.write_all(request).await.unwrap();
    let mut received = String::new();
    peer.read_to_string(&mut received).await.unwrap();
    received
}

/// Only the peer is to blame for a target that it has chosen, and for how far it may go.
#[tokio::test]
async fn a_target_that_would_leave_the_path_of_its_base_is_400_and_one_that_may_not_go_on_501() {
    let onward = |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to("http://b/v1")?;
        ctx.response.set_text(onward.target().as_str());
        Ok(())
    };
    let server = Stopped(Server::bind("127.0.0.1:0").cores(1).start(onward).unwrap());
    for (path, status, expected) in [
        ("/a", 200, "http://b/v1/a"),
        ("/../a", 400, "Bad Request"),
        ("/%2e%2e/a", 400, "Bad Request"),
        ("/a/..", 400, "Bad Request"),
    ] {
        let mut peer = tokio::net::TcpStream::connect(server.0.local_addr()).await.unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        peer.write_all(asked.as_bytes()).await.unwrap();
        let mut received = String::new();
        peer.read_to_string(&mut received).await.unwrap();
        assert!(
            received.starts_with(&format!("HTTP/1.1 {status} ")) && received.ends_with(expected),
            "{path}: {received}"
        );
    }
    let service = Server::new().service(onward);
    for (hops, status) in [("1", 200), ("0", 501)] {
        let mut request = Request::new(Method::Options, "/a").unwrap();
        request.headers.set("max-forwards", hops).unwrap();
        assert_eq!(service.respond(request).await.status.as_u16(), status, "{hops}");
    }
}
