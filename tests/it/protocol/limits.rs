//! Every limit on sizes and counts, from both sides: a request that reaches the limit is answered, and one that exceeds
//! it is refused. Rows are numbered in `tests/regressions.md`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::thread;
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, Context, Handler, Limits, Server, Timeouts};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::support::responses::responses;
use crate::support::wired::{Then, Wired, count_handled, shortened, take_handled};
use crate::support::{ErrorReports, Peer, Served, eventually, paused, status, undated};

#[test]
fn the_default_limits_are_as_documented() {
    let Limits { request_line_max, head_max, fields_max, body_max, .. } = Limits::default();
    assert_eq!((request_line_max, head_max, fields_max), (16 << 10, 64 << 10, 128));
    assert_eq!((Limits::EMPTY_LINES_MAX, body_max), (1, 4 << 20));
    assert_eq!((Limits::CHUNK_DIGITS_MAX, Limits::CHUNK_EXTENSION_MAX), (16, 4 << 10));
    let Limits { chunk_extensions_total_max, trailers_max, trailer_fields_max, drain_max, .. } =
        Limits::default();
    assert_eq!((Limits::CHUNK_OVERHEAD_MAX, chunk_extensions_total_max), (16 << 10, 16 << 10));
    assert_eq!((trailers_max, trailer_fields_max), (16 << 10, 64));
    let Limits { pipeline_bytes_max, pipeline_responses_max, .. } = Limits::default();
    assert_eq!((drain_max, pipeline_bytes_max, pipeline_responses_max), (256 << 10, 64 << 10, 64));
    let Limits { connections_max, connections_per_peer_max, requests_per_connection_max, .. } =
        Limits::default();
    // Machines with little memory have fewer.
    assert!((1..=65_536).contains(&connections_max));
    assert_eq!((connections_per_peer_max, requests_per_connection_max), (None, None));
}

/// Checks that the request `within` a limit is answered, and the connection kept; and that the one `beyond` it is
/// refused before the handler runs, and nothing behind it is read. Neither depends on where packets end.
#[track_caller]
fn check(limits: Limits, within: impl AsRef<[u8]>, beyond: impl AsRef<[u8]>, refused: u16) {
    check_within(limits, within);
    check_beyond(limits, beyond.as_ref(), refused);
    check_beyond(limits, [beyond.as_ref(), NEXT].concat(), refused);
}

#[track_caller]
fn check_within(limits: Limits, within: impl AsRef<[u8]>) {
    let refusals = ErrorReports::default();
    let wired = Wired::with(|server| refusals.attach(server.limits(limits)), app);
    let received = responses(&ask_cut(&wired, &[within.as_ref(), NEXT].concat(), Then::Ends));
    assert_eq!(received.iter().map(|response| response.status).collect::<Vec<_>>(), [200, 200]);
    assert!(received.iter().all(|response| !response.is_last()) && refusals.take().is_empty());
}

/// Checks that a message which is too long is refused at once, whether or not it ever ends.
#[track_caller]
fn check_beyond(limits: Limits, beyond: impl AsRef<[u8]>, refused: u16) {
    let refusals = ErrorReports::default();
    let wired = Wired::with(|server| refusals.attach(server.limits(limits)), app);
    take_handled();
    let received = responses(&ask_cut(&wired, beyond.as_ref(), Then::Waits));
    assert_eq!((received.len(), received[0].status, take_handled()), (1, refused, 0));
    received[0].check_refusal();
    let told = refusals.take();
    assert!(!told.is_empty() && told.iter().all(|told| told.0 == refused), "{told:?}");
}

/// As [`Wired::ask_cut`], but cuts a long message in fewer places, mostly near its end.
#[track_caller]
fn ask_cut<H: Handler>(wired: &Wired<H>, wire: &[u8], then: Then) -> String {
    if wire.len() < 1000 {
        return wired.ask_cut(wire, then);
    }
    let whole = wired.ask(&[wire], then);
    let cuts = [1, 2, 3, 4, 34, 35, 36, 37, 38].map(|behind| wire.len() - behind);
    let halves = cuts.map(|cut| vec![&wire[..cut], &wire[cut..]]);
    for packets in halves.into_iter().chain([wire.chunks(1000).collect()]) {
        assert_eq!(undated(&wired.ask(&packets, then)), undated(&whole), "{:?}", shortened(wire));
    }
    whole
}

fn app(ctx: &mut Context) {
    count_handled();
    ctx.response.set_text("fine");
}

/// A request that may follow another one.
const NEXT: &[u8] = b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n";

/// A GET whose request line has that length.
fn line(len: usize) -> String {
    format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "l".repeat(len - "GET / HTTP/1.1".len()))
}

#[test]
fn a_request_line_beyond_its_limit_is_414_rfc9112_3() {
    let limits = Limits { request_line_max: 30, ..Limits::default() };
    check(limits, line(30), line(31), 414);
    check(limits, format!("\r\n{}", line(30)), format!("\r\n{}", line(31)), 414);
    check_beyond(limits, &line(60)[..32], 414);
    check(limits, "GET / HTTP/1.9\r\nhost: a\r\n\r\n", line(31).replace("1.1", "1.9"), 414);
    check(Limits::default(), line(16 << 10), line((16 << 10) + 1), 414);
}

/// A GET whose head has that length.
fn head(len: usize) -> String {
    let around = "GET / HTTP/1.1\r\nhost: a\r\nx: \r\n\r\n";
    around.replace("x: ", &format!("x: {}", "h".repeat(len - around.len())))
}

#[test]
fn row_21_a_head_beyond_its_limit_is_431_rfc6585_5() {
    let limits = Limits { head_max: 64, ..Limits::default() };
    check(limits, head(64), head(65), 431);
    check(limits, format!("\r\n{}", head(64)), format!("\r\n{}", head(65)), 431);
    check_beyond(limits, &head(99)[..65], 431);
    // A line within its own limit may be too long for the head.
    check(limits, line(40), line(70), 431);
    check(Limits::default(), head(64 << 10), head((64 << 10) + 1), 431);
}

/// A GET with that many fields.
fn fields(count: usize) -> String {
    format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x:\r\n".repeat(count - 1))
}

#[test]
fn row_22_more_fields_than_the_limit_are_431_rfc6585_5() {
    let limits = |fields_max| Limits { fields_max, ..Limits::default() };
    check(limits(1), fields(1), fields(2), 431);
    check(limits(3), fields(3), fields(4), 431);
    check(limits(129), fields(129), fields(130), 431);
    check(limits(usize::MAX), fields(1024), fields(1025), 431);
    check(Limits::default(), fields(128), fields(129), 431);
}

#[test]
fn more_empty_lines_than_the_limit_are_400_rfc9112_2_2() {
    let lines = |count: usize| "\r\n".repeat(count) + &line(20);
    check(Limits::default(), lines(1), lines(2), 400);
    check(Limits::default(), lines(1), "\r\n".repeat(10_000), 400);
}

fn sized(announced: u64, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {announced}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{body}")
}

#[test]
fn a_body_beyond_its_limit_is_413_rfc9110_15_5_14() {
    let limits = Limits { body_max: 8, ..Limits::default() };
    check(limits, sized(8, "12345678"), sized(9, ""), 413);
    check(limits, sized(0, ""), sized(i64::MAX as u64, ""), 413);
    check(limits, chunked("8\r\n12345678\r\n0\r\n\r\n"), chunked("9\r\n123456789"), 413);
    check(limits, chunked("4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n"), chunked("8\r\n12345678\r\n1\r\n9"), 413);
    // A peer that expects a 100 is refused before it sends its body, and gets no 100.
    let expecting = sized(9, "").replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    check(limits, sized(8, "12345678"), expecting, 413);
    check(Limits { body_max: 0, ..Limits::default() }, sized(0, ""), sized(1, "1"), 413);
}

/// The limit of a plan replaces that of the server, whether it is lower or higher.
#[test]
fn a_plan_may_have_a_limit_of_its_own() {
    let limits = Limits { body_max: 8, ..Limits::default() };
    for (most, len, expected) in [(4, 4, 200), (4, 5, 413), (8, 9, 413), (16, 16, 200), (16, 17, 413)] {
        let planned = wrap(BodyPlan::BufferUpTo(most), app);
        let wired = Wired::with(|server| server.limits(limits), planned);
        let body = "b".repeat(len);
        for wire in [sized(len as u64, &body), chunked(&format!("{len:x}\r\n{body}\r\n0\r\n\r\n"))] {
            let received = responses(&wired.ask_cut(&wire, Then::Ends));
            assert_eq!((received.len(), received[0].status), (1, expected), "{len} of {most}");
        }
    }
}

#[test]
fn the_default_limit_of_a_body_holds() {
    let wired = Wired::new(|ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string()));
    let body = "b".repeat(4 << 20);
    for (wire, expected) in [
        (sized(4 << 20, &body), 200),
        (sized((4 << 20) + 1, ""), 413),
        (sized(10_000_000_000, ""), 413),
        (chunked(&format!("400000\r\n{body}\r\n0\r\n\r\n")), 200),
        (chunked(&format!("400000\r\n{body}\r\n1\r\n1")), 413),
    ] {
        let received = responses(&wired.ask(&[wire.as_bytes()], Then::Ends));
        assert_eq!((received.len(), received[0].status), (1, expected));
    }
}

#[test]
fn more_digits_of_a_chunk_size_than_the_limit_are_400_rfc9112_7_1() {
    let sizes = |first: &str| chunked(&format!("{first}\r\n12345\r\n0\r\n\r\n"));
    check(Limits::default(), sizes("0000000000000005"), sizes("00000000000000005"), 400);
    check_beyond(Limits::default(), chunked(&"0".repeat(17)), 400);
}

/// One chunk whose extensions have that length, from the semicolon on.
fn extended(len: usize) -> String {
    format!("5;{}\r\n12345\r\n", "e".repeat(len - 1))
}

#[test]
fn chunk_extensions_beyond_their_limits_are_400_rfc9112_7_1_1() {
    let last = "0\r\n\r\n";
    let limits = Limits { chunk_extensions_total_max: 20, ..Limits::default() };
    let within = chunked(&[&*extended(8), &*extended(8), &*extended(4), last].concat());
    let beyond = chunked(&[&*extended(8), &*extended(8), &*extended(5), last].concat());
    check(limits, within, beyond, 400);
    check(limits, chunked(last), chunked(&format!("0;{}\r\n\r\n", "e".repeat(20))), 400);
    let within = chunked(&(extended(4 << 10) + last));
    check(Limits::default(), within, chunked(&(extended((4 << 10) + 1) + last)), 400);
    check_beyond(Limits::default(), chunked(&extended((4 << 10) + 99)[..(4 << 10) + 3]), 400);
    // All extensions of a body: at their limit, and one byte beyond it.
    let within = chunked(&(extended(4 << 10).repeat(4) + last));
    let beyond = chunked(&(extended(4 << 10).repeat(3) + &extended((4 << 10) - 1) + &extended(2)));
    check(Limits::default(), within, beyond, 400);
}

/// One chunk of one byte, with `waste` bytes of framing more than the 16 of each chunk and twice its data excuse.
fn wasteful(waste: usize) -> String {
    format!("1;{}\r\n1", "w".repeat(waste + 16 + 2 - "1;\r\n".len()))
}

#[test]
fn chunk_framing_beyond_its_limit_is_400_rfc9112_7_1() {
    let limits = Limits { chunk_extensions_total_max: 1 << 20, ..Limits::default() };
    // The overhead of all chunks adds up, CRLF after the data included.
    let most = format!("{}\r\n", wasteful((4 << 10) - 98)).repeat(4);
    let within = chunked(&format!("{most}{}\r\n0\r\n\r\n", wasteful(4 * 96)));
    check(limits, within, chunked(&format!("{most}{}", wasteful(4 * 96 + 1))), 400);
    let tiny = chunked(&("1\r\n1\r\n".repeat(20_000) + "0\r\n\r\n"));
    let padded = chunked(&"0000000000000001;a=b\r\n1\r\n".repeat(3_000));
    check(Limits::default(), tiny, padded, 400);
}

fn trailers(section: &str) -> String {
    chunked(&format!("0\r\n{section}\r\n"))
}

#[test]
fn trailers_beyond_their_limits_are_431_rfc9112_7_1_2() {
    let limits = |trailers_max| Limits { trailers_max, ..Limits::default() };
    check(limits(9), trailers("a: 45\r\n"), trailers("a: 456\r\n"), 431);
    check(limits(2), trailers(""), trailers("a:\r\n"), 431);
    check_beyond(limits(20), chunked("0\r\na: 456789012345678901"), 431);
    let long = |len: usize| trailers(&format!("a: {}\r\n", "t".repeat(len - "a: \r\n\r\n".len())));
    check(Limits::default(), long(16 << 10), long((16 << 10) + 1), 431);
    let many = |count: usize| trailers(&"a:\r\n".repeat(count));
    let fields = |trailer_fields_max| Limits { trailer_fields_max, ..Limits::default() };
    check(fields(0), many(0), many(1), 431);
    check(fields(2), many(2), many(3), 431);
    check(fields(130), many(130), many(131), 431);
    check(fields(usize::MAX), many(1024), many(1025), 431);
    check(Limits::default(), many(64), many(65), 431);
}

#[test]
fn every_limit_may_be_zero_or_boundless() {
    const NONE: Limits = Limits {
        request_line_max: 0,
        head_max: 0,
        fields_max: 0,
        body_max: 0,
        chunk_extensions_total_max: 0,
        trailers_max: 0,
        trailer_fields_max: 0,
        drain_max: 0,
        forward_buffer_max: 0,
        forward_buffers_per_core_max: 0,
        pipeline_bytes_max: 0,
        pipeline_responses_max: 0,
        connections_max: 0,
        connections_per_peer_max: Some(0),
        memory_max: 0,
        requests_per_connection_max: Some(0),
    };
    const ALL: Limits = Limits {
        request_line_max: usize::MAX,
        head_max: usize::MAX,
        fields_max: usize::MAX,
        body_max: usize::MAX,
        chunk_extensions_total_max: usize::MAX,
        trailers_max: usize::MAX,
        trailer_fields_max: usize::MAX,
        drain_max: usize::MAX,
        forward_buffer_max: usize::MAX,
        forward_buffers_per_core_max: usize::MAX,
        pipeline_bytes_max: usize::MAX,
        pipeline_responses_max: usize::MAX,
        connections_max: usize::MAX,
        connections_per_peer_max: Some(usize::MAX),
        memory_max: usize::MAX,
        requests_per_connection_max: Some(u64::MAX),
    };
    for wire in [
        line(20),
        fields(200),
        format!("\r\n{}", line(20)),
        sized(3, "123"),
        chunked("3;a=b\r\n123\r\n0\r\nx: y\r\n\r\n"),
    ] {
        let wired = Wired::with(|server| server.limits(ALL), app);
        assert_eq!(status(&wired.ask_cut(&wire, Then::Ends)), 200, "{wire}");
        let wired = Wired::with(|server| server.limits(NONE), app);
        assert!(status(&wired.ask(&[wire.as_bytes()], Then::Ends)) >= 400, "{wire}");
    }
    let served = Served::with(|server| server.limits(ALL), app);
    assert_eq!(status(&served.ask(line(20))), 200);
    let served = Served::with(|server| server.limits(NONE), app);
    assert_eq!(status(&served.connect().receive_all()), 503);
}

/// Checks that a body which the handler leaves unread is drained, or the connection ends. The body is never taken for a
/// request.
#[track_caller]
fn check_unread(drain_max: usize, body: &str, kept: bool) {
    let limits = Limits { drain_max, ..Limits::default() };
    let wired = Wired::with(|server| server.limits(limits), wrap(BodyPlan::Stream, app));
    let wire = [body.as_bytes(), NEXT].concat();
    take_handled();
    let received = responses(&wired.ask(&[&wire], Then::Waits));
    assert_eq!((received.len(), take_handled()), if kept { (2, 2) } else { (1, 1) }, "{body}");
    // The limit applies to each body by itself.
    let twice = responses(&wired.ask(&[body.as_bytes(), &wire], Then::Waits));
    assert_eq!(twice.len(), if kept { 3 } else { 1 }, "{body}");
    wired.ask_cut(wire, Then::Ends);
}

#[test]
fn an_unread_body_is_drained_up_to_its_limit_rfc9112_9_3() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    let (len, chunk) = (smuggled.len(), format!("{:x}\r\n{smuggled}\r\n", smuggled.len()));
    check_unread(len, &sized(len as u64, smuggled), true);
    check_unread(len - 1, &sized(len as u64, smuggled), false);
    check_unread(0, &sized(1, "1"), false);
    check_unread(len, &sized(i64::MAX as u64, smuggled), false);
    check_unread(len, &chunked(&format!("{chunk}0\r\n\r\n")), true);
    check_unread(2 * len, &chunked(&format!("{chunk}{chunk}0\r\n\r\n")), true);
    // The length of chunks is unknown when the response promises that the connection persists.
    check_unread(2 * len - 1, &chunked(&format!("{chunk}{chunk}1\r\n1\r\n0\r\n\r\n")), true);
    let default = Limits::default().drain_max;
    assert_eq!(default, 256 << 10);
    let long = smuggled.repeat(default.div_ceil(len));
    check_unread(default, &sized(default as u64, &long[..default]), true);
    check_unread(default, &sized(default as u64 + 1, &long[..default + 1]), false);
}

/// The end of the peer must not be represented as a count, which would not exceed this limit: the core would loop for
/// ever.
#[test]
fn draining_ends_when_the_peer_does_whatever_the_limit() {
    let limits = Limits { drain_max: usize::MAX, ..Limits::default() };
    paused(async {
        let (service, start) = (Server::new().limits(limits).service(app), Instant::now());
        let (mut near, far) = duplex(64);
        let peer = async move {
            near.write_all(b"bad\r\n").await.unwrap();
            near.shutdown().await.unwrap();
            near.read_to_end(&mut Vec::new()).await.unwrap();
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// The responses to so many requests that come together leave in writes of `expected` responses each.
#[track_caller]
fn check_batches(limits: Limits, requests: usize, expected: &[usize]) {
    let batches = Rc::default();
    let tape = Tape { input: NEXT.repeat(requests).into(), batches: Rc::clone(&batches) };
    paused(async {
        let service = Server::new().limits(limits).service(|ctx: &mut Context| {
            ctx.response.headers.set("x-wide", "w".repeat(RESPONSE - EMPTY)).unwrap();
        });
        service.serve_connection(tape).await.unwrap();
    });
    assert_eq!(*batches.borrow(), expected);
}

/// The bytes of each response, and of one whose wide field is empty.
const RESPONSE: usize = 1 << 10;
const EMPTY: usize =
    "HTTP/1.1 200 OK\r\nx-wide: \r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 0\r\n\r\n".len();

/// A peer whose requests arrive at once, and that records how many responses leave at once.
struct Tape {
    input: VecDeque<u8>,
    batches: Rc<RefCell<Vec<usize>>>,
}

impl AsyncRead for Tape {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.input.len().min(out.remaining());
        out.put_slice(&self.input.drain(..count).collect::<Vec<_>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        assert_eq!(bytes.len() % RESPONSE, 0, "whole responses");
        self.batches.borrow_mut().push(bytes.len() / RESPONSE);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn pipelined_responses_leave_in_batches_rfc9112_9_3_2() {
    let responses = |pipeline_responses_max| Limits { pipeline_responses_max, ..Limits::default() };
    check_batches(responses(4), 1, &[1]);
    check_batches(responses(4), 4, &[4]);
    check_batches(responses(4), 10, &[4, 4, 2]);
    check_batches(responses(1), 3, &[1, 1, 1]);
    check_batches(responses(0), 3, &[1, 1, 1]);
    let bytes = |pipeline_bytes_max| Limits { pipeline_bytes_max, ..Limits::default() };
    check_batches(bytes(2 * RESPONSE), 5, &[2, 2, 1]);
    check_batches(bytes(2 * RESPONSE + 1), 5, &[3, 2]);
    check_batches(bytes(0), 3, &[1, 1, 1]);
    check_batches(Limits { pipeline_bytes_max: usize::MAX, ..Limits::default() }, 100, &[64, 36]);
    check_batches(Limits { pipeline_bytes_max: 64 * RESPONSE, ..responses(usize::MAX) }, 100, &[64, 36]);
    check_batches(Limits::default(), 130, &[64, 64, 2]);
    let by_default = (64_usize << 10).div_ceil(RESPONSE);
    check_batches(responses(usize::MAX), by_default + 1, &[by_default, 1]);
}

#[test]
fn a_peer_that_pipelines_without_reading_is_read_no_further() {
    const PIPE: usize = 16 << 10;
    let said = paused(async {
        let service = Server::new()
            .service(|ctx: &mut Context| ctx.response.body.set_shared_bytes(&[b'x'; 4 << 10][..]));
        let (mut near, far) = duplex(PIPE);
        let peer = async move {
            let mut said = 0;
            while near.write_all(NEXT).await.is_ok() {
                said += NEXT.len();
            }
            said
        };
        let (said, served) = tokio::join!(peer, service.serve_connection(far));
        assert_eq!(served.unwrap_err().kind(), io::ErrorKind::TimedOut);
        said
    });
    // The requests in the pipe and in a buffer of twice its size, and the few that were answered.
    assert!(said < 4 * PIPE, "{said}");
}

#[test]
fn connections_beyond_the_limit_of_all_cores_are_503_rfc9110_15_6_4() {
    for cores in [1, 2] {
        let (served, refusals) =
            crowded("127.0.0.1:0", cores, Limits { connections_max: 3, ..Limits::default() });
        let mut inside = [(); 3].map(|()| served.connect());
        inside.iter_mut().for_each(check_let_in);
        let outside = [(); 5].map(|()| check_turned_away(served.connect(), 503, Some("1")));
        let mut seen = refusals.take();
        seen.dedup();
        let expected = "the server has 3 connections, as many as it may have (`connections_max`)";
        assert_eq!(seen, [(503, expected.into())]);
        assert_eq!(served.running.counts().total.errors.overload, 5);
        // Rejected peers stay for a while, and hold no permit meanwhile.
        leave(&served, inside);
        [(); 3].map(|()| served.connect()).iter_mut().for_each(check_let_in);
        drop(outside);
    }
}

#[test]
fn idle_connections_close_for_new_ones_before_there_are_too_many() {
    let (served, refusals) = crowded("127.0.0.1:0", 1, Limits { connections_max: 64, ..Limits::default() });
    let mut inside: Vec<Peer> = (0..62).map(|_| served.connect()).collect();
    inside.iter_mut().for_each(check_let_in);
    for _ in 0..3 {
        // More than the ticks in which a silence is measured.
        thread::sleep(Duration::from_millis(800));
        for _ in 0..8 {
            let mut new = served.connect();
            check_let_in(&mut new);
            inside.push(new);
        }
    }
    assert_eq!(refusals.take(), []);
    // The oldest are closed, and the newest are not.
    assert_eq!(inside[0].receive_all(), "");
    check_let_in(inside.last_mut().unwrap());
}

/// Also where a sixteenth is less than one, and where other cores have the idle ones.
#[test]
fn a_full_server_has_room_for_the_first_that_comes_later() {
    for (cores, connections_max) in [(1, 2), (1, 10), (4, 20), (2, 100)] {
        let (served, refusals) =
            crowded("127.0.0.1:0", cores, Limits { connections_max, ..Limits::default() });
        let mut inside: Vec<Peer> = (0..connections_max).map(|_| served.connect()).collect();
        inside.iter_mut().for_each(|peer| peer.send(NEXT));
        let total = || served.running.counts().total;
        eventually("all are accepted", || total().accepted as usize == connections_max);
        eventually("there is room", || (total().open as usize) < connections_max);
        refusals.take();
        check_let_in(&mut served.connect());
        assert_eq!(refusals.take(), [], "{cores} cores, {connections_max} connections");
    }
}

/// A connection that was handed over to a task of its own still counts.
#[test]
fn connections_that_were_taken_over_count_wherever_they_are() {
    const UPGRADE: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let limits = Limits { connections_max: 2, connections_per_peer_max: Some(2), ..Limits::default() };
    let served = Served::with(
        |server| server.limits(limits),
        async |ctx: &mut Context| -> corehttp::Result {
            let mut upgraded = ctx.upgrade("x").await?;
            spawn_local(async move { upgraded.read_to_end(&mut Vec::new()).await });
            Ok(())
        },
    );
    for _ in 0..3 {
        let inside = [(); 2].map(|()| {
            let mut peer = served.connect();
            peer.send(UPGRADE);
            assert_eq!(status(&peer.receive()), 101);
            peer
        });
        drop(check_turned_away(served.connect(), 503, Some("1")));
        eventually("the others stay", || served.running.counts().total.open == 2);
        leave(&served, inside);
    }
}

#[test]
fn connections_beyond_the_limit_of_a_peer_are_429_rfc6585_4() {
    for address in ["127.0.0.1:0", "[::]:0"] {
        let limits = Limits { connections_per_peer_max: Some(2), ..Limits::default() };
        let (served, refusals) = crowded(address, 2, limits);
        let connect = |host| connect_from(host, served.addr().port());
        let mut inside = [1, 1].map(connect);
        inside.iter_mut().for_each(check_let_in);
        let outside = [1, 1, 1].map(|host| check_turned_away(connect(host), 429, None));
        let mut seen = refusals.take();
        seen.dedup();
        let expected = "the peer has 2 connections, as many as it may have (`connections_per_peer_max`)";
        assert_eq!(seen, [(429, expected.into())]);
        assert_eq!(served.running.counts().total.errors.overload, 3);
        let mut others = [2, 3, 2].map(connect);
        others.iter_mut().for_each(check_let_in);
        leave(&served, inside);
        [1, 1].map(connect).iter_mut().for_each(check_let_in);
        drop((outside, others));
    }
}

/// A server that lingers for long with refused peers, and its reports of them.
fn crowded(address: &str, cores: usize, limits: Limits) -> (Served, ErrorReports) {
    let refusals = ErrorReports::default();
    let timeouts = Timeouts { linger: Duration::from_secs(3600), ..Timeouts::default() };
    let server = refusals.attach(Server::bind(address).cores(cores).limits(limits).timeouts(timeouts));
    (Served { running: server.start(app).unwrap() }, refusals)
}

/// Connects from `127.0.0.host`.
fn connect_from(host: u8, port: u16) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    Peer::new(socket.into())
}

#[track_caller]
fn check_let_in(peer: &mut Peer) {
    peer.send(NEXT);
    assert_eq!(status(&peer.receive()), 200);
}

/// Checks that the peer is answered, whether or not it has sent a request, and may stay to read the response.
#[track_caller]
fn check_turned_away(mut peer: Peer, expected: u16, retry_after: Option<&str>) -> Peer {
    peer.send(NEXT);
    let received = responses(&peer.receive_all());
    let [response] = &received[..] else { panic!("{received:?}") };
    assert_eq!((response.status, response.field("retry-after")), (expected, retry_after));
    assert!(response.is_last());
    peer
}

/// Closes `peers`, and waits until the server has closed their connections.
fn leave<const N: usize>(served: &Served, peers: [Peer; N]) {
    let open = || served.running.counts().total.open;
    let before = open();
    drop(peers);
    eventually("they are gone", || open() == before - N as u64);
}

#[test]
fn row_56_the_last_request_allowed_is_answered_with_close_rfc9112_9_6() {
    for (requests_per_connection_max, served) in
        [(None, 9), (Some(0), 1), (Some(1), 1), (Some(3), 3), (Some(9), 9)]
    {
        let limits = Limits { requests_per_connection_max, ..Limits::default() };
        let wired = Wired::with(|server| server.limits(limits), app);
        take_handled();
        let received = responses(&wired.ask(&[&NEXT.repeat(9)], Then::Ends));
        assert_eq!((received.len(), take_handled()), (served, served));
        let says_close = received.last().is_some_and(|response| response.is_last());
        assert_eq!(says_close, requests_per_connection_max.is_some());
        // Peers that connect one by one are counted alike.
        assert_eq!(responses(&wired.ask(&[NEXT; 9], Then::Ends)).len(), served);
    }
}
