//! The whole text of every error of a client, as `{:#}` writes it: one line that is understood without another.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use corehttp::client::{ClientLimits, HealthCheck, Proxies, Proxy, Redirects};
use corehttp::net::Resolver;
use corehttp::{Client, ClientBuilder, ClientError, Method, Request, Response};
use tokio::io::DuplexStream;
#[cfg(feature = "tls")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{OK, Scripted, Stage};

/// The error that `asked` fails with is written as `expected`, and shows no secret.
#[track_caller]
fn check<T>(asked: Result<T, ClientError>, expected: &str) {
    let Err(error) = asked else { panic!("it succeeds: {expected}") };
    assert_eq!(format!("{error:#}"), expected);
    assert_eq!(format!("{error:?}"), expected);
    let texts = [format!("{error}"), format!("{error:#?}"), format!("{:#}", io::Error::from(error))];
    assert!(!texts.concat().contains("secret"), "{texts:?}");
}

/// A request that carries secrets.
fn request(method: Method, url: &str) -> Request {
    let mut request = Request::new(method, url).unwrap();
    request.headers.set("authorization", "Bearer secret").unwrap();
    request.headers.set("cookie", "secret").unwrap();
    request
}

const URL: &str = "http://a/b?secret";

async fn ask(client: &Client, url: &str) -> Result<(), ClientError> {
    client.send(&request(Method::Get, url), &mut Response::new()).await
}

#[tokio::test(start_paused = true)]
async fn of_a_request_that_cannot_be_sent() {
    let client = Stage::always(OK).client();
    let invalid = "the url `ftp://a/b` is invalid: the scheme is neither http nor https";
    let of_url = format!("preparing the request failed: {invalid}");
    check(client.get("ftp://joe:secret@a/b?secret").await, &of_url);
    assert_eq!(client.get("ftp://a/b").await.unwrap_err().url(), None);
    // A password that was not escaped ends the authority too early for the URL to be valid.
    let of_authority = "preparing the request failed: the url `http://a/b` is invalid: the host or the port is missing \
         or malformed";
    for url in
        ["http://joe:secret#secret@a/b", "http://joe:secret?secret@a/b", "http://joe:secret/secret@a/b"]
    {
        check(client.get(url).await, of_authority);
    }
    for invalid_url in [
        client.host("ftp://a/b").err(),
        client.pipeline("ftp://a/b").err(),
        client.balance(["ftp://a/b"]).err(),
    ] {
        assert_eq!(format!("{:#}", invalid_url.unwrap()), invalid);
    }
    for url in ["localhost:80/a", "127.0.0.1:80/a", "localhost/a"] {
        let without = format!("the url `{url}` does not begin with http:// or https://");
        check(client.get(url).await, &format!("preparing the request failed: {without}"));
    }
    for invalid_url in [
        client.host("/b/http://c?secret").err(),
        client.pipeline("/b/http://c?secret").err(),
        client.balance(["/b/http://c?secret"]).err(),
        Client::builder().base_url("/b/http://c?secret").err(),
    ] {
        let without = "the url `/b/http://c` does not begin with http:// or https://";
        assert_eq!(format!("{:#}", invalid_url.unwrap()), without);
    }
    for invalid_path in ["health", "http://a/health", ""].map(|path| HealthCheck::get(path).unwrap_err()) {
        let text = format!("{invalid_path:#}");
        assert!(text.ends_with("` is invalid: a path that begins with `/` is expected"), "{text}");
    }
    let form = "the url `/b` is invalid: the target has no form that fits the request";
    let page = Request::get("http://a/b?secret").unwrap();
    assert_eq!(format!("{:#}", page.target().join("ftp://joe:secret@a/b?secret").unwrap_err()), invalid);
    assert_eq!(format!("{:#}", Request::get("/b?secret").unwrap().target().join("c").unwrap_err()), form);
    const UNFIT: &str = "preparing the request: the target is not one that can be sent here";
    check(ask(&client, "/b?secret").await, &format!("/b: {UNFIT}: it names no scheme and host"));
    let without_scheme = "//joe:secret@a/b?secret";
    check(ask(&client, without_scheme).await, &format!("//a/b: {UNFIT}: it names no scheme and host"));
    let host = client.host("http://a").unwrap();
    let elsewhere = host.send(&request(Method::Get, "http://c/b?secret"), &mut Response::new()).await;
    check(elsewhere, &format!("http://c/b: {UNFIT}: it is not at http://a"));
    let mut spent = request(Method::Post, "/b?secret");
    spent.body.set_stream(&b"once"[..], None);
    host.send(&spent, &mut Response::new()).await.unwrap();
    let expected = "http://a/b: preparing the request: the body was a stream, which can be sent only once";
    check(host.send(&spent, &mut Response::new()).await, expected);
    let mut trace = request(Method::Trace, URL);
    trace.body.set_bytes("secret");
    let expected = "http://a/b: preparing the request failed: the method must not have content";
    check(client.send(&trace, &mut Response::new()).await, expected);
    let none: [&str; 0] = [];
    let balancer = client.balance(none).unwrap().build();
    let sent = balancer.send(&request(Method::Get, "/b?secret"), &mut Response::new()).await;
    check(sent, "/b: preparing the request: the balancer has no host");
    let sent = balancer.send(&request(Method::Get, URL), &mut Response::new()).await;
    check(sent, &format!("http://a/b: {UNFIT}: it is more than a path"));
    let pipeline = client.pipeline("http://a").unwrap().build();
    let sent = pipeline.send(&request(Method::Post, "/b?secret"), &mut Response::new()).await;
    check(sent, "http://a/b: preparing the request: the request cannot be pipelined: POST");
}

#[test]
fn of_a_thread_without_a_runtime() {
    let (client, request, mut response) = (Client::new(), request(Method::Get, URL), Response::new());
    let sent = pin!(client.send(&request, &mut response));
    let std::task::Poll::Ready(sent) = sent.poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    check(sent, "http://a/b: preparing the request: there is no tokio runtime, or it has ended");
}

/// Finds no name, and never answers for others than `nowhere.example`.
struct NoNames;

impl Resolver for NoNames {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "nowhere.example" => Err(io::Error::other("no such name")),
            _ => pending().await,
        }
    }
}

fn nameless() -> ClientBuilder {
    Client::builder().resolver(NoNames).dns_ttl(Duration::ZERO)
}

/// Never connects.
struct Nowhere;

impl corehttp::net::Dialer for Nowhere {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn of_the_way_to_a_host() {
    let client = nameless().build();
    let unknown = "http://nowhere.example/b: looking up nowhere.example failed: no such name";
    check(ask(&client, "http://nowhere.example/b?secret").await, unknown);
    check(ask(&client, URL).await, "http://a/b: looking up a took longer than 5 s");
    let elsewhere = nameless().connect_to("nowhere.example:80").build();
    check(ask(&elsewhere, URL).await, "http://a/b: looking up nowhere.example failed: no such name");
    let within = client.with_timeout(Duration::from_millis(300));
    check(ask(&within, URL).await, "http://a/b: looking up a: the whole exchange took longer than 300 ms");
    let client = Client::builder().dialer(Nowhere).build();
    check(ask(&client, URL).await, "http://a/b: connecting to a:80 took longer than 10 s");
    let within = client.with_timeout(Duration::from_millis(300));
    let expected = "http://a/b: connecting to a:80: the whole exchange took longer than 300 ms";
    check(ask(&within, URL).await, expected);
    let stage = silent();
    let client = stage
        .builder()
        .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
        .build();
    let _busy = client.open_call(&request(Method::Post, URL)).await.unwrap();
    check(
        ask(&client, URL).await,
        "http://a/b: waiting for one of the 1 connections to a:80 took longer than 30 s",
    );
}

#[tokio::test]
async fn of_a_host_that_cannot_be_reached() {
    let refused = "127.0.0.1:1 cannot be reached: Connection refused (os error 111)";
    let asked = ask(&Client::new(), "http://127.0.0.1:1/b?secret").await;
    if cfg!(target_os = "linux") {
        check(asked, &format!("http://127.0.0.1:1/b: connecting to 127.0.0.1:1 failed: {refused}"));
        let client = Client::builder().connect_to("unix:/nowhere/socket").build();
        let absent = "unix:/nowhere/socket cannot be reached: No such file or directory (os error 2)";
        check(ask(&client, URL).await, &format!("http://a/b: connecting to a:80 failed: {absent}"));
    }
}

fn through(proxy: &str) -> ClientBuilder {
    let proxy = Proxy::new(proxy).unwrap().credentials("joe", "secret").unwrap();
    nameless().proxies(Proxies::all(proxy))
}

#[tokio::test(start_paused = true)]
async fn of_the_way_to_a_proxy() {
    for scheme in ["http", "socks5h"] {
        let (proxy, client) =
            (format!("{scheme}://nowhere.example:80"), through(&format!("{scheme}://nowhere.example:80")));
        let expected = format!("http://a/b: looking up the proxy {proxy} failed: no such name");
        check(ask(&client.build(), URL).await, &expected);
        let (proxy, client) = (format!("{scheme}://p:80"), through(&format!("{scheme}://p:80")).build());
        let expected = format!("http://a/b: looking up the proxy {proxy} took longer than 5 s");
        check(ask(&client, URL).await, &expected);
        let within = client.with_timeout(Duration::from_millis(300));
        for url in [URL, "https://a/b"].iter().take(if cfg!(feature = "tls") { 2 } else { 1 }) {
            let late = "the whole exchange took longer than 300 ms";
            let expected =
                format!("{}: looking up the proxy {proxy}: {late}", url.trim_end_matches("?secret"));
            check(ask(&within, url).await, &expected);
        }
        let expected = format!("http://a/b: connecting to the proxy {proxy} took longer than 10 s");
        check(ask(&through(&proxy).dialer(Nowhere).build(), URL).await, &expected);
    }
    // The client looks up the host itself.
    let expected = "http://nowhere.example/b: looking up nowhere.example failed: no such name";
    check(ask(&through("socks5://p").build(), "http://nowhere.example/b?secret").await, expected);
    let within = through("socks5://p").timeout(Duration::from_millis(300)).build();
    check(ask(&within, URL).await, "http://a/b: looking up a: the whole exchange took longer than 300 ms");
}

#[tokio::test]
async fn of_a_proxy_that_cannot_be_reached() {
    if cfg!(target_os = "linux") {
        let refused = "127.0.0.1:1 cannot be reached: Connection refused (os error 111)";
        let expected = format!("http://a/b: connecting to the proxy http://127.0.0.1:1 failed: {refused}");
        check(ask(&through("http://127.0.0.1:1").build(), URL).await, &expected);
    }
}

/// A client whose proxy at `scheme://p` gives `response`, and then closes or waits.
fn answering(scheme: &str, response: &'static [u8], waits: bool) -> Client {
    let stage = Stage::new(move |mut peer, _| async move {
        peer.send(response).await?;
        if waits { pending().await } else { peer.receive_all().await }
    });
    through(&format!("{scheme}://p")).dialer(stage).build()
}

#[tokio::test(start_paused = true)]
async fn of_a_socks_proxy_that_does_not_connect() {
    const FAILED: &str = "http://a/b: connecting to a:80 through the proxy socks5h://p:1080";
    for (response, why) in [
        (&b"\x04\x00"[..], " failed: the proxy does not speak SOCKS5"),
        (b"\x05\xff", " failed: the proxy wants another kind of authentication"),
        (b"\x05\x02\x01\x01", " failed: the proxy refused username and password"),
        (b"\x05\x00\x05\x04", " failed: the proxy did not connect: the host cannot be reached"),
        (b"\x05\x00\x05\x63", " failed: the proxy did not connect: code 99"),
        (b"\x05", " took longer than 10 s"),
    ] {
        let waits = response.len() == 1;
        check(ask(&answering("socks5h", response, waits), URL).await, &format!("{FAILED}{why}"));
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn of_a_proxy_that_opens_no_tunnel() {
    use corehttp::client::ClientTimeouts;

    for (response, why) in [
        ("", ": the proxy closed the connection without a response"),
        (
            "HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n",
            " failed: the proxy answered 407 Proxy Authentication Required",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nsecret", " failed: the proxy sent more than its response"),
        ("SSH-2.0-OpenSSH_9.2\r\n", " failed: the version is malformed: `SSH-2.0-OpenSSH_9.2`"),
        ("HTTP/1.1 200 OK\r\nx-a: se\0cret\r\n\r\n", " failed: a field value is malformed: `x-a`"),
        ("HTTP/1.1 200", " failed: the peer closed before the message was complete"),
    ] {
        let proxy = Scripted::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(response).await
        })
        .await;
        let asked = ask(&through(&proxy.url).build(), "https://a/b?secret").await;
        check(asked, &format!("https://a/b: connecting to a:443 through the proxy {}{why}", proxy.url));
    }
    let silent = Scripted::new(|peer, _| async move {
        let _open = peer;
        pending().await
    })
    .await;
    let timeouts = ClientTimeouts { connect: Duration::from_millis(50), ..ClientTimeouts::default() };
    let asked = ask(&through(&silent.url).timeouts(timeouts).build(), "https://a/b?secret").await;
    let expected =
        format!("https://a/b: connecting to a:443 through the proxy {} took longer than 50 ms", silent.url);
    check(asked, &expected);
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn of_a_handshake_that_fails() {
    let cut = Stage::new(|mut peer, _| async move {
        peer.stream.read_u8().await?;
        peer.stream.shutdown().await?;
        peer.receive_all().await
    });
    let failed = "the connection failed during the handshake: tls handshake eof";
    check(
        ask(&cut.client(), "https://a/b?secret").await,
        &format!("https://a/b: the TLS handshake with a:443 failed: {failed}"),
    );
    let silent = silent();
    check(
        ask(&silent.client(), "https://a/b?secret").await,
        "https://a/b: the TLS handshake with a:443 took longer than 10 s",
    );
    let plain = Stage::new(|mut peer, _| async move {
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n").await?;
        peer.receive_all().await
    });
    let failed = "the peer speaks plain text, such as HTTP, instead of TLS";
    check(
        ask(&plain.client(), "https://a/b?secret").await,
        &format!("https://a/b: the TLS handshake with a:443 failed: {failed}"),
    );
    let proxied = answering("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", false);
    check(
        ask(&proxied, URL).await,
        &format!("http://a/b: the TLS handshake with the proxy https://p:443 failed: {failed}"),
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_response_that_is_malformed_too_large_or_late() {
    let many = "x-a: b\r\n".repeat(129);
    let large = format!("x-a: {}\r\n", "b".repeat(64 << 10));
    for (response, why) in [
        ("HTTP/1.1 20 OK\r\n\r\n", " failed: the status line is malformed: `HTTP/1.1 20 OK`"),
        ("SSH-2.0-OpenSSH_9.2\r\n", " failed: the version is malformed: `SSH-2.0-OpenSSH_9.2`"),
        (
            "\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64",
            " failed: the version is malformed: `\\x00\\x00\\x12\\x04\\x00\\x00\\x00\\x00\\x00\\x00\\x03\\x00\\x00\\x00d`, with which the \
             peer speaks HTTP/2",
        ),
        (
            "\x15\x03\x01\0\x02\x02\x28",
            " failed: the peer speaks TLS, as for `https`, where plain HTTP was expected",
        ),
        ("HTTP/1.1 200 OK\r\nx-a: se\0cret\r\n\r\n", " failed: a field value is malformed: `x-a`"),
        ("HTTP/1.1 200 OK\r\nx a: secret\r\n\r\n", " failed: a field name is malformed: `x `"),
        (
            "HTTP/1.1 200 OK\r\nset-cookie: secret\n\r\n",
            " failed: a line does not end with CRLF: `set-cookie`",
        ),
        (
            &format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
            " failed: the head has too many fields: more than 128 fields (`fields_max`)",
        ),
        (
            &format!("HTTP/1.1 200 OK\r\n{large}\r\n"),
            " failed: the head is too large: more than 65536 bytes (`head_max`)",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            ": the switch of protocols failed: the request does not ask for it",
        ),
        (
            &"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_341),
            ": there were too many interim responses: more than 65536 bytes of them (`head_max`)",
        ),
        ("HTTP/1.1 200", " failed: the peer closed before the message was complete"),
        ("", ": the server closed the connection without a response"),
    ] {
        let response = response.to_owned();
        let stage = Stage::new(move |mut peer, _| {
            let response = response.clone();
            async move {
                peer.request().await?;
                peer.send(response).await
            }
        });
        check(ask(&stage.client(), URL).await, &format!("http://a/b: waiting for the response of a:80{why}"));
    }
    let silent = silent();
    check(
        ask(&silent.client(), URL).await,
        "http://a/b: waiting for the response of a:80 took longer than 30 s",
    );
    let within = silent.client().with_timeout(Duration::from_secs(2));
    let whole = "http://a/b: waiting for the response of a:80: the whole exchange took longer than 2 s";
    check(ask(&within, URL).await, whole);
    let pipeline = silent.client().pipeline("http://a").unwrap().build();
    let sent = pipeline.send(&request(Method::Get, "/b?secret"), &mut Response::new()).await;
    check(sent, "http://a/b: waiting for the response of a:80 took longer than 30 s");
    let mut large = request(Method::Post, URL);
    large.body.set_bytes(vec![b'x'; 1 << 20]);
    let sent = silent.client().send(&large, &mut Response::new()).await;
    check(sent, "http://a/b: sending the request to a:80 took longer than 60 s");
}

/// A server that neither reads nor says anything.
fn silent() -> Stage {
    Stage::new(|peer, _| async move {
        let _open = peer;
        pending().await
    })
}

/// Answers with a head and `begun`, and then closes or waits.
fn beginning(begun: &'static str, waits: bool) -> Stage {
    Stage::new(move |mut peer, _| async move {
        peer.request().await?;
        peer.send(begun).await?;
        if waits { pending().await } else { Ok(()) }
    })
}

#[tokio::test(start_paused = true)]
async fn of_a_body_that_is_cut_malformed_or_late() {
    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsecret";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nsecret\r\nx";
    const TRAILER: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx a: secret\r\n\r\n";
    const RECEIVING: &str = "http://a/b: receiving the body from a:80";
    for (begun, waits, why) in [
        (SIZED, false, " failed: the peer closed before the message was complete"),
        (SIZED, true, " took longer than 30 s"),
        (CHUNKED, true, " failed: a chunk size is malformed"),
        (TRAILER, true, " failed: a trailer field is malformed or forbidden: `x `"),
    ] {
        let client = beginning(begun, waits).client();
        check(ask(&client, URL).await, &format!("{RECEIVING}{why}"));
        let mut response = Response::new();
        let mut response = client.open_response(&request(Method::Get, URL), &mut response).await.unwrap();
        let end = loop {
            match response.chunk().await {
                Ok(Some(_)) => {}
                end => break end.map(drop),
            }
        };
        check(end, &format!("{RECEIVING}{why}"));
    }
    let small = beginning(SIZED, true)
        .builder()
        .limits(ClientLimits { body_max: 10, ..ClientLimits::default() })
        .build();
    let why = "the body is too large: 100 bytes, and at most 10 are allowed (`body_max`)";
    check(ask(&small, URL).await, &format!("{RECEIVING} failed: {why}"));
    let within = beginning(SIZED, true).client().with_timeout(Duration::from_secs(2));
    check(ask(&within, URL).await, &format!("{RECEIVING}: the whole exchange took longer than 2 s"));
    let host = within.host("http://a").unwrap();
    let mut call = host.open_call(&request(Method::Post, "/b?secret")).await.unwrap();
    call.write_all(b"secret").await.unwrap();
    let mut response = call.finish(&mut Response::new()).await.unwrap();
    while let Ok(Some(_)) = response.chunk().await {}
    let mut response =
        host.open_response(&request(Method::Get, "/b?secret"), &mut Response::new()).await.unwrap();
    response.chunk().await.unwrap();
    check(response.chunk().await, &format!("{RECEIVING}: the whole exchange took longer than 2 s"));
}

/// Each write after one that took too long fails like it, and names the same limit.
#[tokio::test(start_paused = true)]
async fn of_writes_after_one_that_took_too_long() {
    let mut call = silent().client().open_call(&request(Method::Post, URL)).await.unwrap();
    let mut failed = Ok(());
    while failed.is_ok() {
        failed = call.write_all(&[b'x'; 64 << 10]).await;
    }
    const LATE: &str = "http://a/b: sending the request to a:80 took longer than 60 s";
    check(failed, LATE);
    check(call.write_all(b"secret").await, LATE);
    check(call.finish(&mut Response::new()).await, LATE);
}

#[cfg(feature = "compress")]
#[tokio::test(start_paused = true)]
async fn of_coded_bodies() {
    let zeros = {
        use std::io::Write;

        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&[0; 100]).unwrap();
        encoder.finish().unwrap()
    };
    for (body, why) in [
        (zeros.clone(), "the decoded content is too large: more than 99 bytes"),
        (zeros[..zeros.len() - 1].to_vec(), "the coded content was cut short"),
        (b"secret".to_vec(), "the content does not begin as gzip does: it is coded otherwise, or not at all"),
    ] {
        let stage = Stage::new(move |mut peer, _| {
            let body = body.clone();
            async move {
                peer.request().await?;
                peer.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await?;
                peer.send(body).await
            }
        });
        let most = if why.ends_with("99 bytes") { 99 } else { 100 };
        let client = stage.builder().decode_up_to(most).build();
        check(ask(&client, URL).await, &format!("http://a/b: receiving the body from a:80 failed: {why}"));
    }
}

#[tokio::test(start_paused = true)]
async fn of_requests_that_depend_on_others() {
    let broken = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n").await?;
        peer.request().await.map(drop)
    });
    let client = broken.client();
    ask(&client, URL).await.unwrap();
    let mut endless = request(Method::Post, URL);
    endless.body.set_stream(&b"secret"[..], None);
    check(
        client.send(&endless, &mut Response::new()).await,
        "http://a/b: preparing the request: the server speaks HTTP/1.0, and the length of the body is unknown",
    );
    let pipeline = broken.client().pipeline("http://a").unwrap().allow_unsafe_methods(true).build();
    let post = |path| request(Method::Post, path);
    let (first, second, third) = (post("/1?secret"), post("/2?secret"), post("/3?secret"));
    let mut responses = [Response::new(), Response::new(), Response::new()];
    let [one, two, three] = &mut responses;
    let (_, _, last) =
        tokio::join!(pipeline.send(&first, one), pipeline.send(&second, two), pipeline.send(&third, three));
    check(last, "http://a/3: waiting for the response of a:80: the connection broke on another request");
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn of_a_host_that_no_certificate_is_for() {
    let host =
        "https://a..b/b: the TLS handshake with a..b:443 failed: no certificate can be issued for the host";
    check(ask(&silent().client(), "https://a..b/b?secret").await, host);
    let refusing = Stage::new(|mut peer, _| async move {
        peer.stream.read_u8().await?;
        // A fatal alert: handshake_failure (RFC 8446 §6.2).
        peer.send([0x15, 3, 3, 0, 2, 2, 40]).await?;
        peer.receive_all().await
    });
    check(
        ask(&refusing.client(), "https://a/b?secret").await,
        "https://a/b: the TLS handshake with a:443 failed: the peer refused with an alert of TLS: received fatal alert: HandshakeFailure",
    );
}

#[tokio::test(start_paused = true)]
async fn of_redirects_and_upgrades() {
    let redirecting = |location: &'static str| {
        Stage::answering(move |_| format!("HTTP/1.1 302 Found\r\n{location}content-length: 0\r\n\r\n"))
            .client()
    };
    const FOLLOWING: &str = "http://a/b: following the redirect";
    let client = redirecting("location: /b?secret\r\n").with_redirects(Redirects::Follow(3));
    check(
        ask(&client, URL).await,
        &format!("{FOLLOWING}: there were too many in a row: at most 3 are followed"),
    );
    let client = redirecting("location: ftp://secret/\r\n");
    let unfit = "its field location is empty, or not a URL that can be requested";
    check(ask(&client, URL).await, &format!("{FOLLOWING}: {unfit}: the scheme is neither http nor https"));
    check(ask(&redirecting("location:\r\n"), URL).await, &format!("{FOLLOWING}: {unfit}"));
    let client = redirecting("location: /secret\r\nlocation: /other\r\n");
    check(ask(&client, URL).await, &format!("{FOLLOWING}: its fields location lead to several places"));
    let client = Stage::always("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").client();
    let mut upgrade = request(Method::Get, URL);
    upgrade.headers.set("upgrade", "echo").unwrap();
    let refused = "the switch of protocols failed: the server answered 403 Forbidden";
    let asked = client.upgrade(&upgrade, &mut Response::new()).await;
    check(asked, &format!("http://a/b: waiting for the response of a:80: {refused}"));
}

/// A request has one line for its error, and what is in it can be asked for.
#[tokio::test]
async fn an_error_has_the_url_and_the_peer() {
    let server = Scripted::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await?;
        peer.receive_all().await
    })
    .await;
    let (url, address) = (format!("{}/b?secret", server.url), server.url.replace("http://", ""));
    let client = Client::new().with_timeout(Duration::from_millis(100));
    let error = client.get(&url).await.unwrap_err();
    assert_eq!((error.url(), error.url_with_query()), (Some(&*format!("{}/b", server.url)), Some(&*url)));
    assert_eq!(error.peer_addr().unwrap().to_string(), address);
    let expected = format!(
        "{}/b: receiving the body from {address}: the whole exchange took longer than 100 ms",
        server.url
    );
    assert_eq!(format!("{error:#}"), expected);
    assert_eq!(format!("{:#}", io::Error::from(error)), expected);
}
