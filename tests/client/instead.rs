//! Responses of a server behind that a gateway replaces: by a file that they name (`x-accel-redirect`), or by an error.

use std::mem::take;
use std::time::Duration;

use corehttp::client::Host;
use corehttp::fs::Files;
use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Context, Error, Handler, Limits, Method, Response, Server, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::sleep;

use crate::support::{OK, Stage, paused};

/// The program of the documentation of `corehttp::fs`.
async fn pass(ctx: &mut Context, app: &Host, files: &Files) -> corehttp::Result {
    ctx.response.headers.set("x-front", 1)?;
    let mut onward = ctx.request.forwarded_to("/")?;
    onward.headers.remove("x-accel-redirect");
    let names_file = |response: &mut Response| {
        response.headers.contains("x-accel-redirect").then(|| take(&mut response.headers))
    };
    let Some(fields) = ctx.forward_unless(app.open_call(&onward), names_file).await? else {
        return Ok(());
    };
    let path = fields.get("x-accel-redirect").unwrap_or_default();
    ctx.request.set_url(path).map_err(|error| Error::new(Status::BAD_GATEWAY, error))?;
    if ctx.request.method() != Method::Head {
        ctx.request.set_method(Method::Get);
    }
    for (name, value) in
        fields.iter().filter(|(name, _)| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)))
    {
        ctx.response.headers.append(name, String::from_utf8_lossy(value))?;
    }
    files.handle(ctx).await
}

const KEPT: [&str; 4] = ["cache-control", "content-disposition", "expires", "set-cookie"];

/// Sends `asked` to the gateway in front of `stage`, and returns all that comes until it closes. Each line of a field that
/// says when or what it is about is left out.
async fn receive_all(stage: &Stage, asked: &str) -> (String, u64) {
    let client = stage.client();
    let app = client.host("http://b").unwrap();
    let files = Files::from_embedded(&[("a.txt", b"abc"), ("private/b.txt", b"b"), (".env", b"secret")]);
    let gateway = async move |ctx: &mut Context| pass(ctx, &app, &files).await;
    let service = Server::new().half_close(true).service(wrap(BodyPlan::Stream, gateway));
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        let mut received = String::new();
        near.write_all(asked.as_bytes()).await.unwrap();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    let received = tokio::join!(peer, service.serve_connection(far)).0;
    let is_left_out = |line: &&str| ["date: ", "etag: "].iter().any(|name| line.starts_with(name));
    let received = received.split_inclusive("\r\n").filter(|line| !is_left_out(line)).collect();
    (received, client.counts().total.idle)
}

/// A client that sends `lines` after the request line gets `expected`, if the server behind answers so; the connection to
/// that `persists` or does not.
#[track_caller]
fn check([request_line, lines]: [&str; 2], response: &str, expected: &str, persists: bool) {
    paused(async {
        let stage = Stage::always(response);
        let asked = format!("{request_line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{lines}");
        let (received, idle) = receive_all(&stage, &asked).await;
        assert_eq!(received, expected, "{asked} {response}");
        assert_eq!(idle, u64::from(persists), "{asked} {response}");
        let onward = stage.received().concat().to_ascii_lowercase();
        assert!(!onward.contains("accel"), "{onward}");
    });
}

/// The head of a response with a file, up to its length.
const FILE: &str = "HTTP/1.1 200 OK\r\nx-front: 1\r\n";
const TEXT: &str = "content-type: text/plain; charset=utf-8\r\naccept-ranges: bytes\r\n";
const CLOSE: &str = "connection: close\r\n\r\n";

#[test]
fn a_file_that_the_server_behind_names_is_sent_instead() {
    let get = ["GET /x", "\r\n"];
    let whole = format!("{FILE}{TEXT}content-length: 3\r\n{CLOSE}abc");
    for name in ["x-accel-redirect", "X-Accel-Redirect"] {
        let empty = format!("HTTP/1.1 200 OK\r\n{name}: /a.txt\r\ncontent-length: 0\r\n\r\n");
        check(get, &empty, &whole, true);
    }
    // The method is that of the request for the application, and what is asked for is a file.
    let empty = "HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ncontent-length: 0\r\n\r\n";
    check(["POST /x", "content-length: 3\r\n\r\nxyz"], empty, &whole, true);
    check(["POST /x", "transfer-encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"], empty, &whole, true);
    check(["HEAD /x", "\r\n"], empty, &format!("{FILE}{TEXT}content-length: 3\r\n{CLOSE}"), true);
    let partial = "HTTP/1.1 206 Partial Content\r\nx-front: 1\r\n";
    let range = format!("{partial}{TEXT}content-range: bytes 1-1/3\r\ncontent-length: 1\r\n{CLOSE}b");
    check(["GET /x", "range: bytes=1-1\r\n\r\n"], empty, &range, true);
    // The status and the content of the response behind are dropped, and most of its fields.
    let other = "HTTP/1.1 404 x\r\nx-accel-redirect: /a.txt\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nx-powered-by: x\r\n\
        etag: \"x\"\r\ncontent-type: text/html\r\ncache-control: private\r\ncontent-length: 2\r\n\r\nno";
    let kept = "set-cookie: a=1\r\nSet-Cookie: b=2\r\ncache-control: private\r\n";
    check(get, other, &format!("{FILE}{kept}{TEXT}content-length: 3\r\n{CLOSE}abc"), true);
    let chunks = "HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ntransfer-encoding: chunked\r\n\r\n\
        2\r\nno\r\n0\r\nx-accel-redirect: /b\r\n\r\n";
    check(get, chunks, &whole, true);
    let closes =
        "HTTP/1.1 200 OK\r\nconnection: close\r\nx-accel-redirect: /a.txt\r\ncontent-length: 2\r\n\r\nno";
    check(get, closes, &whole, false);
}

/// A client gets no file that it names itself, and learns no path.
#[test]
fn the_field_counts_only_in_a_response() {
    let passed = format!("HTTP/1.1 200 OK\r\nx-front: 1\r\ncontent-length: 2\r\n{CLOSE}ok");
    for lines in [
        "x-accel-redirect: /a.txt\r\n\r\n",
        "X-ACCEL-Redirect: /a.txt\r\nx-accel-redirect: /a.txt\r\n\r\n",
        "x_accel_redirect: /a.txt\r\n\r\n",
        "connection: x-accel-redirect\r\nx-accel-redirect: /a.txt\r\n\r\n",
    ] {
        check(["GET /x", lines], OK, &passed, true);
    }
    let text = "content-type: text/plain; charset=utf-8\r\n";
    for (path, status) in [
        ("/b.txt", "404 Not Found"),
        ("/.env", "404 Not Found"),
        ("/../../etc/passwd", "404 Not Found"),
        ("/private/../.env", "404 Not Found"),
        ("/private/%2e%2e/.env", "404 Not Found"),
        ("/%2e%2e/%2e%2e/etc/passwd", "404 Not Found"),
        ("a.txt", "502 Bad Gateway"),
        ("", "502 Bad Gateway"),
        ("/a b", "404 Not Found"),
        ("ftp://a/a.txt", "502 Bad Gateway"),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\nx-accel-redirect: {path}\r\ncontent-length: 0\r\n\r\n");
        let body = &status[4..];
        let head = format!("HTTP/1.1 {status}\r\nx-front: 1\r\n{text}content-length: {}\r\n", body.len());
        check(["GET /x", "\r\n"], &response, &format!("{head}{CLOSE}{body}"), true);
    }
}

/// Content that is large, or does not come, is not waited for, and neither is a server that reads on.
#[test]
fn a_connection_whose_response_is_not_whole_is_closed() {
    let whole = format!("{FILE}{TEXT}content-length: 3\r\n{CLOSE}abc");
    let size = Limits::default().drain_max + 1;
    let large = format!(
        "HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ncontent-length: {size}\r\n\r\n{}",
        "x".repeat(size)
    );
    let cut = "HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ncontent-length: 3\r\n\r\nab";
    let malformed = "HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ntransfer-encoding: chunked\r\n\r\nx";
    for response in [&large, cut, malformed] {
        check(["GET /x", "\r\n"], response, &whole, false);
    }
    // The server behind has answered before it has read the request, of which no end comes.
    paused(async {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\nx-accel-redirect: /a.txt\r\ncontent-length: 0\r\n\r\n").await?;
            peer.receive_all().await
        });
        let asked = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nab";
        let (received, idle) = receive_all(&stage, asked).await;
        assert_eq!((received, idle), (whole, 0));
        sleep(Duration::from_millis(1)).await;
        let onward = stage.received().concat();
        assert!(onward.ends_with("content-length: 3\r\n\r\n") || onward.ends_with("ab"), "{onward}");
    });
}

/// A switch to another protocol that is not passed on leaves a connection that is none of HTTP.
#[test]
fn a_switch_that_is_replaced_ends_its_connection() {
    let asked = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let switch =
        "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-accel-redirect: /a.txt\r\n\r\n";
    check(["GET /x", asked], switch, &format!("{FILE}{TEXT}content-length: 3\r\n{CLOSE}abc"), false);
}

/// A response that `forward_with` refuses leaves its connection as well, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_refused_response_leaves_its_connection() {
    let stage = Stage::always("HTTP/1.1 201 x\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok");
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| {
        ctx.response.status = Status::ACCEPTED;
        let refuse = |_: &mut Response| -> corehttp::Result { Err(Status::FORBIDDEN.into()) };
        let refused =
            ctx.forward_with(client.open_call(&ctx.request.forwarded_to("http://b")?), refuse).await;
        assert_eq!(refused.unwrap_err().status(), Status::FORBIDDEN);
        let Response { status, headers, .. } = &ctx.response;
        assert_eq!((*status, headers.len(), ctx.has_responded()), (Status::ACCEPTED, 0, false));
        let onward = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&onward)).await
    };
    let service = Server::new().service(gateway);
    let response = service.respond(corehttp::Request::get("/").unwrap()).await;
    assert_eq!((response.status, response.text()), (Status::CREATED, Ok("ok")));
    assert_eq!((stage.dialed().len(), stage.received().len()), (1, 2));
}

/// How a gateway fails once it has the head of the server behind.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The function that chooses panics.
    Choose,
    /// The function that changes the head panics, once it has changed it.
    Change,
    /// The status that the function has set is none of a final response.
    Status,
    /// There is no connection for the protocol to which the server behind has switched.
    Switch,
}

/// The fields of the server behind once stayed in the response to a fault of the gateway, such as a cookie.
#[tokio::test(start_paused = true)]
async fn a_fault_of_the_gateway_is_answered_with_its_own_fields() {
    for fault in [Fault::Choose, Fault::Change, Fault::Status, Fault::Switch] {
        let status = if let Fault::Switch = fault { "101" } else { "201" };
        let stage = Stage::always(format!(
            "HTTP/1.1 {status} x\r\nset-cookie: a=1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             content-length: 0\r\n\r\n"
        ));
        let client = stage.client();
        let gateway = async move |ctx: &mut Context| {
            ctx.response.headers.set("x-front", 1)?;
            let onward = ctx.request.forwarded_to("http://b")?;
            let call = client.open_call(&onward);
            match fault {
                Fault::Choose => {
                    let choose = |_: &mut Response| -> Option<()> { panic!("it chooses none") };
                    ctx.forward_unless(call, choose).await.map(drop)
                }
                Fault::Change => {
                    let change = |response: &mut Response| {
                        response.headers.set("x-changed", 1).unwrap();
                        assert!(response.headers.is_empty(), "it changes no more");
                    };
                    ctx.forward_with(call, change).await
                }
                Fault::Status => {
                    let change = |response: &mut Response| response.status = Status::EARLY_HINTS;
                    ctx.forward_with(call, change).await
                }
                Fault::Switch => ctx.forward(call).await,
            }
        };
        let mut request = corehttp::Request::get("/").unwrap();
        if let Fault::Switch = fault {
            for (name, value) in [
                ("connection", "upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ] {
                request.headers.set(name, value).unwrap();
            }
        }
        let response = Server::new().service(gateway).respond(request).await;
        assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR, "{fault:?}");
        let names: Vec<_> = response.headers.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["x-front", "content-type"], "{fault:?}");
    }
}

/// The paths of files once reached clients in interim responses and in trailers.
#[test]
fn no_path_of_a_file_passes_beside_the_head() {
    let early = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\nX-Accel-Redirect: /a.txt\r\n\r\n";
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\
        x-sum: 1\r\nx-Accel-redirect: /a.txt\r\n\r\n";
    let passed = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nx-front: 1\r\n\
         transfer-encoding: chunked\r\n{CLOSE}2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
    );
    check(["GET /x", "te: trailers\r\n\r\n"], &format!("{early}{chunks}"), &passed, true);
}
