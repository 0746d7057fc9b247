//! Streamed bodies: read and written piece by piece, both at once, and connections that are taken over.
#![allow(clippy::unit_arg, clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::server::RespondError;
use corehttp::sse::Event;
use corehttp::{Body, BodyPlan, Context, Handler, Headers, IntoHandler, Method, Request, Server, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::{
    ErrorReports, Served, eventually, is_held_back, is_over_with_its_head, paused, resident, status,
    streaming, undated,
};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// The reason in `error` why a response cannot be sent.
fn reason(error: &io::Error) -> RespondError {
    error.get_ref().unwrap().downcast_ref::<RespondError>().unwrap().clone()
}

/// A request whose body is framed by `field`.
fn post(field: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\n{field}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    post("transfer-encoding: chunked", body)
}

fn sized(body: &str) -> String {
    post(&format!("content-length: {}", body.len()), body)
}

mod reading {
    use super::*;

    /// Checks that the handler sees the `body` and `trailers` of `wire`, however it is read and cut, and that the
    /// request behind it is answered, too.
    #[track_caller]
    fn check(wire: &str, body: &str, trailers: &str) {
        let next = wire.to_owned() + GET;
        for (way, served) in ways() {
            let encoded =
                |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            let expected = encoded(&format!("{body}|{trailers}")) + &encoded("|");
            for cut in wire.find("\r\n\r\n").unwrap() + 4..=wire.len() {
                let mut peer = served.connect();
                peer.send(&next[..cut]);
                peer.send(&next[cut..]);
                peer.end();
                assert_eq!(undated(&peer.receive_all()), expected, "{wire:?} cut at {cut} {way}");
            }
        }
    }

    fn ways() -> [(&'static str, Served); 7] {
        [
            ("buffered", reads(BodyPlan::Buffer, async |ctx| Ok(ctx.request.body.bytes().to_vec()))),
            ("by chunks", reads(BodyPlan::Stream, by_chunks)),
            ("by chunks of what was buffered", reads(BodyPlan::Buffer, by_chunks)),
            ("by bytes", reads(BodyPlan::Stream, by_bytes)),
            ("by bytes of what was buffered", reads(BodyPlan::Buffer, by_bytes)),
            ("both in turn", reads(BodyPlan::Stream, in_turn)),
            ("buffered after a byte", reads(BodyPlan::Stream, byte_and_rest)),
        ]
    }

    fn reads<F>(plan: BodyPlan, read: F) -> Served
    where
        F: AsyncFn(&mut Context) -> corehttp::Result<Vec<u8>> + Send + Sync + 'static,
    {
        let handler = async move |ctx: &mut Context| -> corehttp::Result {
            let read = read(ctx).await?;
            let body = ctx.body_reader();
            let sum = body.trailers().get("x-sum").unwrap_or_default();
            let response = [&read, b"|".as_slice(), sum.as_bytes()].concat();
            assert!(!ctx.request.headers.contains("x-sum"), "trailers are no headers");
            Ok(ctx.response.body.set_bytes(response))
        };
        Served::new(wrap(plan, handler))
    }

    async fn by_chunks(ctx: &mut Context) -> corehttp::Result<Vec<u8>> {
        let (mut read, mut body) = (Vec::new(), ctx.body_reader());
        while let Some(chunk) = body.chunk().await? {
            assert_ne!(chunk, b"");
            read.extend_from_slice(chunk);
        }
        assert_eq!(body.chunk().await?, None, "the end stays the end");
        Ok(read)
    }

    async fn by_bytes(ctx: &mut Context) -> corehttp::Result<Vec<u8>> {
        let (mut read, mut body, mut byte) = (Vec::new(), ctx.body_reader(), [0]);
        while body.read(&mut byte).await? > 0 {
            read.extend_from_slice(&byte);
        }
        assert_eq!(body.read(&mut byte).await?, 0, "the end stays the end");
        Ok(read)
    }

    /// A byte, a chunk, two bytes, and all that is left.
    async fn in_turn(ctx: &mut Context) -> corehttp::Result<Vec<u8>> {
        let (mut read, mut body) = (Vec::new(), ctx.body_reader());
        (&mut body).take(1).read_to_end(&mut read).await?;
        read.extend_from_slice(body.chunk().await?.unwrap_or_default());
        (&mut body).take(2).read_to_end(&mut read).await?;
        body.read_to_end(&mut read).await?;
        Ok(read)
    }

    async fn byte_and_rest(ctx: &mut Context) -> corehttp::Result<Vec<u8>> {
        let mut read = Vec::new();
        ctx.body_reader().take(1).read_to_end(&mut read).await?;
        ctx.buffer_body().await?;
        read.extend_from_slice(ctx.request.body.bytes());
        let sum = ctx.request.trailers.get("x-sum").map(str::to_owned);
        let said = ctx.body_reader().trailers().get("x-sum").map(str::to_owned);
        assert_eq!(said, sum, "the trailers are where the body is");
        Ok(read)
    }

    #[test]
    fn a_body_of_known_length_is_read_rfc9112_6_2() {
        check(&sized("hello, world"), "hello, world", "");
        check(&sized(""), "", "");
    }

    #[test]
    fn a_body_in_chunks_is_read_with_its_trailers_rfc9112_7_1() {
        check(&chunked("5\r\nhello\r\n7;a=b\r\n, world\r\n0\r\n\r\n"), "hello, world", "");
        check(&chunked("1\r\nh\r\n1\r\ni\r\n0\r\nx-sum: 7\r\n\r\n"), "hi", "7");
        check(&chunked("0\r\n\r\n"), "", "");
        check(&chunked("0\r\nx-sum: 7\r\n\r\n"), "", "7");
    }

    #[test]
    fn a_request_without_framing_has_no_body_rfc9112_6_3() {
        check("POST / HTTP/1.1\r\nhost: a\r\n\r\n", "", "");
    }

    #[test]
    fn a_read_that_is_given_up_takes_nothing() {
        let served = Served::new(streaming(async |ctx: &mut Context| -> corehttp::Result {
            let (mut read, mut body) = (Vec::new(), ctx.body_reader());
            loop {
                let tried = tokio::select! {
                    biased;
                    chunk = body.chunk() => Some(chunk?),
                    () = tokio::task::yield_now() => None,
                };
                match tried {
                    None => {}
                    Some(Some(chunk)) => read.extend_from_slice(chunk),
                    Some(None) => break,
                }
            }
            Ok(ctx.response.body.set_bytes(read))
        }));
        let mut peer = served.connect();
        for part in [chunked("5\r\nhel"), "lo\r\n".into(), "0\r\n\r\n".into()] {
            peer.send(part);
        }
        assert!(peer.receive().ends_with("\r\n\r\nhello"));
    }

    /// The peer is gone, so it gets no response, however the body is read.
    #[test]
    fn a_connection_that_fails_is_not_answered() {
        for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
            let refusals = ErrorReports::default();
            let reads = async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.buffer_body().await?) };
            let served = Served::with(|server| refusals.attach(server), wrap(plan, reads));
            let mut peer = served.connect();
            peer.send(post("content-length: 9\r\nexpect: 100-continue", ""));
            peer.receive_through("100 Continue\r\n\r\n");
            peer.reset();
            let total = || served.running.counts().total;
            eventually("the exchange ends", || total().open == 0);
            let told = refusals.take();
            assert!(told.len() == 1 && told[0].1.contains("the connection failed"), "{plan:?}: {told:?}");
            assert_eq!((told[0].0, total().errors.io), (0, 1), "{plan:?}");
        }
    }

    #[test]
    fn a_body_that_is_not_read_holds_the_peer_back() {
        paused(async {
            let ((near, far), go) = (tokio::io::duplex(1 << 10), Arc::new(Notify::new()));
            let going = go.clone();
            let service = Server::new().half_close(true).service(streaming(
                async move |ctx: &mut Context| -> corehttp::Result {
                    let mut body = ctx.body_reader();
                    let first = body.chunk().await?.map_or(0, <[u8]>::len);
                    going.notified().await;
                    let rest = body.read_to_end(&mut Vec::new()).await?;
                    Ok(ctx.response.set_text((first + rest).to_string()))
                },
            ));
            let peer = async {
                let head = post("content-length: 1000000", "");
                is_held_back(near, &head, 80 << 10, &go).await;
            };
            let (served, ()) = tokio::join!(service.serve_connection(far), peer);
            served.unwrap();
        });
    }
}

/// Responses whose bodies are written by the handler, or come from a source: both look the same to the peer.
mod writing {
    use super::*;

    /// Checks that a response of `hello` with this status, with or without a length, is sent as `expected` to a peer
    /// that has sent `asked`.
    #[track_caller]
    fn check(request: &str, status: Status, len: Option<u64>, expected: &str) {
        let writes = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.status = status;
            if let Some(len) = len {
                ctx.response.headers.set("content-length", len)?;
            }
            let mut out = ctx.body_writer().await?;
            out.write_all(b"hello").await?;
            Ok(out.finish().await?)
        };
        let writes_otherwise = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.status = status;
            if let Some(len) = len {
                ctx.response.headers.set("content-length", len)?;
            }
            let mut out = ctx.body_writer().await?;
            AsyncWriteExt::write_all(&mut out, b"hello").await?;
            AsyncWriteExt::flush(&mut out).await?;
            Ok(out.shutdown().await?)
        };
        let streams = move |ctx: &mut Context| {
            ctx.response.status = status;
            ctx.response.body.set_stream(&b"hello"[..], len);
        };
        let served = [Served::new(writes), Served::new(writes_otherwise), Served::new(streams)];
        for (way, served) in ["a writer", "a writer by its trait", "a source"].iter().zip(&served) {
            assert_eq!(undated(&served.ask(request)), expected, "{way}");
        }
    }

    const HEAD: &str = "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn content_of_unknown_length_is_sent_in_chunks_rfc9112_7_1() {
        let response = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        check(GET, Status::OK, None, response);
        check(&GET.repeat(3), Status::OK, None, &response.repeat(3));
    }

    #[test]
    fn content_of_known_length_is_sent_as_it_is_rfc9112_6_2() {
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        check(GET, Status::OK, Some(5), response);
        check(&GET.repeat(3), Status::OK, Some(5), &response.repeat(3));
    }

    #[test]
    fn http_1_0_is_sent_a_length_or_else_closed_rfc9112_6_3() {
        let kept = "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n";
        let until_close = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello";
        let with_length = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello";
        check("GET / HTTP/1.0\r\n\r\n", Status::OK, None, until_close);
        check(&kept.repeat(2), Status::OK, None, until_close);
        check(&kept.repeat(2), Status::OK, Some(5), &with_length.repeat(2));
    }

    #[test]
    fn head_is_answered_without_a_body_rfc9110_9_3_2() {
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let with_length = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        check(&HEAD.repeat(2), Status::OK, None, &chunked.repeat(2));
        check(&HEAD.repeat(2), Status::OK, Some(5), &with_length.repeat(2));
        check(
            &HEAD.repeat(2),
            Status::OK,
            Some(1 << 40),
            &with_length.replace('5', "1099511627776").repeat(2),
        );
    }

    #[test]
    fn a_status_without_content_is_sent_none_rfc9112_6_3() {
        for asked in [GET, HEAD] {
            for len in [None, Some(5)] {
                let response = "HTTP/1.1 204 No Content\r\n\r\n";
                check(&asked.repeat(2), Status::NO_CONTENT, len, &response.repeat(2));
            }
            let response = "HTTP/1.1 304 Not Modified\r\n\r\n";
            check(&asked.repeat(2), Status::NOT_MODIFIED, None, &response.repeat(2));
        }
    }

    #[test]
    fn flushed_content_arrives_at_once() {
        let go = Arc::new(Notify::new());
        let going = go.clone();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-type", "text/event-stream")?;
            let mut out = ctx.body_writer().await?;
            going.notified().await;
            for event in ["data: 1\n\n", "data: 2\n\n"] {
                out.write_all(event.as_bytes()).await?;
                out.flush().await?;
                going.notified().await;
            }
            Ok(out.finish().await?)
        });
        let mut peer = served.connect();
        peer.send(GET);
        assert!(peer.receive_through("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"), "the head leaves first");
        for expected in ["9\r\ndata: 1\n\n\r\n", "9\r\ndata: 2\n\n\r\n", "0\r\n\r\n"] {
            go.notify_one();
            assert_eq!(peer.receive_through(expected), expected);
        }
    }

    #[test]
    fn a_source_is_flushed_whenever_it_pauses() {
        let (near, far) = tokio::io::duplex(64);
        let source = Mutex::new(Some(far));
        let served = Served::new(move |ctx: &mut Context| {
            ctx.response.body.set_stream(source.lock().unwrap().take().expect("it is asked once"), None);
        });
        let mut peer = served.connect();
        peer.send(GET);
        assert!(peer.receive_through("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"), "the head leaves first");
        let mut near = Some(near);
        for (part, expected) in [("first", "5\r\nfirst\r\n"), ("then", "4\r\nthen\r\n")] {
            paused(near.as_mut().unwrap().write_all(part.as_bytes())).unwrap();
            assert_eq!(peer.receive_through(expected), expected);
        }
        drop(near.take());
        assert_eq!(peer.receive_through("0\r\n\r\n"), "0\r\n\r\n");
    }

    #[test]
    fn a_large_source_and_a_large_write_arrive_whole() {
        let large: Arc<[u8]> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
        let (written, sourced) = (large.clone(), large.clone());
        let writes = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-length", written.len())?;
            let mut out = ctx.body_writer().await?;
            out.write_all(&written[..1_000_000]).await?;
            out.write_all(&written[1_000_000..]).await?;
            Ok(out.finish().await?)
        });
        let streams = Served::new(move |ctx: &mut Context| {
            let source = io::Cursor::new(sourced.to_vec());
            ctx.response.body.set_stream(source, Some(sourced.len() as u64));
        });
        for served in [writes, streams] {
            let mut peer = served.connect();
            peer.send(GET);
            peer.receive_through("\r\n\r\n");
            let mut received = vec![0; large.len()];
            peer.stream.read_exact(&mut received).unwrap();
            assert!(*received == *large);
            peer.send(GET);
            assert_eq!(status(&peer.receive_through("\r\n\r\n")), 200, "the connection goes on");
        }
    }
}

/// Nothing of the content is sent, so a stream without an end must not hold its connection.
mod over_with_the_head {
    use super::*;

    /// Writes without an end, under the status that the path names.
    async fn writes(ctx: &mut Context, way: &str) -> corehttp::Result {
        let status: u16 = ctx.request.path()[1..].parse()?;
        ctx.response.status = Status::new(status).unwrap();
        if way == "a source" {
            ctx.response.body.set_stream(tokio::io::repeat(7), None);
            return Ok(());
        }
        if way == "events" {
            let mut events = ctx.events().await?;
            events.send(Event::new("begun")).await?;
            events.wait(std::future::pending::<()>()).await?;
        }
        if way == "both bodies" {
            let (mut body, mut out) = ctx.duplex().await?;
            body.read_to_end(&mut Vec::new()).await?;
            out.write_all(b"tick").await?;
            std::future::pending::<()>().await;
        }
        let mut out = ctx.body_writer().await?;
        loop {
            match way {
                "no write" => std::future::pending().await,
                "pauses" => sleep(Duration::from_millis(1)).await,
                "no pause" => {}
                "flushes" => {
                    out.flush().await?;
                    sleep(Duration::from_millis(1)).await;
                }
                _ => unreachable!("{way}"),
            }
            out.write_all(b"tick").await?;
        }
    }

    const WAYS: [&str; 7] =
        ["no write", "pauses", "no pause", "flushes", "events", "both bodies", "a source"];
    const REQUESTS: [&str; 7] =
        ["HEAD /200", "HEAD /204", "HEAD /304", "HEAD /500", "GET /204", "GET /205", "GET /304"];

    #[test]
    fn a_stream_without_an_end_does_not_hold_its_connection_rfc9110_9_3_2() {
        for way in WAYS {
            for request in REQUESTS {
                let request = format!("{request} HTTP/1.1\r\nhost: a\r\n\r\n");
                is_over_with_its_head(&request, async move |ctx: &mut Context| writes(ctx, way).await);
            }
        }
    }

    #[test]
    fn a_request_without_a_connection_is_answered() {
        for way in WAYS {
            let service =
                Server::new().half_close(true).service(async move |ctx: &mut Context| writes(ctx, way).await);
            let response = paused(service.respond(Request::head("/200").unwrap()));
            // A source that was not read is still there.
            assert!(response.status == Status::OK && response.body.bytes().is_empty(), "{way}");
        }
    }

    /// A handler that has finished its response has something else to do.
    #[test]
    fn a_handler_goes_on_after_the_end_of_its_response() {
        for request in ["HEAD /200", "GET /304"] {
            let (done, is_done) = std::sync::mpsc::channel();
            let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
                ctx.response.status = Status::new(ctx.request.path()[1..].parse()?).unwrap();
                ctx.body_writer().await?.finish().await?;
                sleep(Duration::from_millis(1)).await;
                Ok(done.send(())?)
            });
            served.ask(format!("{request} HTTP/1.1\r\nhost: a\r\n\r\n"));
            is_done.try_recv().unwrap();
        }
    }

    /// A method that is not safe changes something, and its handler must not be stopped halfway.
    #[test]
    fn a_handler_that_changes_something_is_not_stopped_rfc9110_9_2_1() {
        let (done, is_done) = std::sync::mpsc::channel();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.status = Status::NO_CONTENT;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"dropped").await?;
            sleep(Duration::from_millis(1)).await;
            done.send(())?;
            Ok(out.finish().await?)
        });
        let received = served.ask(sized("body").repeat(2));
        assert_eq!(undated(&received), "HTTP/1.1 204 No Content\r\n\r\n".repeat(2));
        assert_eq!(is_done.try_iter().count(), 2);
    }
}

/// Half a response must never look like a whole one.
mod failing {
    use super::*;

    /// Checks that the response is cut off so that no reader can take it for whole, and nothing follows; `on_error`
    /// gets the `cause`, and the peer no secret.
    #[track_caller]
    fn check<Kind, H>(handler: H, cause: &str)
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let handler = Arc::new(handler.into_handler());
        for asked in [GET, "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"] {
            let refusals = ErrorReports::default();
            let served = Served::with(|server| refusals.attach(server), handler.clone());
            let received = served.ask(asked.repeat(2));
            assert!(received.ends_with("<ConnectionReset>"), "{asked:?}: {received}");
            assert!(
                received.matches("HTTP/1.1").count() <= 1 && !received.contains("\r\n0\r\n"),
                "{asked:?}: {received}"
            );
            assert!(!received.contains("secret"));
            assert_eq!(refusals.take(), [(0, cause.to_owned())]);
        }
    }

    const LENGTH: &str = "the content is not as long as was announced";
    const UNFINISHED: &str = "the handler did not finish the response that it had begun";
    const SOURCE: &str = "the source of the content failed: secret";

    /// A source that yields these pieces and then its end.
    struct Pieces(std::slice::Iter<'static, &'static str>, End);

    #[derive(Clone, Copy)]
    enum End {
        Good,
        Failure,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match (self.0.next(), self.1) {
                (Some(piece), _) => out.put_slice(piece.as_bytes()),
                (None, End::Good) => {}
                (None, End::Failure) => return Poll::Ready(Err(io::Error::other("secret"))),
            }
            Poll::Ready(Ok(()))
        }
    }

    #[track_caller]
    fn check_source(pieces: &'static [&'static str], end: End, len: Option<u64>, cause: &str) {
        check(move |ctx: &mut Context| ctx.response.body.set_stream(Pieces(pieces.iter(), end), len), cause);
    }

    #[test]
    fn row_65_a_source_that_fails_cuts_the_response_rfc9112_8() {
        check_source(&[], End::Failure, None, SOURCE);
        check_source(&["half"], End::Failure, None, SOURCE);
        check_source(&["half"], End::Failure, Some(5), SOURCE);
        check_source(&["hello"], End::Failure, Some(5), SOURCE);
        check_source(&["0123456789"; 10_000], End::Failure, None, SOURCE);
    }

    #[test]
    fn row_66_a_source_of_another_length_than_announced_cuts_the_response_rfc9112_8() {
        check_source(&["half"], End::Good, Some(5), LENGTH);
        check_source(&["half"], End::Good, Some(u64::MAX), LENGTH);
        check_source(&[], End::Good, Some(1), LENGTH);
        check_source(&["hello, secret"], End::Good, Some(5), LENGTH);
        check_source(&["hello", "secret"], End::Good, Some(5), LENGTH);
        check_source(&["secret"], End::Good, Some(0), LENGTH);
    }

    /// The length is not on the wire then, so only the server can check it, and half a response must not look whole.
    #[test]
    fn an_announced_length_counts_where_trailers_need_chunks() {
        for pieces in [&["half"][..], &[], &["hello, secret"], &["hello", "secret"], &["0123456789"; 10_000]]
        {
            let streams = move |ctx: &mut Context| {
                ctx.response.trailers.set("x-sum", 7).unwrap();
                ctx.response.body.set_stream(Pieces(pieces.iter(), End::Good), Some(5));
            };
            check(streams, LENGTH);
        }
        let failed = format!("the handler failed: {LENGTH}");
        for parts in [&["half"][..], &[], &["half", "secret"], &["secret"]] {
            let writes = async move |ctx: &mut Context| -> corehttp::Result {
                ctx.response.trailers.set("x-sum", 7)?;
                write(ctx, parts, true).await
            };
            check(writes, &failed);
        }
        let whole = Served::new(|ctx: &mut Context| {
            ctx.response.trailers.set("x-sum", 7).unwrap();
            ctx.response.body.set_stream(Pieces(["hel", "lo"].iter(), End::Good), Some(5));
        });
        assert!(whole.ask(GET).ends_with("3\r\nhel\r\n2\r\nlo\r\n0\r\nx-sum: 7\r\n\r\n"));
    }

    #[test]
    fn a_source_that_was_taken_already_cuts_the_response() {
        let body = Mutex::new(Body::new());
        body.lock().unwrap().set_stream(&b"once"[..], None);
        let served = Served::new(move |ctx: &mut Context| ctx.response.body = body.lock().unwrap().clone());
        assert!(served.ask(GET).ends_with("\r\n\r\n4\r\nonce\r\n0\r\n\r\n"));
        assert!(served.ask(GET).ends_with("<ConnectionReset>"));
    }

    /// The response of a handler that writes `parts` under a length of 5, and then finishes or not.
    async fn write(ctx: &mut Context, parts: &[&str], finish: bool) -> corehttp::Result {
        ctx.response.headers.set("content-length", 5)?;
        let mut out = ctx.body_writer().await?;
        for part in parts {
            out.write_all(part.as_bytes()).await?;
        }
        if finish { Ok(out.finish().await?) } else { Ok(()) }
    }

    #[test]
    fn row_66_a_writer_that_writes_less_or_more_than_announced_cuts_the_response_rfc9112_8() {
        let failed = format!("the handler failed: {LENGTH}");
        check(async |ctx: &mut Context| write(ctx, &["half"], true).await, &failed);
        check(async |ctx: &mut Context| write(ctx, &[], true).await, &failed);
        check(async |ctx: &mut Context| write(ctx, &["half", "secret"], true).await, &failed);
        check(async |ctx: &mut Context| write(ctx, &["secret"], true).await, &failed);
        check(async |ctx: &mut Context| drop(write(ctx, &["half"], true).await), UNFINISHED);
        check(async |ctx: &mut Context| drop(write(ctx, &["secret"], true).await), UNFINISHED);
        // Though the length was right before.
        let overlooked = async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-length", 5)?;
            let mut out = ctx.body_writer().await?;
            out.write_all(b"hello").await?;
            out.write_all(b"secret").await.unwrap_err();
            Ok(out.finish().await?)
        };
        check(overlooked, &failed);
    }

    #[test]
    fn a_writer_that_is_not_finished_cuts_the_response() {
        check(async |ctx: &mut Context| write(ctx, &["half"], false).await, UNFINISHED);
        check(async |ctx: &mut Context| drop(ctx.body_writer().await), UNFINISHED);
        let fails = async |ctx: &mut Context| -> corehttp::Result {
            write(ctx, &["half"], false).await?;
            Err(Status::NOT_FOUND.into())
        };
        check(fails, "404 Not Found");
        check(
            async |ctx: &mut Context| -> corehttp::Result {
                let mut out = ctx.body_writer().await?;
                out.write_all(b"half").await?;
                Ok(out.flush().await?)
            },
            UNFINISHED,
        );
    }

    /// Nothing is missing then, so nothing is reset: the peer might lose what it has not read yet.
    #[test]
    fn what_fails_after_the_end_of_a_response_does_not_cut_it() {
        let late = async |ctx: &mut Context| -> corehttp::Result {
            ctx.body_writer().await?.finish().await?;
            Err(corehttp::Error::new(Status::CONFLICT, "late"))
        };
        let leaving = async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.status = Status::NO_CONTENT;
            let mut out = ctx.body_writer().await?;
            out.flush().await?;
            out.peer_closed().await;
            Ok(out.write_all(b"dropped").await?)
        };
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let check = |served: Served, refusals: ErrorReports, wire: &str, expected: &str, cause: &str| {
            assert_eq!(undated(&served.ask(wire)), expected);
            assert_eq!(refusals.take(), [(0, cause.to_owned())]);
        };
        let asked_for_head = GET.replace("GET", "HEAD");
        let gone = "the peer closed before it was answered in full";
        let refusals = ErrorReports::default();
        let served = Served::with(|server| refusals.attach(server), leaving);
        check(served, refusals, &GET.replace("GET", "POST"), "HTTP/1.1 204 No Content\r\n\r\n", gone);
        for (wire, expected) in [(GET, format!("{head}0\r\n\r\n")), (&*asked_for_head, head.to_owned())] {
            let refusals = ErrorReports::default();
            let served = Served::with(|server| refusals.attach(server), late);
            check(served, refusals, wire, &expected, "late");
        }
    }

    #[test]
    fn a_response_is_sent_once() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            ctx.send_informational(Status::EARLY_HINTS, &Headers::new()).await?;
            assert!(!ctx.has_responded());
            ctx.body_writer().await?.finish().await?;
            assert!(ctx.has_responded());
            for error in [
                ctx.body_writer().await.err(),
                ctx.duplex().await.err(),
                ctx.send_informational(Status::EARLY_HINTS, &Headers::new()).await.err(),
                ctx.upgrade("x").await.err(),
                ctx.accept_tunnel().await.err(),
            ] {
                assert_eq!(reason(&error.unwrap()), RespondError::Sent);
            }
            Ok(ctx.response.set_text("too late"))
        });
        let hints = "HTTP/1.1 103 Early Hints\r\n\r\n";
        let response = format!("{hints}HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
        assert_eq!(undated(&served.ask(GET.repeat(2))), response.repeat(2));
    }

    #[test]
    fn a_source_is_not_read_where_no_body_is_sent() {
        let served = Served::new(|ctx: &mut Context| {
            ctx.response.body.set_stream(Pieces([].iter(), End::Failure), Some(5))
        });
        let received = served.ask(GET.replace("GET", "HEAD").repeat(2));
        assert_eq!(undated(&received), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".repeat(2));
    }
}

/// Trailers of responses (RFC 9110 §6.5); those of requests are tested in [`reading`].
mod trailers {
    use super::*;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    fn sum() -> Headers {
        let mut trailers = Headers::new();
        trailers.set("x-sum", 7).unwrap();
        for framing in ["content-length", "transfer-encoding", "connection"] {
            trailers.set(framing, "close").unwrap();
        }
        trailers
    }

    /// The responses of `handler` to HTTP/1.1 and to 1.0.
    #[track_caller]
    fn check<Kind, H>(handler: H, to_1_1: &str, to_1_0: &str)
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let served = Served::new(handler);
        assert_eq!(undated(&served.ask(GET.repeat(2))), to_1_1.repeat(2));
        assert_eq!(undated(&served.ask("GET / HTTP/1.0\r\n\r\n")), to_1_0);
    }

    #[test]
    fn trailers_follow_whatever_the_content_is() {
        let (known, none) = ("content-length: 5\r\n", "content-length: 0\r\n");
        let to_1_1 = |body: &str| format!("{CHUNKED}{body}0\r\nx-sum: 7\r\n\r\n");
        let to_1_0 =
            |length: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{length}connection: close\r\n\r\n{body}");
        check(|ctx: &mut Context| ctx.response.trailers = sum(), &to_1_1(""), &to_1_0(none, ""));
        check(
            |ctx: &mut Context| {
                ctx.response.trailers = sum();
                ctx.response.body.set_bytes("hello");
            },
            &to_1_1("5\r\nhello\r\n"),
            &to_1_0(known, "hello"),
        );
        check(
            |ctx: &mut Context| {
                ctx.response.trailers = sum();
                ctx.response.body.set_stream(&b"hello"[..], None);
            },
            &to_1_1("5\r\nhello\r\n"),
            &to_1_0("", "hello"),
        );
    }

    #[test]
    fn a_writer_sends_the_trailers_that_were_set_or_given_at_its_end() {
        let to_1_1 = format!("{CHUNKED}5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n");
        let to_1_0 = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello";
        check(
            async |ctx: &mut Context| -> corehttp::Result {
                ctx.response.trailers.set("x-other", 1)?;
                let mut out = ctx.body_writer().await?;
                out.write_all(b"hello").await?;
                Ok(out.finish_with_trailers(&sum()).await?)
            },
            &to_1_1,
            to_1_0,
        );
        check(
            async |ctx: &mut Context| -> corehttp::Result {
                ctx.response.trailers = sum();
                let mut out = ctx.body_writer().await?;
                out.write_all(b"hello").await?;
                Ok(out.finish().await?)
            },
            &to_1_1,
            to_1_0,
        );
    }

    #[test]
    fn a_response_without_a_body_has_no_trailers() {
        let head = GET.replace("GET", "HEAD").repeat(2);
        let served = Served::new(|ctx: &mut Context| ctx.response.trailers = sum());
        assert!(!served.ask(head).contains("x-sum"));
        let served = Served::new(|ctx: &mut Context| {
            ctx.response.trailers = sum();
            ctx.response.status = Status::NO_CONTENT;
        });
        assert_eq!(undated(&served.ask(GET.repeat(2))), "HTTP/1.1 204 No Content\r\n\r\n".repeat(2));
    }
}

mod both_ways {
    use super::*;

    async fn echo(ctx: &mut Context) -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
            out.flush().await?;
        }
        let trailers = body.trailers().clone();
        Ok(out.finish_with_trailers(&trailers).await?)
    }

    #[test]
    fn each_piece_comes_back_before_the_next_is_sent() {
        let served = Served::new(streaming(echo));
        let mut peer = served.connect();
        for _ in 0..2 {
            peer.send(chunked(""));
            assert_eq!(status(&peer.receive_through("\r\n\r\n")), 200);
            for piece in ["5\r\nfirst\r\n", "4\r\nthen\r\n", "0\r\nx-sum: 7\r\n\r\n"] {
                peer.send(piece);
                assert_eq!(peer.receive_through(piece), piece);
            }
        }
    }

    #[test]
    fn an_echo_larger_than_any_buffer_takes_no_memory() {
        const SIZE: usize = 256 << 20;
        let served = Served::new(streaming(echo));
        let mut peer = served.connect();
        peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n"));
        peer.receive_through("\r\n\r\n");
        let before = resident();
        let mut sender = peer.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            let piece = vec![7; PIECE];
            (0..SIZE / PIECE).for_each(|_| sender.write_all(&piece).unwrap());
        });
        let (mut most, mut piece) = (before, vec![0; PIECE]);
        for _ in 0..SIZE / PIECE {
            peer.stream.read_exact(&mut piece).unwrap();
            most = most.max(resident());
        }
        sending.join().unwrap();
        assert!(most < before + SIZE / 4, "{before} bytes became {most}");
    }

    const PIECE: usize = 256 << 10;

    #[test]
    fn reader_and_writer_lend_the_request() {
        let served = Served::new(streaming(async |ctx: &mut Context| -> corehttp::Result {
            let (mut body, mut out) = ctx.duplex().await?;
            let (path, prefix) = (body.request.path(), out.request.headers.get("x-prefix"));
            while let Some(chunk) = body.chunk().await? {
                out.write_all(path.as_bytes()).await?;
                out.write_all(prefix.unwrap_or_default().as_bytes()).await?;
                out.write_all(chunk).await?;
            }
            Ok(out.finish().await?)
        }));
        let received = served.ask("PUT /a HTTP/1.1\r\nhost: a\r\nx-prefix: :\r\ncontent-length: 2\r\n\r\nhi");
        assert!(received.ends_with("\r\n\r\n2\r\n/a\r\n1\r\n:\r\n2\r\nhi\r\n0\r\n\r\n"), "{received}");
    }
}

/// `Expect: 100-continue` (RFC 9110 §10.1.1).
mod expectation {
    use super::*;

    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

    fn expecting(field: &str) -> String {
        post(&format!("expect: 100-Continue\r\n{field}"), "")
    }

    async fn read(ctx: &mut Context) -> corehttp::Result {
        let mut total = Vec::new();
        ctx.body_reader().read_to_end(&mut total).await?;
        Ok(ctx.response.body.set_bytes(total))
    }

    async fn echo(ctx: &mut Context) -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        while let Some(chunk) = body.chunk().await? {
            out.write_all(chunk).await?;
        }
        Ok(out.finish().await?)
    }

    /// A peer that sends its body only after 100 is sent that once, and its response; and so is the next.
    #[track_caller]
    fn check<Kind, H>(handler: H)
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let served = Served::new(handler);
        let mut peer = served.connect();
        for (field, body) in
            [("content-length: 5", "hello"), ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")]
        {
            peer.send(expecting(field));
            assert_eq!(peer.receive_through("\r\n\r\n"), CONTINUE);
            peer.send(body);
            let received = peer.receive_through("hello");
            assert!(received.starts_with("HTTP/1.1 200 OK\r\n"), "{received}");
            if received.contains("chunked") {
                peer.receive_through("0\r\n\r\n");
            }
        }
    }

    #[test]
    fn continue_is_sent_when_the_body_is_wanted() {
        check(|ctx: &mut Context| ctx.response.body.set_bytes(ctx.request.body.bytes()));
        check(streaming(read));
        check(streaming(echo));
        check(streaming(async |ctx: &mut Context| -> corehttp::Result {
            ctx.buffer_body().await?;
            Ok(ctx.response.body = std::mem::take(&mut ctx.request.body))
        }));
    }

    #[test]
    fn continue_is_not_sent_for_a_body_that_is_there_or_empty() {
        for wire in [
            expecting("content-length: 5") + "hello",
            expecting("transfer-encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n",
            expecting("content-length: 0"),
            expecting("x-none: 1"),
            expecting("content-length: 5").replace("1.1", "1.0") + "hello",
        ] {
            let read_before = async |ctx: &mut Context| -> corehttp::Result {
                while ctx.body_reader().chunk().await?.is_some() {}
                echo(ctx).await
            };
            for served in [
                Served::new(streaming(read)),
                Served::new(streaming(echo)),
                Served::new(streaming(read_before)),
                Served::new(echo),
            ] {
                let received = served.ask(&wire);
                assert!(
                    status(&received) == 200 && received.matches("HTTP/1.1").count() == 1,
                    "{wire:?}: {received}"
                );
            }
        }
    }

    #[test]
    fn continue_is_not_sent_to_1_0_though_it_waits() {
        let served = Served::new(streaming(read));
        let mut peer = served.connect();
        peer.send(expecting("content-length: 5").replace("1.1", "1.0"));
        eventually("a request", || served.running.counts().total.requests == 1);
        peer.send("hello");
        assert!(peer.receive_all().starts_with("HTTP/1.1 200 OK\r\n"));
    }

    /// Nothing that comes after a final response without `100 Continue` is a request, whether the body comes or not.
    #[track_caller]
    fn check_refusal<Kind, H>(fields: &[&str], handler: H, expected: u16)
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let served = Served::new(handler);
        for field in fields {
            for body in [GET, "", "1b\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n\r\n0\r\n\r\n"] {
                let mut peer = served.connect();
                peer.send(expecting(field));
                let received = peer.receive_through("\r\n\r\n");
                assert!(
                    status(&received) == expected && received.contains("\r\nconnection: close\r\n"),
                    "{received}"
                );
                peer.send(format!("{body}{GET}"));
                peer.end();
                let rest = peer.receive_all();
                assert!(!rest.contains("HTTP/1.1") && !rest.contains("<"), "{rest}");
            }
        }
        assert_eq!(served.running.counts().total.requests, 3 * fields.len() as u64);
    }

    #[test]
    fn a_final_answer_without_continue_closes_the_connection() {
        let fields = ["content-length: 27", "transfer-encoding: chunked"];
        let fails = |_: &mut Context| -> corehttp::Result { Err(Status::FORBIDDEN.into()) };
        let streams =
            async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.body_writer().await?.finish().await?) };
        let reads_late = async |ctx: &mut Context| -> corehttp::Result {
            ctx.body_writer().await?.finish().await?;
            let _ = ctx.body_reader().chunk().await;
            Ok(())
        };
        let nothing = |_: &mut Context| {};
        check_refusal(&fields, streaming(|ctx: &mut Context| ctx.response.set_text("no need")), 200);
        check_refusal(&fields, streaming(fails), 403);
        check_refusal(&fields, streaming(streams), 200);
        check_refusal(&fields, streaming(reads_late), 200);
        check_refusal(&fields, wrap(BodyPlan::Refuse(Status::CONTENT_TOO_LARGE), nothing), 413);
        // Only a length tells in advance that the body is too large.
        check_refusal(&fields[..1], wrap(BodyPlan::BufferUpTo(26), nothing), 413);
    }
}

/// `Upgrade` (RFC 9110 §7.8).
mod upgrade {
    use super::*;

    const ASKED: &str =
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: h2c, Echo\r\n\r\n";

    /// Takes the connection over for a task of its own, or answers why that fails.
    async fn echo(ctx: &mut Context) -> corehttp::Result {
        ctx.response.headers.set("x-own", "kept")?;
        let Ok(mut io) = ctx.upgrade("echo").await else { return Ok(ctx.response.set_text("as before")) };
        tokio::task::spawn_local(async move {
            let mut piece = [0; 16];
            while let Ok(count @ 1..) = io.read(&mut piece).await {
                io.write_all(&piece[..count]).await.unwrap();
            }
            io.write_all(b"bye").await.unwrap();
        });
        Err(Status::GONE.into())
    }

    #[test]
    fn the_handler_has_the_connection_and_what_came_early() {
        let served = Served::new(echo);
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nx-own: kept\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        for early in ["", "GET / HTTP/1.1\r\n\r\n and more than one read takes"] {
            let mut peer = served.connect();
            peer.send(format!("{ASKED}{early}"));
            let expected = format!("{head}{early}");
            assert_eq!(peer.receive_through(&expected), expected);
            for said in ["one", "two"] {
                peer.send(said);
                assert_eq!(peer.receive_through(said), said);
            }
            peer.end();
            assert_eq!(peer.receive_all(), "bye", "and then it closes");
        }
    }

    /// A reader lends what it read until it reads on, and this one never does.
    #[test]
    fn a_body_that_was_read_is_not_heard_again() {
        let reads = async |ctx: &mut Context| -> corehttp::Result {
            assert_eq!(ctx.body_reader().chunk().await?, Some(&b"body"[..]));
            let (mut io, mut early) = (ctx.upgrade("echo").await?, String::new());
            io.read_to_string(&mut early).await?;
            Ok(io.write_all(early.as_bytes()).await?)
        };
        let served = Served::new(wrap(BodyPlan::Stream, reads));
        let asked = ASKED.replace("GET", "POST").replace("\r\n\r\n", "\r\ncontent-length: 4\r\n\r\nbody");
        let output = served.ask(format!("{asked}early"));
        let (head, rest) = output.split_once("\r\n\r\n").unwrap();
        assert_eq!((status(head), rest), (101, "early"));
        // Bytes that were read along with the head count as received; those of the other protocol do not.
        let stats = served.running.counts().total;
        let (received, sent) = ((asked.len() + "early".len()) as u64, (head.len() + "\r\n\r\n".len()) as u64);
        assert_eq!((stats.received, stats.sent), (received, sent));
    }

    /// An access log records the status that was sent, and not 200.
    #[test]
    fn whoever_hands_it_over_sees_the_status_that_was_sent() {
        let tells = async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.status = Status::GONE;
            let mut io = match ctx.request.method() {
                Method::Connect => ctx.accept_tunnel().await?,
                _ => ctx.upgrade("echo").await?,
            };
            Ok(io.write_all(ctx.response.status.to_string().as_bytes()).await?)
        };
        let served = Served::new(wrap(BodyPlan::Tunnel, tells));
        for (asked, status) in
            [(ASKED, "101 Switching Protocols"), ("CONNECT b:1 HTTP/1.1\r\nhost: b:1\r\n\r\n", "200 OK")]
        {
            let received = served.ask(asked);
            assert!(
                received.starts_with(&format!("HTTP/1.1 {status}\r\n"))
                    && received.ends_with(&format!("\r\n\r\n{status}")),
                "{received}"
            );
        }
    }

    #[test]
    fn an_upgrade_comes_after_the_responses_before_it() {
        let received = Served::new(echo).ask(format!("{GET}{ASKED}early"));
        assert!(
            received.contains("as beforeHTTP/1.1 101 ") && received.ends_with("\r\n\r\nearlybye"),
            "{received}"
        );
    }

    #[test]
    fn a_peer_that_did_not_ask_is_not_upgraded() {
        let served = Served::new(streaming(echo));
        for asked in [
            GET.into(),
            ASKED.replace("1.1", "1.0"),
            ASKED.replace("keep-alive, Upgrade", "keep-alive"),
            ASKED.replace("connection: ", "x-connection: "),
            ASKED.replace("h2c, Echo", "h2c"),
            ASKED.replace("h2c, Echo", "echo2"),
            ASKED.replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\nhello"),
        ] {
            let received = undated(&served.ask(&asked));
            assert!(received.starts_with("HTTP/1.1 200 OK\r\nx-own: kept\r\n"), "{asked:?}: {received}");
            assert!(received.ends_with("as before"), "{asked:?}: {received}");
        }
    }

    #[test]
    fn a_peer_that_did_not_ask_is_told_the_protocol_rfc9110_15_5_22() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("upgrade", "what the handler said")?;
            Ok(drop(ctx.upgrade("echo/2").await?))
        });
        let upgradeable = ASKED.replace("Echo", "echo/2");
        let response = "HTTP/1.1 426 Upgrade Required\r\nupgrade: echo/2\r\ncontent-type: text/plain; charset=utf-8\r\n\
                      content-length: 16\r\nconnection: upgrade\r\n\r\nUpgrade Required";
        for asked in [GET, ASKED, &upgradeable.replace("keep-alive, Upgrade", "keep-alive")] {
            assert_eq!(undated(&served.ask(asked.repeat(2))), response.repeat(2), "{asked:?}");
        }
        let received = served.ask(upgradeable.replace("1.1", "1.0"));
        assert_eq!(
            (status(&received), received.matches("connection: keep-alive").count()),
            (426, 1),
            "{received}"
        );
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo/2\r\n\r\n";
        assert_eq!(served.ask(upgradeable), head);
    }

    #[test]
    fn an_upgrade_that_cannot_be_says_why() {
        #[track_caller]
        fn check(protocol: &'static str, request: &str, expected: RespondError) {
            let expected_status = expected.status().as_u16();
            let served = Served::new(streaming(async move |ctx: &mut Context| -> corehttp::Result {
                let error = ctx.upgrade(protocol).await.unwrap_err();
                assert_eq!((error.kind(), reason(&error)), (io::ErrorKind::InvalidInput, expected.clone()));
                Err(error.into())
            }));
            let received = served.ask(request);
            assert_eq!(status(&received), expected_status, "{protocol:?}: {received}");
        }
        for protocol in ["", "/", "echo/", "/echo", "a/b/c", "h2c, echo", "echo ", "e\r\nx: y", "\u{e9}"] {
            let quoted = format!("`{}`", protocol.escape_debug());
            check(protocol, ASKED, RespondError::Protocol(quoted.clone().into()));
            check(protocol, GET, RespondError::Protocol(quoted.into()));
        }
        check("echo", &ASKED.replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\nhello"), RespondError::Unread);
        check("echo", GET, RespondError::Upgrade("echo".into()));
    }

    #[test]
    fn the_peer_is_still_known_after_an_upgrade() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            let who = |ctx: &Context| (ctx.peer_addr(), ctx.connection_id());
            let before = who(ctx);
            let mut io = ctx.upgrade("echo").await?;
            assert!(who(ctx) == before && !ctx.is_stop_ordered());
            io.write_all(b"known").await?;
            while !ctx.is_stop_ordered() {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(io.write_all(b"stopping").await?)
        });
        let mut peer = served.connect();
        peer.send(ASKED);
        peer.receive_through("known");
        served.running.stop(Duration::from_secs(60));
        assert_eq!(peer.receive_all(), "stopping");
    }

    /// Panics are reported also after an upgrade.
    #[test]
    fn a_failure_after_an_upgrade_is_told_to_the_server_alone() {
        for (path, cause) in [
            ("/error", "the handler failed: secret"),
            ("/status", "410 Gone"),
            ("/panic", "the handler panicked"),
        ] {
            let refusals = ErrorReports::default();
            let fails = async |ctx: &mut Context| -> corehttp::Result {
                let _io = ctx.upgrade("echo").await?;
                match ctx.request.path() {
                    "/error" => Err(io::Error::other("secret").into()),
                    "/status" => Err(Status::GONE.into()),
                    _ => std::panic::resume_unwind(Box::new("without a trace")),
                }
            };
            let served = Served::with(|server| refusals.attach(server), fails);
            let received = served.ask(ASKED.replacen('/', path, 1));
            assert!(received.ends_with("upgrade: echo\r\n\r\n"), "{path}: {received:?}");
            // The peer receives the end before the failure is reported.
            served.running.stop(Duration::from_secs(60));
            served.running.wait().unwrap();
            assert_eq!(refusals.take(), [(0, cause.to_owned())], "{path}");
            let errors = served.running.counts().total.errors;
            assert_eq!(errors.handler + errors.panic, 1, "{path}");
        }
    }

    #[test]
    fn a_connection_that_was_upgraded_closes_when_dropped() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            Ok(drop(ctx.upgrade("echo").await?))
        });
        assert!(served.ask(ASKED).ends_with("upgrade: echo\r\n\r\n"));
    }
}

/// CONNECT (RFC 9110 §9.3.6).
mod tunnel {
    use super::*;

    const CONNECT: &str = "CONNECT b:443 HTTP/1.1\r\nhost: b:443\r\n\r\n";

    async fn tunnel(ctx: &mut Context) -> corehttp::Result {
        let target = ctx.request.authority().unwrap_or_default().to_owned();
        let Ok(mut io) = ctx.accept_tunnel().await else { return Ok(ctx.response.set_text("no tunnel")) };
        io.write_all(target.as_bytes()).await?;
        let (mut read, mut write) = tokio::io::split(io);
        tokio::io::copy(&mut read, &mut write).await?;
        Ok(write.shutdown().await?)
    }

    #[test]
    fn a_planned_tunnel_carries_bytes_both_ways() {
        let served = Served::new(wrap(BodyPlan::Tunnel, tunnel));
        let mut peer = served.connect();
        peer.send(format!("{CONNECT}early"));
        let head = peer.receive_through("\r\n\r\n");
        assert_eq!(undated(&head), "HTTP/1.1 200 OK\r\n\r\n");
        assert!(head.contains("\r\ndate: "), "a final response has its date (RFC 9110 §6.6.1)");
        assert_eq!(peer.receive_through("early"), "b:443early");
        peer.send("more");
        assert_eq!(peer.receive_through("more"), "more");
        peer.end();
        assert_eq!(peer.receive_all(), "");
    }

    #[test]
    fn without_a_plan_for_connect_the_handler_does_not_run() {
        for plan in [BodyPlan::Buffer, BodyPlan::Stream, BodyPlan::BufferUpTo(1)] {
            let received = Served::new(wrap(plan, tunnel)).ask(format!("{CONNECT}{GET}"));
            assert_eq!((status(&received), received.matches("HTTP/1.1").count()), (501, 1), "{plan:?}");
            assert!(received.contains("\r\nconnection: close\r\n"));
        }
        let refuses = wrap(BodyPlan::Refuse(Status::FORBIDDEN), tunnel);
        assert_eq!(status(&Served::new(refuses).ask(CONNECT)), 403);
    }

    #[test]
    fn a_handler_may_refuse_a_tunnel() {
        let refuse = |ctx: &mut Context| -> corehttp::Result {
            ctx.response.set_text("not sent");
            Err(Status::BAD_GATEWAY.into())
        };
        let received = Served::new(wrap(BodyPlan::Tunnel, refuse)).ask(CONNECT);
        assert!(status(&received) == 502 && received.ends_with("Bad Gateway"), "{received}");
    }

    #[test]
    fn a_tunnel_that_was_not_asked_for_is_400() {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            let error = ctx.accept_tunnel().await.unwrap_err();
            assert_eq!(reason(&error), RespondError::Tunnel);
            Err(error.into())
        });
        assert_eq!(status(&served.ask(GET)), 400);
    }

    /// The peer takes all that follows a 2xx for bytes of the tunnel: a length has no meaning there.
    #[test]
    fn a_successful_response_to_connect_announces_no_length() {
        let served = Served::new(wrap(BodyPlan::Tunnel, async |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-length", 9)?;
            match ctx.request.headers.get("x-way") {
                Some("stream") => {
                    let mut out = ctx.body_writer().await?;
                    out.write_all(b"no tunnel").await?;
                    Ok(out.finish().await?)
                }
                _ => Ok(ctx.response.body.set_bytes("no tunnel")),
            }
        }));
        for way in ["set", "stream"] {
            let received = served.ask(CONNECT.replace("\r\n\r\n", &format!("\r\nx-way: {way}\r\n\r\n")));
            assert_eq!(undated(&received), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nno tunnel", "{way}");
        }
    }

    /// The peer must not be able to make a handler fail by this.
    #[test]
    fn connect_with_content_is_400() {
        for plan in [BodyPlan::Tunnel, BodyPlan::Buffer] {
            let served = Served::new(wrap(plan, async |ctx: &mut Context| -> corehttp::Result {
                Ok(drop(ctx.accept_tunnel().await?))
            }));
            for (content, status_of_a_tunnel) in [
                ("content-length: 5\r\n\r\nhello", 400),
                ("content-length: 5\r\n\r\n", 400),
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400),
                ("transfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                ("content-length: 0\r\n\r\n", 200),
                ("\r\n", 200),
            ] {
                let received = served.ask(format!("{}{content}{GET}", &CONNECT[..CONNECT.len() - 2]));
                let expected = if plan == BodyPlan::Tunnel { status_of_a_tunnel } else { 501 };
                assert_eq!(
                    (status(&received), received.matches("HTTP/1.1").count()),
                    (expected, 1),
                    "{content:?}"
                );
            }
        }
    }

    #[test]
    fn other_methods_open_no_tunnel() {
        let served = Served::new(wrap(BodyPlan::Tunnel, tunnel));
        let received = served.ask(sized("hello") + GET);
        assert_eq!(received.matches("no tunnel").count(), 2, "{received}");
    }
}

/// A body that the handler did not read is no request, whatever it contains (RFC 9112 §9.3, §11.2).
mod unread {
    use super::*;

    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

    /// The requests of the handlers, in order.
    type Paths = Arc<Mutex<Vec<String>>>;

    /// Ends in one of these ways, without having read the body.
    struct Careless(Paths, Way);

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Way {
        Ignores,
        ReadsAByte,
        Fails,
        Streams,
        Panics,
        Refuses,
    }

    impl Handler for Careless {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            self.0.lock().unwrap().push(ctx.request.path().to_owned());
            if self.1 == Way::Refuses { BodyPlan::Refuse(Status::FORBIDDEN) } else { BodyPlan::Stream }
        }

        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            match self.1 {
                Way::Ignores => Ok(()),
                Way::ReadsAByte => Ok(_ = ctx.body_reader().read(&mut [0]).await?),
                Way::Fails => Err(Status::GONE.into()),
                Way::Streams => Ok(ctx.body_writer().await?.finish().await?),
                Way::Panics => std::panic::resume_unwind(Box::new("without a trace")),
                Way::Refuses => unreachable!("it was refused"),
            }
        }
    }

    /// Checks that the request behind `wire` is answered if the connection `goes_on` after that way to end, and no
    /// request otherwise. Every response arrives.
    #[track_caller]
    fn check(wire: &str, goes_on: impl Fn(Way) -> bool) {
        for way in [Way::Ignores, Way::ReadsAByte, Way::Fails, Way::Streams, Way::Panics, Way::Refuses] {
            let paths = Paths::default();
            let served = Served::new(Careless(paths.clone(), way));
            let received = served.ask(format!("{wire}GET /next HTTP/1.1\r\nhost: a\r\n\r\n"));
            let expected: &[&str] = if goes_on(way) { &["/", "/next"] } else { &["/"] };
            let shown = &wire[..wire.len().min(200)];
            assert_eq!(*paths.lock().unwrap(), expected, "{way:?} {shown:?}: {received}");
            assert_eq!(
                received.matches("HTTP/1.1 ").count(),
                expected.len(),
                "{way:?} {shown:?}: {received}"
            );
            assert!(!received.contains("<"), "{way:?} {shown:?}: {received}");
        }
    }

    #[test]
    fn row_47_a_small_unread_body_is_drained_and_the_next_request_served() {
        let goes_on = |way| way != Way::Panics;
        check(&sized(SMUGGLED), goes_on);
        check(&chunked(&format!("{:x}\r\n{SMUGGLED}\r\n0\r\nx-sum: 7\r\n\r\n", SMUGGLED.len())), goes_on);
        check(&sized(&SMUGGLED.repeat(1000)), goes_on);
    }

    #[test]
    fn row_47_a_large_unread_body_ends_the_connection_unless_its_length_was_unknown() {
        let large = SMUGGLED.repeat((256 << 10) / SMUGGLED.len() + 1000);
        check(&sized(&large), |_| false);
        // By then, the response has promised that the connection persists.
        let chunked = chunked(&format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len()));
        check(&chunked, |way| way != Way::Panics);
    }

    #[test]
    fn row_48_a_malformed_unread_body_ends_the_connection_and_the_response_arrives() {
        check(&chunked(&format!("1\r\nxy\r\n0\r\n\r\n{SMUGGLED}")), |_| false);
        check(&chunked(&format!("1\r\nx\r\n0x0\r\n\r\n{SMUGGLED}")), |_| false);
        check(&chunked(&format!("1\r\nx\r\n0\r\nhost: a\r\n\r\n{SMUGGLED}")), |_| false);
    }

    #[test]
    fn an_unread_body_that_is_cut_short_ends_the_connection_and_the_response_arrives() {
        check(&post("content-length: 100", SMUGGLED), |_| false);
        check(&chunked(&format!("64\r\n{SMUGGLED}")), |_| false);
    }

    #[test]
    fn a_response_leaves_before_an_unread_body_is_drained() {
        let served = Served::new(streaming(|ctx: &mut Context| ctx.response.set_text("early")));
        let mut peer = served.connect();
        peer.send(post("content-length: 10", "hello"));
        assert!(peer.receive().ends_with("early"), "before the rest of the body");
        peer.send(format!("world{GET}"));
        assert!(peer.receive().ends_with("early"));
    }
}
