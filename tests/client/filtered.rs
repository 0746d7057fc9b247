//! Requests that a gateway forwards through a filter: their framing, and what becomes of them if the filter fails.

use corehttp::coding::Flush;
use corehttp::middleware::wrap;
use corehttp::server::BodyFilter;
use corehttp::{BodyPlan, Client, Context, Headers, Result, Server, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::support::{OK, Stage, paused, settle};

/// Doubles each octet, or keeps the content as it is, and fails at a `!`.
struct Filter {
    doubles: bool,
    keeps_length: bool,
}

impl BodyFilter for Filter {
    fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> Result {
        if data.contains(&b'!') {
            return Err(Status::UNPROCESSABLE_CONTENT.into());
        }
        out.extend(data.iter().flat_map(|octet| [*octet; 2].into_iter().take(1 + usize::from(self.doubles))));
        Ok(())
    }

    fn end(&mut self, trailers: &mut Headers) -> Result {
        trailers.remove("x-sum");
        Ok(trailers.set("x-checked", 1)?)
    }

    fn keeps_length(&self) -> bool {
        self.keeps_length
    }
}

/// Forwards the request through the filter that its path names, and once more if that fails and its path is `/again`.
async fn pass(client: &Client, ctx: &mut Context) -> Result {
    if ctx.request.headers.remove("x-buffered") {
        ctx.buffer_body().await?;
    }
    let path = ctx.request.path();
    let filter = Filter { doubles: path != "/check", keeps_length: matches!(path, "/check" | "/lies") };
    ctx.filter_body(filter).await?;
    let onward = ctx.request.forwarded_to("http://b")?;
    match ctx.forward(client.open_call(&onward)).await {
        Err(_) if ctx.request.path() == "/again" => ctx.forward(client.open_call(&onward)).await,
        outcome => outcome,
    }
}

/// Sends `asked` to a gateway in front of `stage`, and returns all that comes.
async fn receive_all(stage: &Stage, asked: &str) -> String {
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let service = Server::new().half_close(true).service(wrap(BodyPlan::Stream, gateway));
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        near.write_all(asked.as_bytes()).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    let received = tokio::join!(peer, service.serve_connection(far)).0;
    settle().await;
    received
}

/// A POST with `body` goes on as `onward`.
#[track_caller]
fn check(path: &str, body: &str, onward: &str) {
    paused(async {
        let stage = Stage::always(OK);
        let asked = format!("POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{body}");
        let received = receive_all(&stage, &asked).await;
        assert!(
            received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with("\r\n\r\nok"),
            "{received}"
        );
        assert_eq!(stage.received(), [format!("POST {path} HTTP/1.1\r\nhost: b\r\n{onward}")], "{asked}");
    });
}

#[test]
fn filtered_content_is_forwarded_as_it_is_framed() {
    let length = "content-length: 3\r\n\r\nabc";
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n";
    let doubled = "transfer-encoding: chunked\r\n\r\n6\r\naabbcc\r\n0\r\nx-checked: 1\r\n\r\n";
    check("/", length, doubled);
    check("/", chunks, doubled);
    // A length stays if the filter says so, and leaves no room for trailers.
    check("/check", length, length);
    check("/check", chunks, &chunks.replace("x-sum", "x-checked"));
    // Content that was received before has its length again.
    check("/", &format!("x-buffered: 1\r\n{length}"), "content-length: 6\r\n\r\naabbcc");
    check("/", &format!("x-buffered: 1\r\n{chunks}"), doubled);
    check("/check", &format!("x-buffered: 1\r\n{length}"), length);
    for path in ["/", "/check"] {
        check(path, "content-length: 0\r\n\r\n", "content-length: 0\r\n\r\n");
        check(path, "\r\n", "content-length: 0\r\n\r\n");
    }
}

/// The server behind must not take for the whole what came before the fault, and is not asked twice.
#[test]
fn a_filter_that_fails_cuts_the_request() {
    for body in [
        "content-length: 6\r\n\r\nabcde!",
        "transfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n1\r\n!\r\n0\r\n\r\n",
        "x-buffered: 1\r\ncontent-length: 6\r\n\r\nabcde!",
    ] {
        for path in ["/", "/check", "/again"] {
            paused(async {
                let stage = Stage::new(|mut peer, _| async move { peer.receive_all().await });
                let asked = format!("POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{body}");
                let received = receive_all(&stage, &asked).await;
                let is_buffered = body.starts_with("x-buffered");
                // The part that has passed is gone: another attempt would forward the rest for the whole.
                let expected = if path == "/again" && !is_buffered { "502 " } else { "422 " };
                assert!(received.starts_with(&format!("HTTP/1.1 {expected}")), "{asked}: {received}");
                assert_eq!(stage.dialed().len(), usize::from(!is_buffered), "{asked}");
                let onward = stage.received().concat();
                assert!(!onward.contains('!') && !onward.contains("\r\n0\r\n"), "{asked}: {onward}");
                assert!(!onward.contains("content-length: 6\r\n\r\nabcdef"), "{onward}");
            });
        }
    }
}

/// Once the response has begun, it is cut, as the request is.
#[test]
fn a_filter_that_fails_late_cuts_the_response() {
    paused(async {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await?;
            peer.receive_all().await
        });
        let client = stage.client();
        let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
        let service = Server::new().half_close(true).service(wrap(BodyPlan::Stream, gateway));
        let (mut near, far) = duplex(64 << 10);
        let peer = async {
            let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc";
            near.write_all(head.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            while !received.ends_with(b"\r\n\r\nhalf") {
                received.push(near.read_u8().await.unwrap());
            }
            near.write_all(b"de!").await.unwrap();
            let mut rest = String::new();
            near.read_to_string(&mut rest).await.unwrap();
            assert_eq!(rest, "");
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
        settle().await;
        let onward = stage.received().concat();
        assert!(onward.contains("aabbcc") && !onward.contains("\r\n0\r\n"), "{onward}");
    });
}

/// A filter that makes more or less than the length that it has promised to keep makes no second request of the rest.
#[test]
fn a_length_that_is_not_kept_cuts_the_request() {
    paused(async {
        let stage = Stage::new(|mut peer, _| async move { peer.receive_all().await });
        let asked = "POST /lies HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
        let received = receive_all(&stage, asked).await;
        assert!(received.starts_with("HTTP/1.1 502 "), "{received}");
        let onward = stage.received().concat();
        let body = onward.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(body.len() < 3, "{onward}");
    });
}

/// The gateway sends the 100 itself, once the content is wanted.
#[tokio::test(start_paused = true)]
async fn an_expectation_is_met_through_a_filter_rfc9110_10_1_1() {
    let stage = Stage::always(OK);
    let client = stage.client();
    let gateway = async move |ctx: &mut Context| pass(&client, ctx).await;
    let service = Server::new().half_close(true).service(wrap(BodyPlan::Stream, gateway));
    let (mut near, far) = duplex(64 << 10);
    let peer = async {
        let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\n";
        near.write_all(format!("{head}content-length: 3\r\n\r\n").as_bytes()).await.unwrap();
        let mut received = [0; 25];
        near.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"HTTP/1.1 100 Continue\r\n\r\n");
        near.write_all(b"abc").await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert!(received.ends_with("\r\n\r\nok"), "{received}");
    };
    let _ = tokio::join!(peer, service.serve_connection(far));
    assert!(stage.received()[0].ends_with("6\r\naabbcc\r\n0\r\nx-checked: 1\r\n\r\n"));
}
