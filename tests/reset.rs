//! A reset object equals a new one: no exchange can see anything of an earlier one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Handler, Headers, Request, Response, Server, Service, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Exchanges that leave something in every place that there is.
const SOILING: &[(&str, Next)] = &[
    ("GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    (
        "GET /all?a=1&b=2 HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: 2\r\ncookie: a=b\r\nte: trailers\r\n\r\n",
        Next::Same,
    ),
    ("GET http://other:81/all?c HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("PROPFIND /all HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("HEAD /all HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /all HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", Next::Same),
    ("POST /all HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", Next::Same),
    (
        "POST /all HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-t: 1\r\n\r\n",
        Next::Same,
    ),
    ("POST /all HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nhi", Next::Same),
    ("POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", Next::Same),
    (
        "POST /unread HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-t: 1\r\n\r\n",
        Next::Same,
    ),
    ("POST /byte HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", Next::Same),
    (
        "POST /byte HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-t: 1\r\n\r\n",
        Next::Same,
    ),
    (
        "POST /rest HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-t: 1\r\n\r\n",
        Next::Same,
    ),
    ("GET /large HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /hints HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /source HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /stream HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /stream HTTP/1.0\r\n\r\n", Next::Other),
    ("HEAD /stream HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /taken HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /fail HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /none HTTP/1.1\r\nhost: a\r\n\r\n", Next::Same),
    ("GET /panic HTTP/1.1\r\nhost: a\r\n\r\n", Next::Other),
    ("GET /half HTTP/1.1\r\nhost: a\r\n\r\n", Next::Other),
    ("GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nearly", Next::Other),
    (
        "POST /all HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello and more",
        Next::Other,
    ),
    ("POST /all HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhello", Next::Other),
    ("POST /byte HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhello", Next::Other),
    ("POST /rest HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\nx", Next::Other),
    ("GET /all HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", Next::Other),
    ("GET /all HTTP/1.1\r\nhost: a\r\nexpect: more\r\n\r\n", Next::Other),
    ("GET /half-a-head", Next::Other),
];

/// Exchanges that look around.
const PROBES: &[&str] = &[
    "GET /probe HTTP/1.1\r\nhost: p\r\n\r\n",
    "GET /probe HTTP/1.0\r\n\r\n",
    "POST /probe?q HTTP/1.1\r\nhost: p\r\ncontent-length: 2\r\n\r\nok",
    "POST /probe HTTP/1.1\r\nhost: p\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "GET /probe-by-stream HTTP/1.1\r\nhost: p\r\n\r\n",
];

/// On which connection another exchange may follow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Same,
    Other,
}

/// How an exchange follows another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gap {
    /// In the same packet.
    None,
    /// On the same connection, which was idle between.
    Pause,
    /// On another connection.
    Connection,
}

#[test]
fn nothing_is_seen_of_the_exchange_before() {
    runtime().block_on(async {
        for probe in PROBES {
            let untouched = ask(&[], probe, Gap::None).await;
            assert!(untouched.0.contains("x-probe"), "{untouched:?}");
            for (soiling, next) in SOILING {
                for gap in [Gap::None, Gap::Pause, Gap::Connection] {
                    if *next == Next::Same || gap == Gap::Connection {
                        let found = ask(&[soiling], probe, gap).await;
                        assert_eq!(found, untouched, "after {soiling:?} and {gap:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn nothing_is_seen_of_all_the_exchanges_before() {
    let all: Vec<&str> = SOILING.iter().map(|(soiling, _)| *soiling).collect();
    let same = SOILING.iter().filter(|(_, next)| *next == Next::Same);
    let same: Vec<&str> = same.map(|(soiling, _)| *soiling).collect();
    runtime().block_on(async {
        for probe in PROBES {
            let untouched = ask(&[], probe, Gap::None).await;
            assert_eq!(ask(&same, probe, Gap::None).await, untouched);
            assert_eq!(ask(&same, probe, Gap::Pause).await, untouched);
            assert_eq!(ask(&all, probe, Gap::Connection).await, untouched);
        }
    });
}

/// A clock that jumps when all wait: a pause is over when nothing happens any more.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Returns the response of a service to `probe` after it has served `soiling`, and the request as its handler saw it.
async fn ask(soiling: &[&str], probe: &str, gap: Gap) -> (String, Option<Request>) {
    let seen = Rc::default();
    let service = service(Rc::clone(&seen));
    let mut packets = soiling.to_vec();
    packets.push(probe);
    let received = match gap {
        Gap::None => converse(&service, &[&packets.concat()]).await,
        Gap::Pause => converse(&service, &packets).await,
        Gap::Connection => {
            let mut received = String::new();
            for packet in packets {
                received = converse(&service, &[packet]).await;
            }
            received
        }
    };
    let probed = received.rfind(PROBED).map(|start| received[start..].to_owned());
    (undated(&probed.unwrap_or(received)), seen.take())
}

/// All that is answered on one connection that sends `packets`, with a pause behind each.
async fn converse(service: &Service<impl Handler>, packets: &[&str]) -> String {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let peer = async {
        for packet in packets {
            near.write_all(packet.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        near.shutdown().await.unwrap();
        let mut received = Vec::new();
        near.read_to_end(&mut received).await.unwrap();
        String::from_utf8(received).unwrap()
    };
    let (_, received) = tokio::join!(service.serve_connection(far), peer);
    received
}

fn undated(received: &str) -> String {
    received.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

const PROBED: &str = "HTTP/1.1 200 OK\r\nx-probe: found\r\n";

/// A service that soils and probes, by the path.
fn service(seen: Rc<RefCell<Option<Request>>>) -> Service<impl Handler> {
    let plan = |request: &Request| match request.path() {
        "/unread" | "/byte" | "/rest" => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    };
    Server::new().name("reset").unwrap().service(wrap(
        middleware::plan(plan),
        async move |ctx: &mut Context| match ctx.request.path() {
            "/probe" | "/probe-by-stream" => {
                *seen.borrow_mut() = Some(ctx.request.clone());
                probe(ctx).await
            }
            _ => soil(ctx).await,
        },
    ))
}

/// Tells all that a handler can see.
async fn probe(ctx: &mut Context) -> corehttp::Result {
    let mut found = String::new();
    let Context { request, response, extensions, .. } = ctx;
    writeln!(found, "{} {:?} {:?}", request.method(), request.version(), request.target())?;
    writeln!(found, "{:?} {:?}", request.authority(), request.query().iter().collect::<Vec<_>>())?;
    writeln!(found, "{:?} {:?} {:?}", request.headers, request.body.text(), request.trailers)?;
    writeln!(found, "{response:?} {extensions:?} {:?}", extensions.get::<Soil>().is_some())?;
    assert_eq!(*response, Response::new());
    response.headers.set("x-probe", "found")?;
    let body = ctx.body_reader();
    writeln!(found, "{:?}", body.trailers())?;
    if ctx.request.path() == "/probe" {
        ctx.response.body.set_bytes(found);
        return Ok(());
    }
    let mut out = ctx.body_writer().await?;
    out.write_all(found.as_bytes()).await?;
    Ok(out.finish().await?)
}

/// Left in the extensions.
struct Soil;

/// Fills everything that can be filled, and ends in the way that the path names.
async fn soil(ctx: &mut Context) -> corehttp::Result {
    ctx.extensions.insert(Soil);
    match ctx.request.path() {
        "/nothing" => return Ok(()),
        "/byte" => _ = ctx.body_reader().read(&mut [0]).await?,
        "/rest" => {
            ctx.body_reader().read_exact(&mut [0]).await?;
            ctx.buffer_body().await?;
        }
        _ => {}
    }
    let Context { request, response, .. } = &mut *ctx;
    response.status = Status::IM_USED;
    response.set_text("soil");
    response.headers.set("x-soil", 1)?;
    response.headers.append("x-soil", 2)?;
    response.headers.set("server", "soil")?;
    response.trailers.set("x-trailer", "soil")?;
    response.url = Some("http://soil/".into());
    request.headers.set("x-late", "soil")?;
    request.trailers.set("x-late", "soil")?;
    end(ctx).await
}

async fn end(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/large" => ctx.response.body.set_bytes("large".repeat(20_000)),
        "/source" => ctx.response.body.set_stream(&b"source"[..], None),
        "/taken" => {
            ctx.request = Request::post("http://taken/?away=1")?;
            ctx.response = Response { body: std::mem::take(&mut ctx.request.body), ..Response::new() };
        }
        "/hints" => {
            ctx.send_informational(Status::EARLY_HINTS, &Headers::clone(&ctx.response.headers)).await?
        }
        "/none" => ctx.response.status = Status::NO_CONTENT,
        "/stream" => {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"streamed").await?;
            out.finish().await?;
        }
        "/half" => {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"half").await?;
        }
        "/upgrade" => drop(ctx.upgrade("x").await?),
        "/fail" => return Err(corehttp::Error::new(Status::CONFLICT, "soil")),
        "/panic" => std::panic::resume_unwind(Box::new("without a trace")),
        _ => {}
    }
    Ok(())
}
