//! Requests as they are sent (RFC 9112 §3, §6; RFC 9110 §10.1.1), and those that never are.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, ClientTimeouts, CookieStore, Proxies, Proxy};
use corehttp::error::ExchangeError;
use corehttp::error::{MessageError, TargetError};
use corehttp::{Client, ClientBuilder, ClientError, Headers, Method, Request, Response, Target};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, repeat};
use tokio::time::{Instant, sleep};

use crate::support::{OK, Stage, ask, get, post, settle};

/// The octets of `request` that a server receives.
async fn received(request: &Request) -> String {
    let stage = Stage::always(OK);
    assert_eq!(ask(&stage.client(), request).await.unwrap().0, 200);
    stage.received().pop().unwrap()
}

async fn check(method: Method, url: &str, set: impl FnOnce(&mut Request), expected: &str) {
    let mut request = Request::new(method, url).unwrap();
    set(&mut request);
    assert_eq!(received(&request).await, expected, "{method} {url}");
}

#[tokio::test(start_paused = true)]
async fn the_target_is_a_path_and_host_comes_first_rfc9112_3_2() {
    for (url, line, host) in [
        ("http://a", "/", "a"),
        ("http://a/", "/", "a"),
        ("http://a?b", "/?b", "a"),
        ("http://a/#b", "/", "a"),
        ("http://a#b/c", "/", "a"),
        ("http://a/b?c#d?e", "/b?c", "a"),
        ("http://a/b//../c%2F?d=%20", "/b/c%2F?d=%20", "a"),
        ("http://a?", "/?", "a"),
        ("HTTP://A.b/C", "/C", "a.b"),
        ("http://a:80/", "/", "a"),
        ("http:\\\\a\\b c|d\u{e9}%", "/b%20c%7Cd%C3%A9%25", "a"),
        (" http://a/\tb?c='d'\r\n", "/b?c=%27d%27", "a"),
        ("http://0x7f.1:8080/", "/", "127.0.0.1:8080"),
        ("http://a/ HTTP/1.1\r\nhost: b\r\n\r\n", "/%20HTTP/1.1host:%20b", "a"),
        ("http://a:8080/", "/", "a:8080"),
        ("http://127.0.0.1/", "/", "127.0.0.1"),
        ("http://[::1]:8080/", "/", "[::1]:8080"),
    ] {
        check(Method::Get, url, |_| {}, &format!("GET {line} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
    }
    check(Method::Options, "http://a", |_| {}, "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n").await;
    check(Method::Options, "http://a/", |_| {}, "OPTIONS / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let own = |request: &mut Request| {
        request.headers.set("a", "b").unwrap();
        request.headers.set("host", "c").unwrap();
        request.headers.append("Host", "d").unwrap();
        request.headers.append("A", "e").unwrap();
    };
    check(Method::Get, "http://a/", own, "GET / HTTP/1.1\r\nhost: c\r\na: b\r\nA: e\r\n\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_is_framed_once_and_only_where_there_is_one_rfc9112_6() {
    let (none, zero) = ("", "content-length: 0\r\n");
    for (method, framing) in [
        (Method::Get, none),
        (Method::Head, none),
        (Method::Delete, none),
        (Method::Options, none),
        (Method::Post, zero),
        (Method::Put, zero),
        (Method::Patch, zero),
        (Method::Query, zero),
    ] {
        let head = |framing: &str| format!("{method} /b HTTP/1.1\r\nhost: a\r\n{framing}\r\n");
        let sized = |request: &mut Request| request.body.set_bytes("hello");
        let chunked = |request: &mut Request| request.body.set_stream(&b"hello"[..], None);
        let known = |request: &mut Request| request.body.set_stream(&b"hello"[..], Some(5));
        let trailed = |request: &mut Request| {
            request.body.set_bytes("hello");
            request.trailers.set("x-sum", 1).unwrap();
        };
        let contrary = |request: &mut Request| {
            request.headers.set("content-length", 3).unwrap();
            request.headers.set("transfer-encoding", "gzip").unwrap();
            request.body.set_bytes("hello");
        };
        let (five, chunks) = ("content-length: 5\r\n", "transfer-encoding: chunked\r\n");
        let only_trailed = |request: &mut Request| request.trailers.set("x-sum", 1).unwrap();
        check(method, "http://a/b", |_| {}, &head(framing)).await;
        check(method, "http://a/b", only_trailed, &head(framing)).await;
        check(method, "http://a/b", |request| request.body.set_bytes(""), &head(zero)).await;
        check(method, "http://a/b", sized, &format!("{}hello", head(five))).await;
        check(method, "http://a/b", known, &format!("{}hello", head(five))).await;
        check(method, "http://a/b", contrary, &format!("{}hello", head(five))).await;
        check(method, "http://a/b", chunked, &format!("{}5\r\nhello\r\n0\r\n\r\n", head(chunks))).await;
        let end = "5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
        check(method, "http://a/b", trailed, &format!("{}{end}", head(chunks))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connection_says_what_the_request_wants_rfc9112_9_6_rfc9110_7_6_1() {
    let ask = |fields: &'static [(&str, &str)]| {
        move |request: &mut Request| {
            fields.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap())
        }
    };
    let head = "GET / HTTP/1.1\r\nhost: a\r\n";
    for (fields, expected) in [
        (&[("connection", "close")][..], "connection: close\r\n"),
        (&[("connection", "x"), ("Connection", "Close")], "connection: close, x\r\n"),
        (&[("connection", "x-hop"), ("x-hop", "1")], "x-hop: 1\r\nconnection: x-hop\r\n"),
        (&[("connection", ", keep-alive,")], ""),
        (&[("connection", "upgrade, TE")], ""),
        (&[("te", "trailers")], "te: trailers\r\nconnection: te\r\n"),
        (&[("TE", "gzip"), ("connection", "te, x")], "TE: gzip\r\nconnection: te, x\r\n"),
        (&[("te", "a"), ("connection", "close")], "te: a\r\nconnection: close, te\r\n"),
        (&[("te", "a"), ("upgrade", "x")], "te: a\r\nupgrade: x\r\nconnection: upgrade, te\r\n"),
        (&[("connection", "keep-alive")], ""),
        (&[("upgrade", "x")], "upgrade: x\r\nconnection: upgrade\r\n"),
        (&[("connection", "Upgrade"), ("upgrade", "x")], "upgrade: x\r\nconnection: upgrade\r\n"),
        (&[("connection", "keep-alive, Upgrade"), ("upgrade", "x")], "upgrade: x\r\nconnection: upgrade\r\n"),
        (&[("upgrade", "x"), ("connection", "close")], "upgrade: x\r\nconnection: close, upgrade\r\n"),
    ] {
        check(Method::Get, "http://a/", ask(fields), &format!("{head}{expected}\r\n")).await;
    }
    let stage = Stage::always(OK);
    let (client, mut request) = (stage.client(), get());
    request.headers.set("connection", "close").unwrap();
    for _ in 0..2 {
        assert_eq!(self::ask(&client, &request).await.unwrap().0, 200);
    }
    assert_eq!((stage.dialed().len(), client.idle_connections()), (2, 0), "close is meant");
}

#[tokio::test(start_paused = true)]
async fn fields_of_the_client_come_behind_those_of_the_request() {
    let stage = Stage::always(OK);
    let builder =
        stage.builder().default_header("user-agent", "test").unwrap().default_header("x-a", 1).unwrap();
    let builder = builder.default_header("te", "trailers").unwrap();
    let framing = [
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("host", "evil"),
        // A server could take up the offer in response to any request.
        ("upgrade", "other"),
        // Not without content (RFC 9110 §10.1.1).
        ("expect", "100-continue"),
    ];
    let client = framing
        .iter()
        .fold(builder, |builder, (name, value)| builder.default_header(name, *value).unwrap())
        .build();
    let mut request = get();
    request.headers.set("x-b", 2).unwrap();
    request.headers.set("X-A", 3).unwrap();
    ask(&client, &request).await.unwrap();
    let expected = "GET / HTTP/1.1\r\nhost: a\r\nx-b: 2\r\nX-A: 3\r\nuser-agent: test\r\nte: trailers\r\nconnection: te\r\n\r\n";
    assert_eq!(stage.received(), [expected], "what frames or routes a request is not for all of them to say");
}

/// All that a TRACE carries is sent back. Found as one that was sent with its content.
#[tokio::test(start_paused = true)]
async fn a_trace_has_no_content_and_tells_no_secrets_rfc9110_9_3_8() {
    let sets: [fn(&mut Request); 5] = [
        |request| request.body.set_bytes("hello"),
        |request| request.body.set_shared_bytes("hello"),
        |request| request.body.set_stream(&b"hello"[..], Some(5)),
        |request| request.body.set_stream(&b"hello"[..], None),
        |request| {
            request.body.set_bytes("hello");
            request.trailers.set("x-sum", 1).unwrap();
        },
    ];
    let builder = |stage: &Stage| {
        let builder = stage.builder().cookie_store(Arc::new(Careless("sid=1")));
        builder.default_header("authorization", "Basic YTpi").unwrap().default_header("x-a", 1).unwrap()
    };
    let refuse = |asked: Result<(), ClientError>, case: &str| {
        let error = asked.unwrap_err();
        let is_of_content =
            matches!(error.cause(), ClientCause::Request(cause) if *cause == MessageError::Content);
        assert!(
            is_of_content && error.phase() == ClientPhase::Prepare && !error.is_sent(),
            "{case}: {error:?}"
        );
    };
    let (stage, mut response) = (Stage::always(OK), Response::new());
    let client = builder(&stage).build();
    let host = client.host("http://a").unwrap();
    let balancer = client.balance(["http://a"]).unwrap().build();
    let pipeline = client.pipeline("http://a").unwrap().build();
    for (number, set) in sets.into_iter().enumerate() {
        let mut request = Request::new(Method::Trace, "http://a/").unwrap();
        set(&mut request);
        refuse(client.send(&request, &mut response).await, &format!("send {number}"));
        refuse(client.open_response(&request, &mut response).await.map(drop), &format!("stream {number}"));
        refuse(client.upgrade(&request, &mut response).await.map(drop), &format!("upgrade {number}"));
        refuse(host.send(&request, &mut response).await, &format!("host {number}"));
        if number < 2 {
            refuse(pipeline.send(&request, &mut response).await, &format!("pipeline {number}"));
        }
        request.set_url("/").unwrap();
        refuse(balancer.send(&request, &mut response).await, &format!("balancer {number}"));
    }
    for (name, value) in [("content-length", "5"), ("transfer-encoding", "chunked")] {
        let mut request = Request::new(Method::Trace, "http://a/").unwrap();
        request.headers.set(name, value).unwrap();
        refuse(client.open_call(&request).await.map(drop), name);
    }
    assert_eq!((stage.dialed().len(), client.busy_connections()), (0, 0));

    let asked = "TRACE /b HTTP/1.1\r\nhost: a\r\nx-a: 1\r\n\r\n";
    let mut request = Request::new(Method::Trace, "http://a/b").unwrap();
    client.send(&request, &mut response).await.unwrap();
    pipeline.send(&request, &mut response).await.unwrap();
    drop(client.open_call(&request).await.unwrap());
    assert_eq!(stage.received(), [asked; 3]);
    // The fields of the request stay, and so does content of no length.
    request.headers.set("authorization", "its own").unwrap();
    request.body.set_bytes("");
    client.send(&request, &mut response).await.unwrap();
    let asked =
        "TRACE /b HTTP/1.1\r\nhost: a\r\nauthorization: its own\r\nx-a: 1\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(stage.received(), [asked]);
}

/// Nothing is dialed for a request that would break a line, or names no host.
#[tokio::test(start_paused = true)]
async fn row_83_an_invalid_request_is_refused_before_anything_is_dialed() {
    let stage = Stage::always(OK);
    let client = stage.client();
    for (url, expected) in [
        ("http://a\0/", TargetError::Authority),
        ("http://a b/", TargetError::Authority),
        ("http://a%0d%0ab/", TargetError::Authority),
        ("http://a:0x50/", TargetError::Authority),
        ("http://a:65536/", TargetError::Authority),
        ("http://1.2.3.256/", TargetError::Authority),
        ("http://", TargetError::Authority),
        ("http://user:%0d%0a@a/", TargetError::Userinfo),
        ("ftp://a/", TargetError::Scheme),
        ("javascript:alert(1)", TargetError::Scheme),
        ("a/b", TargetError::Form),
        ("", TargetError::Form),
        ("*", TargetError::Form),
    ] {
        let error = client.get(url).await.unwrap_err();
        let found = match error.cause() {
            ClientCause::Request(MessageError::Target(found, Some(_))) => *found,
            cause => panic!("{url:?}: {cause:?}"),
        };
        assert_eq!(found, expected, "{url:?}");
        assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, false));
    }
    for method in ["", "GE T", "GET\r\n", "GET / HTTP/1.1\r\nx: y\r\n\r\nGET", "G\0T", "G(T", "\u{e9}"] {
        let error = Request::new(method, "http://a/").unwrap_err();
        assert!(matches!(error, MessageError::Method(_)), "{method:?}: {error}");
    }
    let mut request = get();
    for (name, value) in
        [("a\r\nb", "c"), ("a b", "c"), ("", "c"), ("a", "b\r\nc: d"), ("a", "b\0"), ("a", "b\n c")]
    {
        assert!(request.headers.set(name, value).is_err() && request.trailers.append(name, value).is_err());
        assert!(Client::builder().default_header(name, value).is_err(), "{name:?}: {value:?}");
    }
    assert!(request.headers.is_empty() && request.trailers.is_empty());
    let nowhere = client.get("/b").await.unwrap_err();
    assert!(matches!(nowhere.cause(), ClientCause::Origin), "{nowhere:?}");
    let tunnel = ask(&client, &Request::new(Method::Connect, "http://a/").unwrap()).await.unwrap_err();
    assert_eq!(tunnel.phase(), ClientPhase::Prepare, "{tunnel:?}");
    assert_eq!((stage.dialed().len(), client.busy_connections()), (0, 0));
}

/// A user and a password in a URL are sent as browsers, curl and Go send them, and nowhere else.
#[tokio::test(start_paused = true)]
async fn a_user_and_a_password_in_a_url_are_sent_as_basic_rfc7617_2() {
    let basic = "authorization: Basic am9lOnNAY3JldA==\r\n";
    let url = "http://joe:s%40cret@a/b";
    let head = |line: &str, fields: &str| format!("{line} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    check(Method::Get, url, |_| {}, &head("GET /b", basic)).await;
    let own = |request: &mut Request| request.set_bearer_auth("t").unwrap();
    check(Method::Get, url, own, &head("GET /b", "authorization: Bearer t\r\n")).await;
    // The response to a TRACE repeats all that it carries (RFC 9110 §9.3.8).
    check(Method::Trace, url, |_| {}, &head("TRACE /b", "")).await;

    let stage = Stage::always(OK);
    let client = stage.builder().default_header("authorization", "Bearer default").unwrap().build();
    let mut response = client.get(url).await.unwrap();
    assert_eq!(response.url.as_deref(), Some("http://a/b"));
    let (pipeline, host) = (client.pipeline("http://a").unwrap().build(), client.host("http://a").unwrap());
    pipeline.send(&Request::get(url).unwrap(), &mut response).await.unwrap();
    host.send(&Request::get(url).unwrap(), &mut response).await.unwrap();
    let call = client.open_call(&Request::get(url).unwrap()).await.unwrap();
    drop(call);
    assert_eq!(stage.received(), vec![head("GET /b", basic); 4]);
    let proxied = stage.builder().proxies(Proxies::all(Proxy::new("proxy").unwrap())).build();
    proxied.get(url).await.unwrap();
    assert_eq!(stage.received(), [head("GET http://a/b", basic)]);

    // These stand for all requests to an origin, and it has no credentials.
    let refused = MessageError::Target(TargetError::Userinfo, Some("`http://a/b`".into()));
    assert_eq!(client.host(url).unwrap_err(), refused);
    assert_eq!(client.pipeline(url).unwrap_err(), refused);
    assert_eq!(client.balance([url]).unwrap_err(), refused);
    let silent = Client::builder().dialer(Stage::always("")).build();
    let error = silent.get(url).await.unwrap_err();
    assert!(
        ![format!("{error:#}"), format!("{error:?}")].iter().any(|text| text.contains("cret")),
        "{error:?}"
    );
}

/// A caller that overlooks the error finds no response to an earlier request.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_leaves_no_response_behind() {
    let client = Stage::always(OK).client();
    let (host, pipeline) = (client.host("http://a").unwrap(), client.pipeline("http://a").unwrap().build());
    let balancer = client.balance(["http://a"]).unwrap().build();
    let (elsewhere, mut response) = (Request::get("http://b/").unwrap(), Response::new());
    for way in 0..7 {
        response.set_text("of another response");
        let refused = match way {
            0 => host.send(&elsewhere, &mut response).await,
            1 => host.open_response(&elsewhere, &mut response).await.map(drop),
            2 => host.upgrade(&elsewhere, &mut response).await.map(drop),
            3 => pipeline.send(&elsewhere, &mut response).await,
            4 => balancer.send(&elsewhere, &mut response).await,
            5 => balancer.open_response(&elsewhere, &mut response).await.map(drop),
            _ => balancer.upgrade(&elsewhere, &mut response).await.map(drop),
        };
        assert!(matches!(refused.unwrap_err().cause(), ClientCause::Origin), "{way}");
        assert!(response.body.is_empty() && response.headers.is_empty(), "{way}");
    }
}

/// A store that does not check its cookies.
struct Careless(&'static str);

impl CookieStore for Careless {
    fn cookie_header(&self, _: &Target) -> Option<Vec<u8>> {
        Some(self.0.into())
    }

    fn store(&self, _: &Target, _: &Headers) {}
}

/// The field of a store must not be written as it is, with all that is behind the end of a line.
#[tokio::test(start_paused = true)]
async fn a_cookie_that_would_break_a_line_is_not_sent() {
    for (said, line) in [
        ("a=b; c=d", "cookie: a=b; c=d\r\n"),
        ("a=b\r\nx: y", ""),
        ("a=b\nx: y", ""),
        ("a=b\r\n\r\nGET /evil HTTP/1.1\r\nhost: a", ""),
        ("a=\0", ""),
        ("a=\x7f", ""),
    ] {
        let stage = Stage::always(OK);
        let client = stage.builder().cookie_store(Arc::new(Careless(said))).build();
        ask(&client, &get()).await.unwrap();
        let pipeline = client.pipeline("http://a").unwrap().build();
        pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap();
        let expected = format!("GET / HTTP/1.1\r\nhost: a\r\n{line}\r\n");
        assert_eq!(stage.received(), [expected.clone(), expected], "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_another_length_than_announced_ends_the_connection() {
    for length in [4, 6] {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.receive_all().await
        });
        let (client, mut request) = (stage.client(), post());
        request.body.set_stream(&b"hello"[..], Some(length));
        let error = ask(&client, &request).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Length)), "{error:?}");
        assert_eq!(
            (error.phase(), client.idle_connections(), client.busy_connections()),
            (ClientPhase::Send, 0, 0)
        );
        settle().await;
        assert!(stage.received().concat().len() <= length as usize, "a length of {length} was kept");
    }
    let (client, mut request) = (Stage::always(OK).client(), post());
    request.body.set_stream(Fails, None);
    let error = ask(&client, &request).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Source(_))), "{error:?}");
    let spent = ask(&client, &request).await.unwrap_err();
    assert!(matches!(spent.cause(), ClientCause::BodyConsumed), "{spent:?}");
    assert_eq!((spent.phase(), client.busy_connections()), (ClientPhase::Prepare, 0));
}

/// A source that fails at once.
struct Fails;

impl AsyncRead for Fails {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other("the disk is on fire")))
    }
}

/// A request whose body waits for `100 Continue`.
fn expecting() -> Request {
    let mut request = post();
    request.headers.set("Expect", "100-Continue").unwrap();
    request.body.set_bytes("hello");
    request
}

#[tokio::test(start_paused = true)]
async fn a_request_without_content_expects_nothing_rfc9110_10_1_1() {
    let expecting = |request: &mut Request| {
        request.headers.set("Expect", "100-continue").unwrap();
        request.headers.set("a", "b").unwrap();
    };
    check(Method::Get, "http://a/", expecting, "GET / HTTP/1.1\r\nhost: a\r\na: b\r\n\r\n").await;
    let empty = "POST / HTTP/1.1\r\nhost: a\r\na: b\r\ncontent-length: 0\r\n\r\n";
    check(Method::Post, "http://a/", expecting, empty).await;
    // The server would not say 100: the request must not wait for it.
    let streamed = |request: &mut Request| {
        expecting(request);
        request.body.set_stream(tokio::io::empty(), Some(0));
    };
    check(Method::Post, "http://a/", streamed, empty).await;
}

#[tokio::test(start_paused = true)]
async fn an_expecting_body_waits_for_100_rfc9110_10_1_1() {
    for early in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 100 x\r\nlink: a\r\n\r\n"]
    {
        for cut in 0..=early.len() {
            let stage = Stage::new(move |mut peer, _| async move {
                while peer.head().await?.is_some() {
                    let mut body = [0; 5];
                    peer.send_cut(early, cut).await?;
                    peer.stream.read_exact(&mut body).await?;
                    peer.send(format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{}",
                        str::from_utf8(&body).unwrap()
                    ))
                    .await?;
                }
                Ok(())
            });
            let (client, start) = (stage.client(), Instant::now());
            for _ in 0..2 {
                assert_eq!(ask(&client, &expecting()).await.unwrap(), (200, "hello".into()), "cut at {cut}");
            }
            assert_eq!((start.elapsed(), stage.dialed().len()), (Duration::ZERO, 1));
        }
    }
}

/// A server that sends 100 gets the body at once. The write of the body must not take the 100 and
/// wait on.
#[tokio::test(start_paused = true)]
async fn a_written_body_leaves_when_100_comes_rfc9110_10_1_1() {
    for silence in [0, 1, 500].map(Duration::from_millis) {
        let stage = Stage::new(move |mut peer, _| async move {
            let mut body = [0; 15];
            peer.head().await?;
            sleep(silence).await;
            peer.send("HTTP/1.1 100 Continue\r\n\r\n").await?;
            peer.stream.read_exact(&mut body).await?;
            peer.send(if body == *b"5\r\nhello\r\n0\r\n\r\n" { OK } else { "" }).await
        });
        let (client, mut response, start) = (stage.client(), Response::new(), Instant::now());
        let mut call = client.open_call(&expecting()).await.unwrap();
        call.write_all(b"hello").await.unwrap();
        drop(call.finish(&mut response).await.unwrap());
        let (mut writer, mut reader) = client.open_call(&expecting()).await.unwrap().split();
        writer.write_all(b"hello").await.unwrap();
        writer.finish().await.unwrap();
        reader.head(&mut response).await.unwrap();
        let call = client.open_call(&expecting()).await.unwrap();
        let (mut writer, mut reader) = call.split();
        let writes = tokio::spawn(async move {
            writer.write_all(b"hello").await?;
            writer.finish().await
        });
        reader.head(&mut response).await.unwrap();
        writes.await.unwrap().unwrap();
        assert_eq!(start.elapsed(), 3 * silence);
    }
}

#[tokio::test(start_paused = true)]
async fn without_100_the_body_is_sent_after_a_while_rfc9110_10_1_1() {
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let timeouts =
        ClientTimeouts { expect_continue: Duration::from_millis(300), ..ClientTimeouts::default() };
    let (client, start) = (stage.builder().timeouts(timeouts).build(), Instant::now());
    assert_eq!(ask(&client, &expecting()).await.unwrap(), (200, "ok".into()));
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_millis(310), "{waited:?}");
    assert_eq!(client.idle_connections(), 1);
    let mut empty = expecting();
    empty.body.clear();
    assert_eq!(ask(&client, &empty).await.unwrap(), (200, "ok".into()));
    assert!(start.elapsed() < Duration::from_millis(310), "no body, no wait");
    let mut call = client.open_call(&expecting()).await.unwrap();
    call.write_all(b"hello").await.unwrap();
    let mut response = Response::new();
    call.finish(&mut response).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(600) && start.elapsed() < Duration::from_millis(620));
    assert!(stage.received().pop().unwrap().ends_with("5\r\nhello\r\n0\r\n\r\n"));
}

/// The wait for 100 is over then. The body has a time of its own, though the server may not even have read the head.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_sent_without_100_has_its_own_time_rfc9110_10_1_1() {
    let mut request = expecting();
    let head = received(&request).await.len() - "hello".len();
    // It fills the pipe.
    request.headers.set("x-full", "x".repeat((64 << 10) - head - "x-full: \r\n".len())).unwrap();
    let stage = Stage::new(|peer, _| async move {
        sleep(Duration::from_secs(9)).await;
        peer.answer(OK).await
    });
    assert_eq!(ask(&stage.client(), &request).await.unwrap(), (200, "ok".into()));
}

/// The body is not sent, and the connection is not used again: the server may or may not wait for the body.
#[tokio::test(start_paused = true)]
async fn a_final_answer_instead_of_100_is_the_response_rfc9110_10_1_1() {
    for status in ["401 Unauthorized", "200 OK"] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send(format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nno")).await?;
            peer.receive_all().await
        });
        let client = stage.client();
        let response = ask(&client, &expecting()).await.unwrap();
        assert_eq!(response, (status[..3].parse().unwrap(), "no".into()));
        settle().await;
        assert_eq!(
            (&*stage.received().concat(), client.idle_connections(), client.busy_connections()),
            ("", 0, 0)
        );
    }
}

/// A server that answers 417 to whoever expects something, and else tells the body.
fn unexpecting() -> Stage {
    Stage::new(|mut peer, _| async move {
        while let Some(mut request) = peer.head().await? {
            if request.to_ascii_lowercase().contains("\r\nexpect: ") {
                peer.send("HTTP/1.1 417 x\r\nx-refused: 1\r\ncontent-length: 2\r\n\r\nno").await?;
                continue;
            }
            let head = request.len();
            peer.content(&mut request).await?;
            let body = &request[head..];
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await?;
        }
        Ok(())
    })
}

/// The refusal says nothing about the request but that nobody on the way knows what it expects.
#[tokio::test(start_paused = true)]
async fn a_refused_expectation_is_dropped_and_the_request_sent_again_rfc9110_10_1_1() {
    let shared = |request: &mut Request| request.body.set_shared_bytes("hello");
    let streamed = |request: &mut Request| request.body.set_stream(&b"hello"[..], Some(5));
    let plain: fn(&mut Request) = |_| {};
    for set in [plain, shared, streamed] {
        let (stage, mut request) = (unexpecting(), expecting());
        request.headers.append("Expect", ", 100-continue,").unwrap();
        request.headers.set("a", "b").unwrap();
        set(&mut request);
        let (client, mut response, start) = (stage.client(), Response::new(), Instant::now());
        client.send(&request, &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.text()), (200, Ok("hello")));
        assert!(!response.headers.contains("x-refused") && start.elapsed() == Duration::ZERO);
        assert!(request.headers.contains("expect"), "the request is the caller's");
        settle().await;
        assert_eq!((stage.dialed().len(), client.idle_connections(), client.busy_connections()), (2, 1, 0));
        // Through a host as well, and piece by piece.
        let mut request = expecting();
        set(&mut request);
        let mut reply =
            client.host("http://a").unwrap().open_response(&request, &mut response).await.unwrap();
        assert_eq!(reply.chunk().await.unwrap(), Some(&b"hello"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_417_is_the_response_if_the_request_cannot_be_sent_again_rfc9110_10_1_1() {
    // It expects nothing, or something else, or has no body, which would be all that waits.
    for (expects, body) in [(None, "hello"), (Some("x"), "hello"), (Some("100-continue"), "")] {
        let stage = Stage::always("HTTP/1.1 417 x\r\ncontent-length: 2\r\n\r\nno");
        let mut request = post();
        request.body.set_bytes(body);
        expects.iter().for_each(|expects| request.headers.set("expect", *expects).unwrap());
        assert_eq!(ask(&stage.client(), &request).await.unwrap(), (417, "no".into()));
        assert_eq!(stage.received().len(), 1, "{expects:?}");
    }
    // The second time, too.
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 417 x\r\ncontent-length: 2\r\n\r\nno").await?;
        peer.receive_all().await
    });
    assert_eq!(ask(&stage.client(), &expecting()).await.unwrap(), (417, "no".into()));
    assert_eq!(stage.dialed().len(), 2);
    // Some of the stream is gone.
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 417 x\r\ncontent-length: 2\r\n\r\nno").await
    });
    let mut request = expecting();
    request.body.set_stream(&b"hello"[..], None);
    assert_eq!(ask(&stage.client(), &request).await.unwrap(), (417, "no".into()));
    // A body that is written has no copy.
    let mut call = unexpecting().client().open_call(&expecting()).await.unwrap();
    call.write_all(b"hello").await.unwrap();
    let mut response = Response::new();
    call.finish(&mut response).await.unwrap();
    assert_eq!(response.status.as_u16(), 417);
}

/// Empty elements of the list are no expectation, and the same one twice is one (RFC 9110 §5.6.1.2).
#[tokio::test(start_paused = true)]
async fn an_expectation_is_read_as_a_list_rfc9110_10_1_1() {
    for (lines, waits) in [
        (&["100-continue"][..], true),
        (&[",100-Continue , "], true),
        (&["", "100-continue, 100-CONTINUE"], true),
        (&["100-continue", "100-continue"], true),
        (&[""], false),
        (&[", ,"], false),
    ] {
        let stage = Stage::always(OK);
        let (client, start, mut request) = (stage.client(), Instant::now(), post());
        request.body.set_bytes("hello");
        lines.iter().for_each(|line| request.headers.append("expect", *line).unwrap());
        assert_eq!(ask(&client, &request).await.unwrap().0, 200);
        assert_eq!(start.elapsed() >= Duration::from_secs(1), waits, "{lines:?}");
    }
}

/// A server that has answered in HTTP/1.0 would not find the end of chunks (RFC 9112 §6.1).
#[tokio::test(start_paused = true)]
async fn a_server_of_1_0_is_sent_no_chunks_rfc9112_6_1() {
    let stage = Stage::answering(|request| {
        let version = if request.contains("/new ") { "1.1" } else { "1.0" };
        format!("HTTP/{version} 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok")
    });
    let (client, mut response) = (stage.client(), Response::new());
    let mut chunked = post();
    let stream = |request: &mut Request| request.body.set_stream(&b"hello"[..], None);
    stream(&mut chunked);
    // Nothing is known of it yet.
    client.send(&chunked, &mut response).await.unwrap();
    assert!(stage.received().concat().ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    stream(&mut chunked);
    let mut written = post();
    let refused = [client.send(&chunked, &mut response).await, client.open_call(&written).await.map(drop)];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(error.cause(), ClientCause::LengthRequired), "{error:#}");
        assert_eq!(
            (error.phase(), error.is_sent(), error.status().as_u16()),
            (ClientPhase::Prepare, false, 411)
        );
    }
    assert_eq!(stage.received().len(), 0);
    // With a length, no chunks are needed, though trailers would be sent in some.
    let mut sized = post();
    sized.body.set_bytes("hello");
    sized.trailers.set("x-sum", 1).unwrap();
    client.send(&sized, &mut response).await.unwrap();
    assert!(stage.received().concat().ends_with("\r\ncontent-length: 5\r\n\r\nhello"));
    written.headers.set("content-length", 5).unwrap();
    let mut call = client.open_call(&written).await.unwrap();
    call.write_all(b"hello").await.unwrap();
    call.finish(&mut response).await.unwrap();
    assert!(stage.received().concat().ends_with("\r\ncontent-length: 5\r\n\r\nhello"));
    // Nothing is known of others, or if it was long ago, or has changed since.
    chunked.set_url("http://other/").unwrap();
    client.send(&chunked, &mut response).await.unwrap();
    for later in [true, false] {
        match later {
            true => sleep(Duration::from_secs(61)).await,
            false => _ = client.get("http://a/new").await.unwrap(),
        }
        let mut request = post();
        stream(&mut request);
        client.send(&request, &mut response).await.unwrap();
        assert!(stage.received().concat().ends_with("0\r\n\r\n"), "{later}");
    }
}

/// The server does not read the upload, and yet its response is received.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_an_upload_that_nobody_reads() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await?;
        pending().await
    });
    let client = stage.client();
    for is_stream in [false, true] {
        let mut request = post();
        match is_stream {
            false => request.body.set_bytes(vec![0; 1 << 20]),
            true => request.body.set_stream(repeat(0), None),
        }
        assert_eq!(ask(&client, &request).await.unwrap(), (413, "no".into()));
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
    }
    let mut call = client.open_call(&post()).await.unwrap();
    call.write_all(&vec![0; 1 << 20]).await.unwrap();
    let mut response = Response::new();
    let mut reader = call.finish(&mut response).await.unwrap();
    assert_eq!((response.status.as_u16(), reader.chunk().await.unwrap()), (413, Some(&b"no"[..])));
    assert_eq!(
        (reader.chunk().await.unwrap(), client.idle_connections(), client.busy_connections()),
        (None, 0, 0)
    );
}

/// Many servers answer while they read. If the rest of the upload were not sent, the server would wait for it.
#[tokio::test(start_paused = true)]
async fn an_early_response_that_refuses_nothing_lets_the_upload_go_on() {
    check_goes_on("", 1, 1).await;
}

/// A server that stops says close in its last responses. The rest of an echo must be sent all the same.
#[tokio::test(start_paused = true)]
async fn an_early_response_that_says_close_lets_the_upload_go_on_rfc9112_9_6() {
    check_goes_on("connection: close\r\n", 3, 0).await;
}

async fn check_goes_on(close: &'static str, dialed: usize, idle: usize) {
    const LARGE: usize = 1 << 20;
    let stage = Stage::new(move |mut peer, _| async move {
        while peer.head().await?.is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\n{close}content-length: 2\r\n\r\n")).await?;
            settle().await;
            peer.stream.read_exact(&mut vec![0; LARGE]).await?;
            peer.send("ok").await?;
        }
        Ok(())
    });
    let (client, mut response) = (stage.client(), Response::new());
    let mut request = post();
    request.body.set_bytes(vec![0; LARGE]);
    assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()));
    request.body.set_stream(repeat(0).take(LARGE as u64), Some(LARGE as u64));
    assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()));
    request.headers.set("content-length", LARGE).unwrap();
    let mut call = client.open_call(&request).await.unwrap();
    for piece in vec![0; LARGE].chunks(100_000) {
        call.write_all(piece).await.unwrap();
    }
    let mut reader = call.finish(&mut response).await.unwrap();
    assert_eq!((response.status.as_u16(), reader.chunk().await.unwrap()), (200, Some(&b"ok"[..])));
    assert_eq!(reader.chunk().await.unwrap(), None);
    assert_eq!(
        (stage.dialed().len(), client.idle_connections(), client.busy_connections()),
        (dialed, idle, 0)
    );
}

/// Uploads in one `way` what no buffer takes whole, and receives the content of the response.
async fn upload(client: &Client, way: &str) -> Result<String, ClientError> {
    let (content, mut response) = (vec![0; 1 << 20], Response::new());
    let mut request = post();
    let received = |chunk: Option<&[u8]>| String::from_utf8(chunk.unwrap().into()).unwrap();
    match way {
        "written" => {
            let mut call = client.open_call(&request).await?;
            call.write_all(&content).await?;
            Ok(received(call.finish(&mut response).await?.chunk().await?))
        }
        "split" => {
            let (mut writer, mut reader) = client.open_call(&request).await?.split();
            writer.write_all(&content).await?;
            writer.finish().await?;
            reader.head(&mut response).await?;
            Ok(received(reader.chunk().await?))
        }
        _ => {
            match way {
                "streamed" => request.body.set_stream(repeat(0), None),
                _ => request.body.set_bytes(content),
            }
            Ok(ask(client, &request).await?.1)
        }
    }
}

/// A server answers 200 to an upload and reads nothing of it: after so many seconds the response is `expected`, or it
/// is a timeout.
async fn check_stands(
    set: impl FnOnce(ClientBuilder) -> ClientBuilder,
    seconds: u64,
    expected: Option<&str>,
) {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send(OK).await?;
        pending().await
    });
    let client = set(stage.builder()).build();
    for way in ["whole", "streamed", "written", "split"] {
        let (start, response) = (Instant::now(), upload(&client, way).await);
        assert_eq!(response.as_ref().err().map(ClientError::is_timeout), expected.is_none().then_some(true));
        assert_eq!((start.elapsed().as_secs(), response.ok().as_deref()), (seconds, expected), "{way}");
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0), "{way}");
    }
}

/// This must not be an error after the time to send, for the response has come. The upload is not ended before that,
/// because a server that answers while it reads may take its time.
#[tokio::test(start_paused = true)]
async fn an_early_response_stands_though_the_upload_times_out() {
    let second = Duration::from_secs(1);
    check_stands(|it| it, 60, Some("ok")).await;
    let timeouts = ClientTimeouts { send: 7 * second, ..ClientTimeouts::default() };
    check_stands(|it| it.timeouts(timeouts), 7, Some("ok")).await;
    check_stands(|it| it.timeouts(timeouts).timeout(5 * second), 5, None).await;
}

/// A server that has sent everything and closes will not read the rest, which might take long to send.
#[tokio::test(start_paused = true)]
async fn a_whole_response_that_says_close_ends_the_upload() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await?;
        pending().await
    });
    let (client, start) = (stage.client(), Instant::now());
    let mut request = post();
    request.body.set_bytes(vec![0; 1 << 20]);
    assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()));
    assert_eq!(
        (start.elapsed(), client.idle_connections(), client.busy_connections()),
        (Duration::ZERO, 0, 0)
    );
}
