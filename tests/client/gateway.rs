//! A server that forwards the responses of another one: both bodies flow as they arrive, and failures of one side reach
//! the other (RFC 9110 §7.6).

use std::future::pending;
use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use corehttp::client::ClientTimeouts;
use corehttp::middleware::wrap;
use corehttp::server::{ForwardedHeader, RespondError};
use corehttp::{
    BodyPlan, Client, Context, Handler, Method, PeerAddr, Request, Response, Server, Service, Status,
    TrustedProxies,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::oracle::gateway::{Behind, Transcript};
use crate::support::{OK, Stage, paused, settle};

/// Forwards the request below `http://b`, buffered first if it has the field `x-buffered` and with a user if it has
/// `x-token`, and the response back.
async fn pass(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ctx.response.headers.set("x-front", 1)?;
    if ctx.request.headers.remove("x-buffered") {
        ctx.buffer_body().await?;
    }
    let is_known = ctx.request.headers.remove("x-token");
    let mut onward = ctx.request.forwarded_to("http://b")?;
    if is_known {
        onward.headers.set("x-user", "ada")?;
    }
    let change = |response: &mut Response| match response.headers.remove("x-refused") {
        true => Err(Status::FORBIDDEN.into()),
        false => Ok(()),
    };
    ctx.forward_with(client.open_call(&onward), change).await
}

/// Serves one connection in front of `stage`, while `peer` has the other end.
async fn in_front_of<T>(stage: &Stage, peer: impl AsyncFnOnce(DuplexStream) -> T) -> T {
    serve_in_front_of(Server::new().half_close(true), stage, peer).await
}

/// Serves as [`in_front_of`] does, with the settings of `server`.
async fn serve_in_front_of<T>(server: Server, stage: &Stage, peer: impl AsyncFnOnce(DuplexStream) -> T) -> T {
    let timeouts = ClientTimeouts { wait: Duration::from_secs(2), ..ClientTimeouts::default() };
    let client = stage.builder().timeouts(timeouts).build();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let service = server.service(wrap(BodyPlan::Stream, gateway));
    let (near, far) = duplex(64 << 10);
    let (received, _) = tokio::join!(peer(near), service.serve_connection(far));
    received
}

/// Sends `asked`, and returns all that arrives until the connection closes, without the date.
async fn receive_all(stage: &Stage, request: &str) -> String {
    let received = in_front_of(stage, async |mut near| {
        let mut received = String::new();
        near.write_all(request.as_bytes()).await.unwrap();
        near.read_to_string(&mut received).await.unwrap();
        received
    });
    received.await.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

/// Sends `asked` to `service`, and returns all that arrives until the connection closes.
async fn receive_all_of(service: &Service<impl Handler>, request: &str) -> String {
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(request.as_bytes()).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    tokio::join!(peer, service.serve_connection(far)).0
}

/// Checks that `asked` is forwarded as `onward`, and that `response` arrives as `expected`.
#[track_caller]
fn check(request: &str, onward: &str, response: &str, expected: &str) {
    paused(async {
        let stage = Stage::always(response);
        assert_eq!(receive_all(&stage, request).await, expected, "{request}");
        assert_eq!(stage.received(), [onward], "{request}");
        let behind = Behind { received: onward.into(), said: response.into(), is_closed: false };
        let transcript = Transcript {
            asked: request.as_bytes(),
            received: expected.as_bytes(),
            is_ended: true,
            behind: &[behind],
        };
        let passed = transcript.check();
        assert_eq!((passed.requests, passed.responses), (1, 1), "{request}");
    });
}

#[test]
fn a_request_and_its_response_are_forwarded_as_they_are() {
    let asks = |head: &str, body: &str| format!("{head}\r\nhost: a\r\nconnection: close\r\n{body}");
    let get = ("GET /a?b HTTP/1.1", "GET /a?b HTTP/1.1\r\nhost: b\r\n\r\n");
    let head = ("HEAD / HTTP/1.1", "HEAD / HTTP/1.1\r\nhost: b\r\n\r\n");
    let front = "x-front: 1\r\n";
    let close = "connection: close\r\n\r\n";
    for ((asked, onward), response, expected) in [
        (get, OK, format!("HTTP/1.1 200 OK\r\n{front}content-length: 2\r\n{close}ok")),
        (
            get,
            "HTTP/1.1 404 x\r\nx-a: 1\r\nkeep-alive: timeout=9\r\ncontent-length: 0\r\n\r\n",
            format!("HTTP/1.1 404 Not Found\r\nx-a: 1\r\n{front}content-length: 0\r\n{close}"),
        ),
        (
            get,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n",
            format!(
                "HTTP/1.1 200 OK\r\n{front}transfer-encoding: chunked\r\n{close}2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
            ),
        ),
        (
            get,
            "HTTP/1.1 200 OK\r\nconnection: x-hop\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\nx-hop: 1\r\nx-sum: 1\r\n\r\n",
            format!("HTTP/1.1 200 OK\r\n{front}transfer-encoding: chunked\r\n{close}0\r\nx-sum: 1\r\n\r\n"),
        ),
        // A trailer with the name of a field that the gateway has set (RFC 9110 §6.5.1).
        (
            get,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nX-Front: 2\r\nx-sum: 1\r\n\r\n",
            format!("HTTP/1.1 200 OK\r\n{front}transfer-encoding: chunked\r\n{close}0\r\nx-sum: 1\r\n\r\n"),
        ),
        (get, "HTTP/1.1 204 x\r\n\r\n", format!("HTTP/1.1 204 No Content\r\n{front}{close}")),
        (
            get,
            "HTTP/1.1 304 x\r\netag: \"1\"\r\n\r\n",
            format!("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n{front}{close}"),
        ),
        // The length of content that is not sent is forwarded, too (RFC 9110 §8.6).
        (
            get,
            "HTTP/1.1 304 x\r\ncontent-length: 9\r\n\r\n",
            format!("HTTP/1.1 304 Not Modified\r\n{front}content-length: 9\r\n{close}"),
        ),
        (
            head,
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            format!("HTTP/1.1 200 OK\r\n{front}content-length: 9\r\n{close}"),
        ),
        // An error has no fields of the response that it replaces.
        (
            get,
            "HTTP/1.1 200 OK\r\nx-refused: 1\r\nset-cookie: a=b\r\ncache-control: public\r\ncontent-length: 2\r\n\r\nok",
            format!(
                "HTTP/1.1 403 Forbidden\r\n{front}content-type: text/plain; charset=utf-8\r\ncontent-length: 9\r\n{close}Forbidden"
            ),
        ),
    ] {
        check(&asks(asked, "\r\n"), onward, response, &expected);
    }
    for (body, onward) in [
        ("content-length: 3\r\n\r\nabc", "content-length: 3\r\n\r\nabc"),
        (
            "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        // Trailers, too, may be for one connection only (RFC 9110 §7.6.1).
        (
            "connection: x-hop\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-hop: 1\r\nx-sum: 1\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        (
            "x-buffered: 1\r\nconnection: x-hop\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\nx-hop: 1\r\nx-sum: 1\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        // Some servers take trailers for fields (RFC 9110 §6.5.1). Trailers that describe a client are refused.
        (
            "transfer-encoding: chunked\r\n\r\n0\r\nx_user: root\r\nX.Token: 1\r\nx-sum: 1\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        (
            "x-token: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nX-User: root\r\nx-sum: 1\r\n\r\n",
            "x-user: ada\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        (
            "x-buffered: 1\r\nx-token: 1\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\nX-User: root\r\nx-sum: 1\r\n\r\n",
            "x-user: ada\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        ("content-length: 0\r\n\r\n", "content-length: 0\r\n\r\n"),
        // Chunks are not forwarded to a server of HTTP/1.0, which cannot read them (RFC 9112 §6.1).
        ("\r\n", "content-length: 0\r\n\r\n"),
        ("x-buffered: 1\r\n\r\n", "content-length: 0\r\n\r\n"),
    ] {
        let expected = format!("HTTP/1.1 200 OK\r\n{front}content-length: 2\r\n{close}ok");
        for method in ["POST", "QUERY"] {
            let onward = format!("{method} / HTTP/1.1\r\nhost: b\r\n{onward}");
            check(&asks(&format!("{method} / HTTP/1.1"), body), &onward, OK, &expected);
        }
    }
}

/// Lines that go on side by side are copied as one piece. A line that is left out, or that is spelled otherwise than it
/// goes on, divides them.
#[test]
fn each_line_is_forwarded_however_it_is_spelled_rfc9110_7_6_1() {
    for (lines, forwarded) in [
        ("x-a: 1\r\nX-B: 2\r\nx-a: 3\r\n", "x-a: 1\r\nX-B: 2\r\nx-a: 3\r\n"),
        ("x-a:1\r\nx-b:\t2\r\nx-c:  3\r\nx-d: 4 \r\n", "x-a: 1\r\nx-b: 2\r\nx-c: 3\r\nx-d: 4\r\n"),
        ("x-a: 1\r\nx-b:\t2\r\nx-c: 3\r\n", "x-a: 1\r\nx-b: 2\r\nx-c: 3\r\n"),
        ("x-a:\r\nx-b: \r\nx-c:\t\r\nx-d: 4\r\n", "x-a: \r\nx-b: \r\nx-c: \r\nx-d: 4\r\n"),
        (
            "x-a: 1\r\nkeep-alive: max=5\r\nx-b: 2\r\nproxy-connection: x\r\nx-c: 3\r\n",
            "x-a: 1\r\nx-b: 2\r\nx-c: 3\r\n",
        ),
        ("connection: x-a\r\nx-a: 1\r\nx-b: 2\r\nX-A: 3\r\nx-c: 4\r\n", "x-b: 2\r\nx-c: 4\r\n"),
        ("x-a: 1\r\nConnection: x-c , X-B\r\nx-b:2\r\nx-c: 3\r\nx-d: 4\r\nconnection: x-d\r\n", "x-a: 1\r\n"),
        ("connection: content-length\r\nx-a: 1\r\n", "x-a: 1\r\n"),
        ("connection:\r\nx-a: 1\r\n", "x-a: 1\r\n"),
    ] {
        for [before, behind] in [["", lines], [lines, ""]] {
            check(
                &format!("GET / HTTP/1.1\r\n{before}host: a\r\n{behind}connection: close\r\n\r\n"),
                &format!("GET / HTTP/1.1\r\nhost: b\r\n{forwarded}\r\n"),
                &format!("HTTP/1.1 200 OK\r\n{before}content-length: 2\r\n{behind}\r\nok"),
                &format!(
                    "HTTP/1.1 200 OK\r\n{forwarded}x-front: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
                ),
            );
        }
    }
}

/// Checks that a peer which sends `asked`, a head without its end, and `body`, receives `early` before [`OK`] as it is
/// forwarded, when the server behind sends `said` before [`OK`].
#[track_caller]
fn check_interim((asked, body): (&str, &str), said: &str, early: &str) {
    let response = format!("{said}{OK}");
    let asked = format!("{asked}host: a\r\nconnection: close\r\n{body}");
    let received = paused(receive_all(&Stage::always(response), &asked));
    let end = "HTTP/1.1 200 OK\r\nx-front: 1\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    assert_eq!(received, format!("{early}{end}"), "{asked}, {said}");
}

#[test]
fn interim_responses_are_forwarded_rfc9110_15_2() {
    let get = ("GET / HTTP/1.1\r\n", "\r\n");
    let post = ("POST / HTTP/1.1\r\n", "content-length: 3\r\n\r\nabc");
    let buffered = ("POST / HTTP/1.1\r\nx-buffered: 1\r\n", "content-length: 3\r\n\r\nabc");
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n";
    let others = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 \r\nx-a: 1\r\n\r\n";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    for asks in [get, post, buffered] {
        for said in ["", hint, &hint.repeat(16), &[hint, others, hint].concat(), &[go_on, hint].concat()] {
            check_interim(asks, said, said);
        }
        // Fields that frame a message, or are for one connection only, are not forwarded (RFC 9110 §7.6.1).
        let hop = "HTTP/1.1 103 x\r\nlink: <a>\r\nconnection: x-a\r\nx-a: 1\r\nkeep-alive: timeout=9\r\n\
            upgrade: x\r\nte: x\r\nproxy-authenticate: x\r\ncontent-length: 9\r\n\r\n";
        check_interim(asks, hop, hint);
        check_interim(asks, "HTTP/1.0 103 x\r\nlink: <a>\r\n\r\n", hint);
        // A peer that speaks HTTP/1.0 gets no interim response.
        let asked = format!("{}host: a\r\n{}", asks.0.replace("/1.1", "/1.0"), asks.1);
        let received = paused(receive_all(&Stage::always([go_on, hint, OK].concat()), &asked));
        assert!(received.starts_with("HTTP/1.1 200 OK\r\n"), "{received}");
    }
}

/// The gateway itself sends the 100 that its peer expects, so that of the server behind is not forwarded.
#[test]
fn a_100_that_the_gateway_sends_itself_is_not_forwarded_rfc9110_15_2() {
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
    for buffered in ["", "x-buffered: 1\r\n"] {
        paused(async {
            let stage = Stage::always(format!("{go_on}{hint}{OK}"));
            in_front_of(&stage, async |mut near| {
                let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\n";
                let head = format!("{head}{buffered}content-length: 3\r\n\r\n");
                near.write_all(head.as_bytes()).await.unwrap();
                let mut received = vec![0; go_on.len()];
                near.read_exact(&mut received).await.unwrap();
                assert_eq!(received, go_on.as_bytes());
                near.write_all(b"abc").await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                assert!(received.starts_with(&format!("{hint}HTTP/1.1 200 OK\r\n")), "{received}");
            })
            .await;
        });
    }
}

/// Interim responses that the gateway drops are bounded as those of a client, or a server behind could send them for ever. The
/// pace of a peer that gets them bounds the others.
#[test]
fn interim_responses_that_reach_nobody_are_bounded_rfc9110_15_2() {
    const HEAD_MAX: usize = 64 << 10;
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let old = "GET / HTTP/1.0\r\nhost: a\r\n\r\n";
    let old_post = "POST / HTTP/1.0\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let get = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let expecting = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc";
    for (asked, early, is_dropped) in [
        (old, hint, true),
        (old_post, hint, true),
        (expecting, go_on, true),
        (get, hint, false),
        (get, go_on, false),
    ] {
        for is_over in [false, true] {
            let count = HEAD_MAX / early.len() + usize::from(is_over);
            let received = paused(receive_all(&Stage::always(format!("{}{OK}", early.repeat(count))), asked));
            let status = if is_dropped && is_over { 502 } else { 200 };
            let sent = if is_dropped { 0 } else { count };
            let end = received.trim_start_matches(early);
            assert!(end.starts_with(&format!("HTTP/1.1 {status} ")), "{asked}, {count}: {end}");
            assert_eq!((received.len() - end.len()) / early.len(), sent, "{asked}, {count}");
        }
    }
    // Without a connection, nobody gets any.
    let client = Stage::always(format!("{}{OK}", hint.repeat(HEAD_MAX / hint.len() + 1))).client();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let response = paused(Server::new().service(gateway).respond(Request::get("/").unwrap()));
    assert_eq!(response.status, Status::BAD_GATEWAY);
}

/// The peer waits for each interim response before it goes on with its body, and the server behind waits for the body.
#[tokio::test(start_paused = true)]
async fn interim_responses_come_while_the_body_is_forwarded() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        for _ in 0..3 {
            peer.send("HTTP/1.1 102 Processing\r\n\r\n").await?;
            assert_eq!(peer.stream.read_u8().await?, b'a');
        }
        peer.send(OK).await
    });
    in_front_of(&stage, async |mut near| {
        let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\n";
        near.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..3 {
            let mut received = [0; 27];
            near.read_exact(&mut received).await.unwrap();
            assert_eq!(&received, b"HTTP/1.1 102 Processing\r\n\r\n");
            near.write_all(b"a").await.unwrap();
        }
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert!(
            received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with("\r\n\r\nok"),
            "{received}"
        );
    })
    .await;
}

#[test]
fn a_fault_behind_an_interim_response_is_502_or_504() {
    let hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let get = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
    for asked in [get, post] {
        for (said, count, status) in [
            (hint.to_owned(), 1, 502),
            (hint.repeat(17), 17, 502),
            (hint.repeat(200), 200, 502),
            (format!("{hint}HTTP/1.1 101 x\r\nupgrade: x\r\n\r\n"), 1, 502),
            (format!("{hint}SSH-2.0-x\r\n\r\n"), 1, 502),
        ] {
            let stage = Stage::new(move |mut peer, _| {
                let said = said.clone();
                async move {
                    peer.request().await?;
                    peer.send(said).await
                }
            });
            let received = paused(receive_all(&stage, asked));
            assert!(received.starts_with(&format!("{}HTTP/1.1 {status} ", hint.repeat(count))), "{received}");
        }
        let silent = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(hint).await?;
            peer.receive_all().await
        });
        let received = paused(receive_all(&silent, asked));
        assert!(received.starts_with(&format!("{hint}HTTP/1.1 504 ")), "{received}");
    }
}

/// A gateway can be tested without a connection, too.
#[tokio::test(start_paused = true)]
async fn without_a_connection_a_request_is_forwarded_alike() {
    let stage = Stage::answering(|request| {
        let body = request.rsplit("\r\n").next().unwrap().to_owned();
        format!("HTTP/1.1 103 x\r\n\r\nHTTP/1.1 201 x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    });
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let service = Server::new().service(wrap(BodyPlan::Stream, gateway));
    for body in ["", "abc"] {
        let mut request = Request::post("/").unwrap();
        request.headers.set("content-length", body.len()).unwrap();
        request.body.set_bytes(body);
        let response = service.respond(request).await;
        assert_eq!((response.status, response.body.text().unwrap()), (Status::CREATED, body));
        assert_eq!(response.headers.get("x-front"), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_open_already_is_forwarded_alike() {
    let client = Stage::always(OK).client();
    let gateway = async move |ctx: &mut Context| {
        let call = client.open_call(&ctx.request.forwarded_to("http://b")?).await?;
        ctx.forward(call).await
    };
    let response = Server::new().service(gateway).respond(Request::get("/").unwrap()).await;
    assert_eq!((response.status, response.body.text()), (Status::OK, Ok("ok")));
}

/// The time for a whole call may be over once its response has arrived.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_forwarded_too_late_leaves_no_field_of_its_response() {
    let response =
        "HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nconnection: x-a\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok";
    let client = Stage::always(response).builder().timeout(Duration::from_secs(1)).build();
    let gateway = async move |ctx: &mut Context| {
        ctx.response.headers.set("x-front", 1)?;
        let call = client.open_call(&ctx.request.forwarded_to("http://b")?).await?;
        sleep(Duration::from_secs(2)).await;
        ctx.forward(call).await
    };
    let response = Server::new().service(gateway).respond(Request::get("/").unwrap()).await;
    assert_eq!(response.status, Status::GATEWAY_TIMEOUT);
    let names = response.headers.iter().map(|(name, _)| name);
    assert_eq!(Vec::from_iter(names), ["x-front", "content-type"]);
}

/// A source that the handler had set belongs to the application, and may use the client when it is dropped.
#[test]
fn a_source_that_is_given_up_for_a_response_may_use_the_client() {
    struct Source(Client);

    impl AsRef<[u8]> for Source {
        fn as_ref(&self) -> &[u8] {
            b""
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            self.0.close_idle();
        }
    }

    let (told, responses) = mpsc::channel();
    thread::spawn(move || {
        let asked = paused(async {
            let client = Stage::always(OK).client();
            let gateway = async move |ctx: &mut Context| {
                ctx.response.body.set_stream(Cursor::new(Source(client.clone())), None);
                pass(&client, ctx).await
            };
            Server::new().service(gateway).respond(Request::get("/").unwrap()).await
        });
        told.send(asked.status).unwrap();
    });
    assert_eq!(responses.recv_timeout(Duration::from_secs(20)), Ok(Status::OK));
}

/// The peer must not have sent content with a TRACE (RFC 9110 §9.3.8), so the response is not 502.
#[tokio::test(start_paused = true)]
async fn a_trace_with_content_is_400_and_not_forwarded_rfc9110_9_3_8() {
    for framing in ["content-length: 3\r\n\r\nabc", "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
    {
        let stage = Stage::always(OK);
        let received =
            receive_all(&stage, &format!("TRACE / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{framing}"))
                .await;
        assert!(received.starts_with("HTTP/1.1 400 "), "{received}");
        assert_eq!(stage.dialed().len(), 0);
    }
}

/// A server that answers one request of a connection so, and closes it.
fn closing_behind(response: &'static str) -> Stage {
    Stage::new(move |mut peer, _| async move {
        peer.request().await?;
        peer.send(response).await
    })
}

/// A server that has not confirmed the switch may still speak HTTP, in which the frames of a peer would be requests.
#[tokio::test(start_paused = true)]
async fn a_websocket_passes_only_if_the_switch_is_confirmed_rfc6455_4_1() {
    let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    for (fields, expected) in [
        ("connection: upgrade\r\nupgrade: websocket\r\n", "HTTP/1.1 101 "),
        ("upgrade: websocket\r\n", "HTTP/1.1 502 "),
        ("connection: close\r\nupgrade: websocket\r\n", "HTTP/1.1 502 "),
        ("connection: upgrade\r\n", "HTTP/1.1 502 "),
        ("connection: upgrade\r\nupgrade: own\r\n", "HTTP/1.1 502 "),
        ("connection: upgrade\r\nupgrade: websocket, own\r\n", "HTTP/1.1 502 "),
    ] {
        let behind = Stage::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(format!("HTTP/1.1 101 x\r\n{fields}\r\n")).await
        });
        let received = receive_all(&behind, asked).await;
        assert!(received.starts_with(expected), "{fields:?}: {received}");
    }
}

/// The gateway answers with the failure behind it until the response has begun (RFC 9110 §15.6.3, §15.6.5), and cuts it
/// off afterwards.
#[tokio::test(start_paused = true)]
async fn a_fault_behind_is_502_or_504_or_cuts_the_response() {
    let whole = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let upload = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
    for asked in [whole, upload] {
        for (response, expected) in [
            ("", "HTTP/1.1 502 "),
            ("HTTP/1.1 200 OK\r\ncontent-len", "HTTP/1.1 502 "),
            ("SSH-2.0-x\r\n\r\n", "HTTP/1.1 502 "),
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "HTTP/1.1 502 "),
            ("HTTP/1.1 101 x\r\nupgrade: x\r\n\r\n", "HTTP/1.1 502 "),
            ("HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "HTTP/1.1 502 "),
        ] {
            let received = receive_all(&closing_behind(response), asked).await;
            assert!(
                received.starts_with(expected) && received.ends_with("Bad Gateway"),
                "{response:?}: {received}"
            );
        }
        for (response, end) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", "\r\n\r\nok"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", "\r\n\r\n2\r\nok\r\n"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nx", "\r\n\r\n2\r\nok\r\n"),
        ] {
            let received = receive_all(&closing_behind(response), asked).await;
            assert!(
                received.starts_with("HTTP/1.1 200 ") && received.ends_with(end),
                "{response:?}: {received}"
            );
        }
        let silent = Stage::new(|mut peer, _| async move { peer.receive_all().await });
        assert!(receive_all(&silent, asked).await.starts_with("HTTP/1.1 504 "));
    }
}

/// The time limit of the response begins when the body has been sent, although no other event wakes the task that
/// waits.
#[tokio::test]
async fn a_server_behind_that_never_answers_an_upload_is_504() {
    let silent = Stage::new(|mut peer, _| async move { peer.receive_all().await });
    let timeouts = ClientTimeouts { wait: Duration::from_millis(50), ..ClientTimeouts::default() };
    let client = silent.builder().timeouts(timeouts).build();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let server = Server::bind("127.0.0.1:0").cores(1).start(wrap(BodyPlan::Stream, gateway)).unwrap();
    let mut peer = TcpStream::connect(server.local_addr()).await.unwrap();
    peer.write_all(b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\n")
        .await
        .unwrap();
    sleep(Duration::from_millis(50)).await;
    peer.write_all(b"abc").await.unwrap();
    let mut received = String::new();
    timeout(Duration::from_secs(10), peer.read_to_string(&mut received))
        .await
        .expect("it is answered")
        .unwrap();
    assert!(received.starts_with("HTTP/1.1 504 "), "{received}");
}

/// A request that was cut short must not look whole to the server behind (RFC 9112 §8).
#[tokio::test(start_paused = true)]
async fn a_fault_in_front_cuts_the_request() {
    for body in [
        "content-length: 3\r\n\r\nab",
        "transfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
        "transfer-encoding: chunked\r\n\r\n2\r\nab\r\nx",
    ] {
        let stage = Stage::new(|mut peer, _| async move { peer.receive_all().await });
        in_front_of(&stage, async |mut near| {
            let head = "POST / HTTP/1.1\r\nhost: a\r\n";
            near.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            near.read_to_end(&mut Vec::new()).await.unwrap();
        })
        .await;
        tokio::task::yield_now().await;
        let received = stage.received().concat();
        assert!(received.starts_with("POST / HTTP/1.1\r\n") && !received.contains("\r\n0\r\n"), "{received}");
    }
}

/// A handler tries a second server where the first one has failed, or is not waited for. The rest of a body in chunks,
/// that the first one has left, must not pass for the whole.
#[tokio::test(start_paused = true)]
async fn a_body_is_forwarded_twice_only_if_it_is_all_there() {
    for (option, has_whole) in [
        ("GET / HTTP/1.1\r\n", true),
        ("POST / HTTP/1.1\r\ncontent-length: 0\r\n", true),
        ("POST / HTTP/1.1\r\nx-buffered: 1\r\ntransfer-encoding: chunked\r\n", true),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n", false),
        ("POST / HTTP/1.1\r\ncontent-length: 3\r\n", false),
    ] {
        for is_silent in [false, true] {
            let stage = Stage::new(move |mut peer, number| async move {
                match (peer.request().await?, number) {
                    (None, _) => Ok(()),
                    (Some(_), 0) if is_silent => peer.receive_all().await,
                    (Some(_), 0) => Ok(()),
                    (Some(_), _) => peer.send(OK).await,
                }
            });
            let client = stage.client();
            let gateway = async move |ctx: &mut Context| {
                let first = timeout(Duration::from_secs(1), pass(&client, ctx)).await;
                assert!(first.is_err() == is_silent && !matches!(first, Ok(Ok(()))));
                pass(&client, ctx).await
            };
            let body = match option {
                _ if option.contains("chunked") => "3\r\nabc\r\n0\r\n\r\n",
                _ if option.contains("length: 3") => "abc",
                _ => "",
            };
            let service = Server::new().service(wrap(BodyPlan::Stream, gateway));
            let asked = format!("{option}host: a\r\nconnection: close\r\n\r\n{body}");
            let received = receive_all_of(&service, &asked).await;
            let status = if has_whole { "200" } else { "502" };
            assert!(
                received.starts_with(&format!("HTTP/1.1 {status} ")),
                "{option}, {is_silent}: {received}"
            );
            assert_eq!(stage.dialed().len(), 1 + usize::from(has_whole), "{option}, {is_silent}");
            let asked = stage.received().into_iter().filter(|asked| asked.contains("HTTP"));
            assert!(asked.into_iter().all(|asked| asked.ends_with(body)), "{option}, {is_silent}");
        }
    }
}

/// A handler tries again where a response was cut off that the peer already receives. A second request would be made in
/// vain.
#[tokio::test(start_paused = true)]
async fn no_request_is_made_once_a_response_has_begun() {
    let stage = closing_behind("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok");
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| {
        assert!(!ctx.has_responded() && pass(&client, ctx).await.is_err() && ctx.has_responded());
        let again = pass(&client, ctx).await.unwrap_err();
        assert_eq!(again.cause().unwrap().to_string(), RespondError::Sent.to_string());
        Err(again)
    };
    let received = receive_all_of(&Server::new().service(gateway), "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(received.starts_with("HTTP/1.1 200 ") && received.ends_with("\r\n\r\nok"), "{received}");
    assert_eq!(stage.dialed().len(), 1);
}

/// A handler reads the first bytes, or all of them, and then forwards the rest.
#[tokio::test(start_paused = true)]
async fn the_rest_of_a_body_is_not_forwarded_as_the_whole() {
    for body in
        ["content-length: 6\r\n\r\nabcdef", "transfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"]
    {
        for looks_at in [1, 6] {
            let stage = Stage::always(OK);
            let client = stage.client();
            let gateway = async move |ctx: &mut Context| {
                ctx.body_reader().read_exact(&mut [0; 6][..looks_at]).await?;
                pass(&client, ctx).await
            };
            let service = Server::new().service(wrap(BodyPlan::Stream, gateway));
            let asked = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{body}");
            let received = receive_all_of(&service, &asked).await;
            assert!(received.starts_with("HTTP/1.1 502 "), "{body}, {looks_at}: {received}");
            assert!(stage.dialed().is_empty());
        }
    }
}

/// How a peer leaves before it has its response.
#[derive(Clone, Copy, Debug)]
enum Leave {
    Closing,
    /// By closing its sending half: a response could still arrive.
    EndingItsSide,
}

/// Checks a peer that sends `asked`, and a server behind that sends `said`, and nothing more. Then the peer leaves, and
/// receives `received`; the connection to the server behind is closed at once, and the cause is `reported`.
#[track_caller]
fn check_left(request: &str, said: &'static str, (leave, received): (Leave, &str), reported: &str) {
    let case = format!("{request:?}, {said:?}, {leave:?}");
    paused(async {
        let left = Arc::new(Semaphore::new(0));
        let behind = left.clone();
        let stage = Stage::new(move |mut peer, _| {
            let left = behind.clone();
            async move {
                peer.head().await?;
                peer.send(said).await?;
                peer.receive_all().await?;
                left.add_permits(1);
                Ok(())
            }
        });
        let (client, reports) = (stage.client(), Arc::new(Mutex::new(Vec::new())));
        let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
        let service = Server::new()
            .half_close(false)
            .on_error({
                let reports = reports.clone();
                move |refusal| reports.lock().unwrap().push(refusal.to_string())
            })
            .service(wrap(BodyPlan::Stream, gateway));
        let (mut near, far) = duplex(64 << 10);
        let peer = async {
            near.write_all(request.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            let began = Instant::now();
            let mut all = String::new();
            match leave {
                Leave::Closing => drop(near),
                Leave::EndingItsSide => {
                    near.shutdown().await.unwrap();
                    near.read_to_string(&mut all).await.unwrap();
                }
            }
            left.acquire().await.unwrap().forget();
            assert_eq!(began.elapsed(), Duration::ZERO, "{case}");
            assert!(all.starts_with(received), "{case}: {all}");
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
        // The response could not be sent either, which is not reported again.
        assert_eq!(*reports.lock().unwrap(), [reported], "{case}");
    });
}

/// A server behind would work in vain until its time is over. A peer that only closes its sending half looks the same,
/// and counts as gone if the server is set so. Neither has sent a bad request.
#[test]
fn the_call_of_a_peer_that_leaves_ends() {
    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n";
    const BAD: &str = "HTTP/1.1 400 Bad Request\r\n";
    let left = "the peer closed before it was answered in full";
    let cut = "the peer closed before the message was complete";
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
    let refused = "HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\n\r\nhalf";
    for (method, body, why) in [("GET", "", left), ("POST", "abc", left), ("POST", "ab", cut)] {
        let head = if method == "GET" { GET } else { POST };
        let early = "HTTP/1.1 103 Early Hints\r\n\r\n";
        for (said, status) in
            [("", None), (early, None), ("HTTP/1.1 200 OK\r\ncontent-le", None), (half, Some("200 OK"))]
        {
            let (told, received) = match status {
                None if why == left && said == early => ("memory cut off", early.to_owned()),
                None if why == left => ("memory cut off", String::new()),
                None if said == early => ("400 Bad Request to memory", format!("{early}{BAD}")),
                None => ("400 Bad Request to memory", BAD.to_owned()),
                Some(status) => ("memory cut off", format!("HTTP/1.1 {status}\r\n")),
            };
            for (leave, received) in [(Leave::Closing, ""), (Leave::EndingItsSide, &received)] {
                let reported = format!("{told}, {method} /: {why}");
                check_left(&format!("{head}{body}"), said, (leave, received), &reported);
            }
        }
    }
    for body in ["abc", "ab"] {
        for leave in [(Leave::Closing, ""), (Leave::EndingItsSide, "HTTP/1.1 403 Forbidden\r\n")] {
            let reported = format!("memory cut off, POST /: {left}");
            check_left(&format!("{POST}{body}"), refused, leave, &reported);
        }
    }
}

/// The peer must neither be answered 400 nor be cut off in the middle of the response.
#[test]
fn a_peer_that_closes_its_sending_half_gets_the_whole_response_rfc9112_9_6() {
    for asked in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\nx-buffered: 1\r\ncontent-length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        paused(async {
            let stage = Stage::new(async |mut peer, _| {
                peer.head().await?;
                for part in ["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "half", "whole"] {
                    sleep(Duration::from_secs(1)).await;
                    peer.send(part).await?;
                }
                Ok(())
            });
            let received = in_front_of(&stage, async |mut near| {
                near.write_all(asked.as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            });
            let received = received.await;
            assert!(
                received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with("\r\n\r\nhalfwhole"),
                "{received}"
            );
        });
    }
}

/// The peer is watched also while the server behind reads no more of its body, or of the end of it, and not only once
/// the time to send is over.
#[test]
fn the_call_of_a_peer_that_leaves_while_its_body_waits_ends() {
    for size in [100_000, 160_000] {
        paused(async {
            let stage = Stage::new(async |mut peer, _| {
                peer.head().await?;
                pending().await
            });
            let server = Server::new().half_close(false);
            let left = serve_in_front_of(server, &stage, async |mut near| {
                let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n");
                near.write_all(head.as_bytes()).await.unwrap();
                near.write_all(&vec![b'x'; size]).await.unwrap();
                sleep(Duration::from_secs(1)).await;
                Instant::now()
            });
            assert_eq!(left.await.elapsed(), Duration::ZERO, "{size}");
        });
    }
}

/// More than all pipes on the way hold.
const SIZE: usize = 1 << 20;

/// Sends a POST with a body of [`SIZE`], and reads meanwhile until the gateway closes. Returns how much was sent, and
/// all that arrived.
async fn upload(near: DuplexStream) -> (usize, String) {
    let (mut read, mut write) = tokio::io::split(near);
    let send = async {
        let head =
            format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {SIZE}\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        let mut sent = 0;
        while sent < SIZE
            && let Ok(()) = write.write_all(&[b'x'; 1 << 10]).await
        {
            sent += 1 << 10;
        }
        sent
    };
    let receive_all = async {
        let mut received = Vec::new();
        // A peer that is refused may get a reset behind the response.
        let _ = read.read_to_end(&mut received).await;
        String::from_utf8(received).unwrap()
    };
    tokio::join!(send, receive_all)
}

#[tokio::test(start_paused = true)]
async fn a_response_while_the_body_is_read_is_forwarded_at_once() {
    let echo = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n")).await?;
        let mut piece = vec![0; 16 << 10];
        for _ in 0..SIZE / piece.len() {
            peer.stream.read_exact(&mut piece).await?;
            peer.send(&piece).await?;
        }
        Ok(())
    });
    let (sent, received) = in_front_of(&echo, upload).await;
    assert!(sent == SIZE && received.starts_with("HTTP/1.1 200 ") && received.ends_with(&"x".repeat(SIZE)));

    // All of the response comes first, and the rest of the request is forwarded all the same.
    let hasty = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send(OK).await?;
        peer.stream.read_exact(&mut vec![0; SIZE]).await.map(drop)
    });
    let (sent, received) = in_front_of(&hasty, upload).await;
    assert!(sent == SIZE && received.ends_with("\r\n\r\nok"), "{sent} {received}");
}

/// A body that was received before is forwarded once, though it is read until the response begins, and then again
/// beside it.
#[tokio::test(start_paused = true)]
async fn a_body_that_was_buffered_goes_on_once() {
    for size in [3, SIZE] {
        for is_hasty in [false, true] {
            let stage = Stage::new(move |mut peer, _| async move {
                match is_hasty {
                    true => drop(peer.head().await?),
                    false => drop(peer.request().await?),
                }
                peer.send(OK).await?;
                peer.receive_all().await
            });
            let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-buffered: 1\r\n";
            let body = "x".repeat(size);
            for (framing, end) in [
                (format!("content-length: {size}\r\n\r\n{body}"), ""),
                (format!("transfer-encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"), "0\r\n\r\n"),
            ] {
                let received = receive_all(&stage, &format!("{head}{framing}")).await;
                assert!(received.ends_with("\r\n\r\nok"), "{size}, {is_hasty}: {received}");
                settle().await;
                let received = stage.received().concat();
                assert!(
                    received.ends_with(end) && received.matches('x').count() == size,
                    "{size}, {is_hasty}"
                );
            }
        }
    }
}

/// Each piece is forwarded as it arrives, in both directions: a peer that waits for a response to it would wait for
/// ever.
#[tokio::test(start_paused = true)]
async fn each_piece_is_forwarded_as_it_arrives() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        for (number, said) in ["1\r\na\r\n", "1\r\nb\r\n", "0\r\n\r\n"].iter().enumerate() {
            let mut received = vec![0; said.len()];
            peer.stream.read_exact(&mut received).await?;
            assert_eq!(received, said.as_bytes());
            if number == 0 {
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n").await?;
            }
            peer.send(number.to_string()).await?;
        }
        Ok(())
    });
    in_front_of(&stage, async |mut near| {
        let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        near.write_all(head.as_bytes()).await.unwrap();
        let mut received = String::new();
        for (number, said) in ["1\r\na\r\n", "1\r\nb\r\n", "0\r\n\r\n"].iter().enumerate() {
            near.write_all(said.as_bytes()).await.unwrap();
            while !received.ends_with(&format!("{number}")) || !received.contains("\r\n\r\n") {
                received.push(near.read_u8().await.unwrap().into());
            }
        }
        assert!(received.ends_with("\r\n\r\n012"), "{received}");
    })
    .await;
}

/// An encoder holds content back until it is flushed: a page would see each event only with a later one.
#[cfg(feature = "compress")]
#[tokio::test]
async fn each_event_is_forwarded_at_once_though_it_is_compressed() {
    let received = Arc::new(Semaphore::new(1));
    let may_go_on = received.clone();
    let stage = Stage::new(move |mut peer, _| {
        let may_go_on = may_go_on.clone();
        async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await?;
            for number in 0..3 {
                may_go_on.acquire().await.unwrap().forget();
                peer.send(format!("data: {number}\n\n")).await?;
            }
            Ok(())
        }
    });
    let behind = stage.client();
    let gateway =
        wrap(corehttp::middleware::Compress::new(), async move |ctx: &mut Context| pass(&behind, ctx).await);
    let running = Server::bind("127.0.0.1:0").cores(1).start(gateway).unwrap();
    let mut request = Request::get(&format!("http://{}/", running.local_addr())).unwrap();
    request.headers.set("accept-encoding", "gzip").unwrap();
    let (client, mut response) = (Client::builder().decode_up_to(1 << 20).build(), Response::new());
    let mut response = client.open_response(&request, &mut response).await.unwrap();
    for number in 0..3 {
        let event = response.chunk().await.unwrap().map(<[u8]>::to_vec);
        assert_eq!(event, Some(format!("data: {number}\n\n").into_bytes()));
        received.add_permits(1);
    }
    assert_eq!(response.chunk().await.unwrap(), None);
    running.stop(Duration::ZERO);
}

/// The rest of a body that the server behind does not read is discarded: many clients read a response only once they
/// have sent all of their request.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_refused_behind_is_discarded_rfc9112_9_6() {
    for response in [
        "HTTP/1.1 413 x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno",
        "HTTP/1.1 401 x\r\ncontent-length: 2\r\n\r\nno",
    ] {
        let stage = Stage::new(move |mut peer, _| async move {
            peer.head().await?;
            peer.send(response).await
        });
        let received = in_front_of(&stage, async |mut near| {
            let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n");
            near.write_all(head.as_bytes()).await.unwrap();
            near.write_all(&[b'x'; SIZE]).await.expect("the gateway reads on");
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            received
        });
        let received = received.await;
        assert!(received.starts_with(&response[..12]) && received.ends_with("\r\n\r\nno"), "{received}");
        assert!(received.contains("connection: close\r\n"), "{received}");
    }
}

/// Checks which lines about its client a gateway forwards, of a request with `lines` that `peer` has sent.
#[track_caller]
fn check_forwarded(peer: PeerAddr, fields: &[ForwardedHeader], lines: &str, expected: &str) {
    let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap().headers(fields.iter().copied());
    let request = format!("GET / HTTP/1.1\r\nhost: a:8080\r\n{lines}connection: close\r\n\r\n");
    paused(async {
        let stage = Stage::always(OK);
        let client = stage.client();
        let server = Server::new().trusted_proxies(proxies);
        let service = server.service(async move |ctx: &mut Context| -> corehttp::Result {
            let mut onward = ctx.request.forwarded_to("http://b")?;
            ctx.set_forwarded(&mut onward);
            ctx.forward(client.open_call(&onward)).await
        });
        let (mut near, far) = duplex(64 << 10);
        let talk = async {
            near.write_all(request.as_bytes()).await.unwrap();
            near.read_to_end(&mut Vec::new()).await.unwrap();
        };
        tokio::join!(talk, service.serve_connection_from(peer, far)).1.unwrap();
        let onward = format!("GET / HTTP/1.1\r\nhost: b\r\n{expected}\r\n");
        assert_eq!(stage.received(), [onward], "{lines}");
    });
}

const LISTS: [ForwardedHeader; 3] =
    [ForwardedHeader::XForwardedFor, ForwardedHeader::XForwardedProto, ForwardedHeader::XForwardedHost];
const HOPS: [ForwardedHeader; 1] = [ForwardedHeader::Forwarded];

#[test]
fn a_gateway_believes_only_its_proxies() {
    let peer = |ip: &str| PeerAddr::from(SocketAddr::new(ip.parse().unwrap(), 4711));
    let (client, proxy) = (peer("192.0.2.1"), peer("::ffff:10.0.0.1"));
    let own = "x-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: http\r\nx-forwarded-host: a:8080\r\n";
    let own_hop = "forwarded: for=192.0.2.1;host=\"a:8080\";proto=http\r\n";
    check_forwarded(client, &LISTS, "", own);
    check_forwarded(client, &HOPS, "", own_hop);
    check_forwarded(client, &[], "x-a: 1\r\n", "x-a: 1\r\n");
    check_forwarded(
        peer("2001:db8::1"),
        &[HOPS[0], LISTS[0]],
        "",
        "forwarded: for=\"[2001:db8::1]\";host=\"a:8080\";proto=http\r\nx-forwarded-for: 2001:db8::1\r\n",
    );
    let lies = "X-Forwarded-For: 10.0.0.1\r\nx-forwarded-for: 192.0.2.66\r\nFORWARDED: for=192.0.2.66;proto=https\r\n\
                x-forwarded-proto: https\r\nX-Forwarded-Host: evil\r\nx-real-ip: 192.0.2.66\r\n\
                x-forwarded-port: 443\r\nx-forwarded-ssl: on\r\nx-forwarded: 1\r\nX-ProxyUser-Ip: 192.0.2.66\r\n\
                x-azure-clientip: 192.0.2.66\r\nWL-Proxy-Client-IP: 192.0.2.66\r\n";
    check_forwarded(client, &LISTS, lies, own);
    check_forwarded(client, &HOPS, lies, own_hop);
    check_forwarded(client, &[], lies, "");
    // A proxy is believed, but for fields that the proxies are not said to write.
    check_forwarded(
        proxy,
        &LISTS[..2],
        lies,
        "X-Forwarded-For: 10.0.0.1, 192.0.2.66, 10.0.0.1\r\nx-forwarded-proto: https\r\n",
    );
    check_forwarded(
        proxy,
        &HOPS,
        lies,
        "FORWARDED: for=192.0.2.66;proto=https\r\n\
         forwarded: for=10.0.0.1;host=\"a:8080\";proto=http\r\n",
    );
    check_forwarded(
        proxy,
        &LISTS,
        "x-forwarded-proto: http, https\r\nx-forwarded-host: evil\r\nx-forwarded-host: example.com\r\n",
        "x-forwarded-proto: https\r\nx-forwarded-host: example.com\r\nx-forwarded-for: 10.0.0.1\r\n",
    );
    check_forwarded(
        proxy,
        &LISTS[..2],
        "x-forwarded-for: 192.0.2.1, 10.0.0.2\r\nx-forwarded-proto: https, http\r\n",
        "x-forwarded-for: 192.0.2.1, 10.0.0.2, 10.0.0.1\r\nx-forwarded-proto: https\r\n",
    );
    // A malformed value is not passed on, nor another one in its place.
    let malformed = "x-forwarded-for:\r\nx-forwarded-proto: gopher\r\nx-forwarded-host: a b\r\n";
    check_forwarded(proxy, &LISTS, malformed, "x-forwarded-for: 10.0.0.1\r\n");
    // A proxy behind a Unix socket has no address, and its word stands.
    check_forwarded(
        PeerAddr::Unix,
        &LISTS[..1],
        "x-forwarded-for: 192.0.2.1\r\n",
        "x-forwarded-for: 192.0.2.1\r\n",
    );
    check_forwarded(PeerAddr::Unix, &HOPS, "forwarded: for=192.0.2.1\r\n", "forwarded: for=192.0.2.1\r\n");
    check_forwarded(PeerAddr::Unix, &HOPS, "", "forwarded: for=unknown;host=\"a:8080\";proto=http\r\n");
    check_forwarded(PeerAddr::Memory, &LISTS[..1], lies, "");
}

/// CGI, WSGI and PHP read `_` in a name as `-`.
#[test]
fn no_spelling_of_a_name_passes_for_what_the_gateway_sets_rfc3875_4_1_18() {
    let client = PeerAddr::from(SocketAddr::from(([192, 0, 2, 1], 4711)));
    let own = "x-forwarded-for: 192.0.2.1\r\n";
    for lie in [
        "X_Forwarded_For: 192.0.2.66",
        "x_forwarded-for: 192.0.2.66",
        "X_Real_IP: 192.0.2.66",
        "X_User: root",
        "x.user: root",
        "Client-IP: 192.0.2.66",
        "True-Client-IP: 192.0.2.66",
        "CF-Connecting-IP: 192.0.2.66",
        "cf_connecting_ip: 192.0.2.66",
        "X-Client-IP: 192.0.2.66",
        "Front-End-Https: on",
    ] {
        check_forwarded(client, &LISTS[..1], &format!("{lie}\r\nx-a: 1\r\n"), &format!("x-a: 1\r\n{own}"));
    }
    // A request that was not made by `forwarded_to`.
    let mut onward = Request::get("http://b/").unwrap();
    onward.headers.set("X_Forwarded_For", "192.0.2.66").unwrap();
    let service = Server::new().service(async move |ctx: &mut Context| {
        let mut onward = onward.clone();
        ctx.set_forwarded(&mut onward);
        assert!(onward.headers.is_empty());
    });
    paused(service.respond(Request::get("/").unwrap()));
}

/// A response to HEAD is over with its head, though the server behind is asked with GET and never ends.
#[test]
fn the_head_of_a_stream_does_not_hold_its_connection_rfc9110_9_3_2() {
    for (field, dialed) in [("", 1), ("x-get: 1\r\n", 2)] {
        paused(async move {
            let stage = Stage::new(async |mut peer, _| {
                while let Some(request) = peer.request().await? {
                    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                    match &request[..request.find(' ').unwrap()] {
                        "HEAD" => peer.send(head).await?,
                        _ if request.contains(" /next ") => peer.send(OK).await?,
                        _ => {
                            peer.send(format!("{head}4\r\ntick\r\n")).await?;
                            pending().await
                        }
                    }
                }
                Ok(())
            });
            let client = stage.client();
            let gateway = async move |ctx: &mut Context| -> corehttp::Result {
                let mut onward = ctx.request.forwarded_to("http://b")?;
                if ctx.request.headers.contains("x-get") {
                    onward.set_method(Method::Get);
                }
                ctx.forward(client.open_call(&onward)).await
            };
            let service = Server::new().service(gateway);
            let (mut near, far) = duplex(64 << 10);
            let peer = async move {
                let requests = ["HEAD /events", "GET /next"]
                    .map(|request| format!("{request} HTTP/1.1\r\nhost: a\r\n{field}\r\n"));
                near.write_all(requests.concat().as_bytes()).await.unwrap();
                let mut received = Vec::new();
                while !received.ends_with(b"\r\n\r\nok") {
                    let read = timeout(Duration::from_secs(1), near.read_buf(&mut received)).await;
                    assert_ne!(read.expect("the next response comes at once").unwrap(), 0);
                }
            };
            let _ = tokio::join!(service.serve_connection(far), peer);
            assert_eq!(stage.dialed().len(), dialed, "{field}");
        });
    }
}
