//! Many requests in flight on one connection: each response finds its caller, and nothing is done twice that must not
//! be (RFC 9112 §9.3.2).

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits, ClientPhase, ClientTimeouts, Pipeline, PipelineBuilder};
use corehttp::net::Dialer;
use corehttp::{Client, ClientBuilder, ClientError, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::{OK, Peer, Received, Rigged, Scripted, paused, settle};

/// The steps of the server on one connection, before it closes. Without steps it cannot be written to.
type Script = &'static [Step];

#[derive(Clone, Copy)]
enum Step {
    /// Waits for so many requests.
    Read(usize),
    Write(&'static str),
    /// Says nothing for so many seconds.
    Wait(u64),
    /// Says nothing, and does not close.
    Hang,
}

use Step::{Hang, Read, Wait, Write};

/// A server in memory that follows one script for each connection, and what it has received on each: methods and paths.
#[derive(Clone)]
struct Server {
    scripts: &'static [Script],
    received: Arc<Mutex<Vec<String>>>,
    /// The length at which the response is cut.
    cut: usize,
    /// So many bytes may be on their way.
    room: usize,
}

impl Server {
    fn new(scripts: &'static [Script]) -> Server {
        Server { scripts, received: Arc::default(), cut: usize::MAX, room: 1 << 16 }
    }

    fn client(&self) -> Client {
        self.builder().build()
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder().dialer(self.clone()).timeouts(timeouts())
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

/// Shorter than the idle limit, so that a paused clock tells them apart.
fn timeouts() -> ClientTimeouts {
    ClientTimeouts {
        wait: Duration::from_secs(7),
        queue: Duration::from_secs(20),
        ..ClientTimeouts::default()
    }
}

impl Dialer for Server {
    type Stream = DuplexStream;

    async fn dial(&self, _host: &str, _port: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(self.room);
        let number = {
            let mut received = self.received.lock().unwrap();
            received.push(String::new());
            received.len() - 1
        };
        let script = self.scripts.get(number).ok_or(io::ErrorKind::ConnectionRefused)?;
        if script.is_empty() {
            return Ok(near);
        }
        tokio::spawn(follow(Peer::new(far, Received::default()), script, self.clone(), number));
        Ok(near)
    }
}

async fn follow(mut peer: Peer<DuplexStream>, script: Script, server: Server, number: usize) {
    let mut left = server.cut;
    for step in script {
        match step {
            Read(count) => {
                for _ in 0..*count {
                    let Some(line) = receive(&mut peer).await else { return };
                    let mut received = server.received.lock().unwrap();
                    let separator = if received[number].is_empty() { "" } else { ", " };
                    received[number] += &format!("{separator}{line}");
                }
            }
            Write(response) => {
                let (now, later) = response.split_at(left.min(response.len()));
                left = left.saturating_sub(response.len());
                for piece in [now, later] {
                    let _ = peer.send(piece).await;
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                }
            }
            Wait(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            Hang => std::future::pending().await,
        }
    }
}

/// Method and path of the next request, which has been received to its end.
async fn receive(peer: &mut Peer<DuplexStream>) -> Option<String> {
    let request = peer.request().await.ok()??;
    assert_eq!(request.matches("host: a\r\n").count(), 1, "{request}");
    request.split(" HTTP/1.1\r\n").next().map(str::to_owned)
}

fn request(line: &str) -> Request {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request = Request::new(method, path).unwrap();
    if matches!(method, "POST" | "QUERY") {
        request.body.set_bytes("body");
    }
    request
}

/// The responses to callers that come at the same moment, in their order.
async fn ask(pipeline: &Pipeline, lines: &[&str]) -> Vec<String> {
    ask_but_one_goes(pipeline, lines, None).await
}

/// As [`ask`], but the caller at `gone`, if any, goes away after a second.
async fn ask_but_one_goes(pipeline: &Pipeline, lines: &[&str], gone: Option<usize>) -> Vec<String> {
    let mut callers = JoinSet::new();
    for (at, line) in lines.iter().enumerate() {
        let (pipeline, request) = (pipeline.clone(), request(line));
        callers.spawn(async move {
            let mut response = Response::new();
            let limit = if Some(at) == gone { Duration::from_secs(1) } else { Duration::MAX };
            let sent = tokio::time::timeout(limit, pipeline.send(&request, &mut response)).await;
            (at, sent.map_or("gone".to_owned(), |sent| told(sent, &response)))
        });
    }
    let mut told = callers.join_all().await;
    told.sort();
    told.into_iter().map(|(_, told)| told).collect()
}

/// Asks one request after so many seconds.
async fn ask_at(pipeline: &Pipeline, seconds: u64, line: &str) -> String {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    ask(pipeline, &[line]).await.concat()
}

fn told(result: Result<(), ClientError>, response: &Response) -> String {
    match result {
        Ok(()) => format!("{} {}", response.status.as_u16(), response.body.text().unwrap()),
        Err(error) => {
            let cause = match error.cause() {
                ClientCause::Exchange(error) => format!("{error:?}"),
                cause => format!("{cause:?}"),
            };
            let cause = cause.split('(').next().unwrap_or_default();
            format!("{:?} {cause}, {}", error.phase(), if error.is_sent() { "sent" } else { "not sent" })
        }
    }
}

/// Callers that ask for `lines` at the same moment are told `expected`, and the server receives `received` on its
/// connections.
#[track_caller]
fn check(scripts: &'static [Script], lines: &[&str], expected: &[&str], received: &[&str]) {
    check_with(|builder| builder.allow_unsafe_methods(true), scripts, lines, expected, received);
}

#[track_caller]
fn check_with(
    set: impl Fn(PipelineBuilder) -> PipelineBuilder,
    scripts: &'static [Script],
    lines: &[&str],
    expected: &[&str],
    received: &[&str],
) {
    paused(async {
        let server = Server::new(scripts);
        let pipeline = set(server.client().pipeline("http://a").unwrap()).build();
        assert_eq!(ask(&pipeline, lines).await, expected, "{lines:?}");
        assert_eq!(server.received(), received, "{lines:?}");
        assert_eq!(pipeline.in_flight(), 0);
    });
}

const A: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na";
const LONGER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nxy";
const B: &str = "HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\nb";
const C: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 1\r\n\r\nc";
const LAST: &str = "HTTP/1.1 203 Last\r\nconnection: close\r\ncontent-length: 1\r\n\r\nl";

/// Connections must not be opened for ever, and never asked anything.
#[test]
fn a_connection_that_must_not_get_old_is_asked_once() {
    paused(async {
        let scripts: &[Script] =
            &[&[Read(1), Write(A), Hang], &[Read(1), Write(B), Hang], &[Read(1), Write(C), Hang]];
        let server = Server::new(scripts);
        let client = Client::builder()
            .dialer(server.clone())
            .timeouts(ClientTimeouts { connection_age: Some(Duration::ZERO), ..ClientTimeouts::default() })
            .build();
        let pipeline = client.pipeline("http://a").unwrap().build();
        let lines = ["GET /1", "GET /2", "GET /3"];
        assert_eq!(ask(&pipeline, &lines).await, ["200 a", "201 b", "202 c"]);
        assert_eq!((server.received(), client.idle_connections()), (lines.map(str::to_owned).into(), 0));
    });
}

/// Were a busy connection exempt, one in steady use would never be left.
#[test]
fn a_connection_that_has_got_old_takes_no_more_requests_while_it_is_busy() {
    paused(async {
        let server = Server::new(&[
            &[Read(1), Write(A), Read(1), Wait(6), Write(B), Read(1), Wait(6), Write(C), Hang],
            &[Read(1), Write(A), Hang],
        ]);
        let client = server
            .builder()
            .timeouts(ClientTimeouts {
                connection_age: Some(Duration::from_secs(10)),
                ..ClientTimeouts::default()
            })
            .build();
        let pipeline = client.pipeline("http://a").unwrap().build();
        let ask_at = |seconds, line| ask_at(&pipeline, seconds, line);
        let (first, second) = (ask_at(0, "GET /1"), ask_at(1, "GET /2"));
        let told = tokio::join!(first, second, ask_at(5, "GET /3"), ask_at(11, "GET /4"));
        let told = <[String; 4]>::from(told);
        assert_eq!(told, ["200 a", "201 b", "202 c", "200 a"]);
        assert_eq!(server.received(), ["GET /1, GET /2, GET /3", "GET /4"]);
    });
}

#[test]
fn the_first_request_goes_alone_and_the_others_together_rfc9112_9_3_2() {
    // The server that waits for two requests before it answers gets them.
    check(
        &[&[Read(1), Write(A), Read(2), Write(B), Write(C)]],
        &["GET /1", "GET /2", "GET /3"],
        &["200 a", "201 b", "202 c"],
        &["GET /1, GET /2, GET /3"],
    );
    // Were the second sent with the first, it would be lost with the connection.
    check(
        &[&[Read(1), Write(LAST)], &[Read(1), Write(LAST)], &[Read(1), Write(LAST)]],
        &["GET /1", "GET /2", "GET /3"],
        &["203 l", "203 l", "203 l"],
        &["GET /1", "GET /2", "GET /3"],
    );
}

/// Responses that all end in their own way, cut at every byte: each finds its caller.
/// The least rate is that of each body: many small ones that each take a moment are not too slow together.
#[test]
fn the_time_of_a_body_is_its_own() {
    let slow = [Write("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n"), Wait(2), Write("a")];
    let script = [&[Read(1)][..], &slow, &[Read(6)], &slow.repeat(6)].concat();
    let scripts: Vec<Script> = vec![script.leak()];
    check(scripts.leak(), &["GET /"; 7], &["200 a"; 7], &[&["GET /"; 7].join(", ")]);
}

#[test]
fn every_response_finds_its_caller_wherever_packets_end() {
    const RESPONSES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n\
        HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb\
        HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n\
        HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nch\r\n3\r\nunk\r\n0\r\nx: y\r\n\r\n\
        HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\nuntil close";
    for cut in 0..=RESPONSES.len() {
        paused(async {
            let mut server = Server::new(&[&[Read(1), Write(A), Read(7), Write(RESPONSES)]]);
            server.cut = cut + A.len();
            let pipeline = server.client().pipeline("http://a").unwrap().build();
            let lines = ["GET /0", "HEAD /1", "GET /2", "GET /3", "GET /4", "GET /5", "OPTIONS /6", "GET /7"];
            let expected = ["200 a", "200 ", "200 b", "204 ", "304 ", "200 chunk", "200 ", "200 until close"];
            assert_eq!(ask(&pipeline, &lines).await, expected, "cut at {cut}");
        });
    }
}

#[test]
fn requests_behind_the_last_response_are_sent_again_rfc9112_9_6() {
    // Even a request that must not be repeated, because it was not processed.
    check(
        &[&[Read(1), Write(A), Read(3), Write(LAST)], &[Read(1), Write(B), Read(1), Write(C)]],
        &["GET /1", "GET /2", "POST /3", "GET /4"],
        &["200 a", "203 l", "201 b", "202 c"],
        &["GET /1, GET /2, POST /3, GET /4", "POST /3, GET /4"],
    );
    check(
        &[&[Read(1), Write("HTTP/1.0 200 OK\r\n\r\na")], &[Read(1), Write("HTTP/1.0 200 OK\r\n\r\nb")]],
        &["POST /1", "POST /2"],
        &["200 a", "200 b"],
        &["POST /1", "POST /2"],
    );
    // Where they cannot be sent again, they have not been sent at all.
    check(
        &[&[Read(1), Write(A), Read(2), Write(LAST)]],
        &["GET /1", "GET /2", "POST /3"],
        &["200 a", "203 l", "Connect Io, not sent"],
        &["GET /1, GET /2, POST /3", ""],
    );
}

/// A request that comes while the last response is being received must not go to a server that will not read it. If it
/// cannot be repeated, it would fail.
#[test]
fn a_connection_whose_last_response_has_begun_is_asked_nothing_more_rfc9112_9_6() {
    const LASTS: [Script; 3] = [
        &[
            Write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nx"),
            Wait(2),
            Write("y"),
            Read(1),
        ],
        &[Write("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nx"), Wait(2), Write("y"), Read(1)],
        &[Write("HTTP/1.1 200 OK\r\n\r\nx"), Wait(2), Write("y")],
    ];
    for last in LASTS {
        paused(async {
            let first: Script = [&[Read(1), Write(A), Read(1)], last].concat().leak();
            let server = Server::new(Vec::from([first, &[Read(1), Write(C)]]).leak());
            let pipeline = server.client().pipeline("http://a").unwrap().allow_unsafe_methods(true).build();
            let late = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ask(&pipeline, &["POST /3"]).await
            };
            let (told, late) = tokio::join!(ask(&pipeline, &["GET /1", "GET /2"]), late);
            assert_eq!((told, late), (vec!["200 a".into(), "200 xy".into()], vec!["202 c".into()]));
            assert_eq!(server.received(), ["GET /1, GET /2", "POST /3"]);
        });
    }
}

#[test]
fn idempotent_requests_survive_a_close_between_responses_rfc9112_9_3_2() {
    check(
        &[&[Read(1), Write(A), Read(3), Write(B)], &[Read(1), Write(C), Read(1), Write(C)]],
        &["GET /1", "GET /2", "PUT /3", "GET /4"],
        &["200 a", "201 b", "202 c", "202 c"],
        &["GET /1, GET /2, PUT /3, GET /4", "PUT /3, GET /4"],
    );
    // A POST that may have been processed is not sent again; a GET behind it is.
    check(
        &[&[Read(1), Write(A), Read(3)], &[Read(1), Write(C)]],
        &["GET /1", "POST /2", "POST /3", "GET /4"],
        &["200 a", "Wait Closed, sent", "Wait PipelineBroken, sent", "202 c"],
        &["GET /1, POST /2, POST /3, GET /4", "GET /4"],
    );
    // The server may have seen them, though it cannot be asked again: they must not count as not sent.
    check(
        &[&[Read(1), Write(A), Read(2)]],
        &["GET /1", "PUT /2", "GET /3"],
        &["200 a", "Connect Io, sent", "Connect Io, sent"],
        &["GET /1, PUT /2, GET /3", ""],
    );
}

#[test]
fn a_request_that_kills_connections_fails_and_no_other_does() {
    // The first of a connection is to blame at once, for it was alone.
    check(
        &[&[Read(1)], &[Read(1), Write(B), Read(1), Write(C)]],
        &["GET /1", "GET /2", "GET /3"],
        &["Wait Closed, sent", "201 b", "202 c"],
        &["GET /1", "GET /2, GET /3"],
    );
    // A later one is sent once more, alone.
    check(
        &[&[Read(1), Write(A), Read(3)], &[Read(1)], &[Read(1), Write(B), Read(1), Write(C)]],
        &["GET /1", "GET /2", "GET /3", "GET /4"],
        &["200 a", "Wait Closed, sent", "201 b", "202 c"],
        &["GET /1, GET /2, GET /3, GET /4", "GET /2", "GET /3, GET /4"],
    );
}

/// No request gets a response from a connection that is out of step, nor one that follows a broken response.
#[test]
fn a_broken_response_ends_its_connection() {
    const BEHIND: Script = &[Read(1), Write(C)];
    #[track_caller]
    fn check_broken(scripts: &'static [Script], error: &str) {
        let expected = ["200 a", error, "202 c"];
        check(scripts, &["GET /1", "GET /2", "GET /3"], &expected, &["GET /1, GET /2, GET /3", "GET /3"]);
    }
    macro_rules! broken {
        ($response:expr, $error:expr) => {
            check_broken(&[&[Read(1), Write(A), Read(2), Write($response), Write(B), Hang], BEHIND], $error)
        };
    }
    broken!("\0\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/2 200 OK\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/1.1 20 OK\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "Wait Wire, sent");
    broken!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", "Receive Wire, sent");
    broken!("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", "Receive Wire, sent");
    broken!("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", "Wait Upgrade, sent");
    check_broken(
        &[&[Read(1), Write(A), Read(2), Write("HTTP/1.1 200 OK\r\ncontent-le")], BEHIND],
        "Wait Incomplete, sent",
    );
    check_broken(
        &[&[Read(1), Write(A), Read(2), Write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx")], BEHIND],
        "Receive Incomplete, sent",
    );
}

#[test]
fn interim_responses_without_end_are_an_error() {
    const HEAD: [u8; 4 << 10] = {
        let (mut head, start, end) = ([b'a'; 4 << 10], *b"HTTP/1.1 102 x\r\na: ", *b"\r\n\r\n");
        let (_, last) = head.split_at_mut((4 << 10) - end.len());
        last.copy_from_slice(&end);
        let (first, _) = head.split_at_mut(start.len());
        first.copy_from_slice(&start);
        head
    };
    const INTERIM: &str = match str::from_utf8(&HEAD) {
        Ok(text) => text,
        Err(_) => panic!("it is ASCII"),
    };
    const ROW: [Step; 20] = [Write(INTERIM); 20];
    const SCRIPT: [Step; 21] = {
        let mut script = [Read(1); 21];
        let mut at = 0;
        while at < ROW.len() {
            script[at + 1] = ROW[at];
            at += 1;
        }
        script
    };
    check(&[&SCRIPT], &["GET /1"], &["Wait TooManyInformational, sent"], &["GET /1"]);
}

#[test]
fn silence_fails_what_was_sent_and_nothing_else() {
    check(
        &[&[Read(1), Write(A), Read(2), Hang]],
        &["GET /1", "GET /2", "GET /3"],
        &["200 a", "Wait TimedOut, sent", "Wait TimedOut, sent"],
        &["GET /1, GET /2, GET /3"],
    );
    check(
        &[&[Read(1), Hang], &[Read(1), Write(B)]],
        &["GET /1", "GET /2"],
        &["Wait TimedOut, sent", "201 b"],
        &["GET /1", "GET /2"],
    );
    // The third has waited for 14 s when the second fails, and for 20 s in the queue at most.
    check(
        &[&[Read(1), Hang], &[Read(1), Hang], &[Read(1), Hang]],
        &["GET /1", "GET /2", "GET /3", "GET /4"],
        &["Wait TimedOut, sent", "Wait TimedOut, sent", "Wait TimedOut, sent", "Queue TimedOut, not sent"],
        &["GET /1", "GET /2", "GET /3"],
    );
}

/// The time for its response begins when all of it was sent.
#[test]
fn a_request_that_is_read_slowly_has_its_time_to_be_answered() {
    paused(async {
        let mut server = Server::new(&[&[Wait(8), Read(1), Wait(6), Write(A), Hang]]);
        server.room = 10;
        let pipeline = server.client().pipeline("http://a").unwrap().build();
        assert_eq!(ask(&pipeline, &["GET /1"]).await, ["200 a"]);
    });
}

/// Two requests are on their way, and maybe the beginning of a third: the server reads no more.
#[test]
fn an_unwritten_request_was_not_processed() {
    const REQUEST: usize = "GET /1 HTTP/1.1\r\nhost: a\r\n\r\n".len();
    #[track_caller]
    fn check(room: usize, scripts: &'static [Script], expected: [&str; 5], again: &str) {
        paused(async {
            let mut server = Server::new(scripts);
            server.room = room;
            let pipeline = server.client().pipeline("http://a").unwrap().allow_unsafe_methods(true).build();
            let lines = ["GET /1", "GET /2", "BET /3", "BET /4", "BET /5"];
            assert_eq!(ask(&pipeline, &lines).await, expected, "{room}");
            assert_eq!(server.received()[1], again, "{room}");
        });
    }
    const LOST: &str = "Wait TimedOut, sent";
    const AGAIN: Script = &[Read(1), Write(A), Read(1), Write(B), Read(1), Write(C)];
    let silent: &[Script] = &[&[Read(1), Write(A), Hang], AGAIN];
    check(2 * REQUEST, silent, ["200 a", LOST, LOST, "200 a", "201 b"], "BET /4, BET /5");
    check(2 * REQUEST + 1, silent, ["200 a", LOST, LOST, LOST, "200 a"], "BET /5");
    // A response that comes before its request is none; one that comes while it is being sent counts.
    let eager: &[Script] = &[&[Read(1), Write(A), Write(B), Write(C), Write(LAST), Hang], AGAIN];
    check(2 * REQUEST, eager, ["200 a", "201 b", "202 c", "200 a", "201 b"], "BET /4, BET /5");
    check(2 * REQUEST + 1, eager, ["200 a", "201 b", "202 c", "203 l", "200 a"], "BET /5");
    // Nor is one that comes in one piece with the responses before it.
    const C_AND_MORE: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 1\r\n\r\ncHTTP/1.1 204 Stray\r\n\r\n";
    let rushing: &[Script] = &[&[Read(1), Write(A), Write(B), Write(C_AND_MORE), Hang], AGAIN];
    check(2 * REQUEST, rushing, ["200 a", "201 b", "202 c", "200 a", "201 b"], "BET /4, BET /5");
}

/// Dials after a second.
struct LateDialer(Server);

impl Dialer for LateDialer {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.0.dial(host, port).await
    }
}

/// The timings of a response that came behind another are of its own request.
#[test]
fn timings_tell_how_long_each_request_took() {
    const BEGINNING: Step = Write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx");
    paused(async {
        let mut server = Server::new(&[&[
            Wait(2),
            Read(1),
            Wait(3),
            Write(A),
            Read(2),
            Wait(4),
            Write(B),
            BEGINNING,
            Wait(5),
            Write("y"),
            Hang,
        ]]);
        server.room = 20;
        let pipeline =
            Client::builder().dialer(LateDialer(server)).build().pipeline("http://a").unwrap().build();
        let timed = async |path: &str| {
            let mut response = Response::new();
            pipeline.send(&Request::get(path).unwrap(), &mut response).await.unwrap();
            let times = response.timings();
            let phases = [times.queue, times.connect, times.send, times.wait, times.receive];
            (phases.map(|phase| phase.as_secs()), times.reused)
        };
        let told = tokio::join!(timed("/1"), timed("/2"), timed("/3"));
        let expected = [([0, 1, 2, 3, 0], false), ([6, 0, 0, 4, 0], true), ([6, 0, 0, 4, 5], true)];
        assert_eq!(<[_; 3]>::from(told), expected);
    });
}

/// The server waits for more than the connection holds at once.
#[test]
fn requests_follow_those_before_them_as_soon_as_these_have_left() {
    paused(async {
        let mut server = Server::new(&[&[Read(1), Write(A), Read(3), Write(A), Write(B), Write(C)]]);
        server.room = 1 << 20;
        let pipeline = server.client().pipeline("http://a").unwrap().build();
        let large = format!("GET /{}", "x".repeat(40 << 10));
        let told = ask(&pipeline, &["GET /1", &large, &large, &large]).await;
        assert_eq!(told, ["200 a", "200 a", "201 b", "202 c"]);
    });
}

/// However much may be in flight, the connection holds little of what its server does not read.
#[test]
fn requests_wait_in_the_queue_while_64_kib_are_not_read() {
    paused(async {
        let mut server = Server::new(&[&[Read(1), Write(A), Hang]]);
        server.room = 10;
        let client = server.client().with_timeout(Duration::from_secs(3));
        let pipeline = client.pipeline("http://a").unwrap().build();
        let large = format!("GET /{}", "x".repeat(40 << 10));
        let told = ask(&pipeline, &["GET /1", &large, &large, &large]).await;
        assert_eq!(told, ["200 a", "Wait TimedOut, sent", "Wait TimedOut, sent", "Queue TimedOut, not sent"]);
    });
}

#[test]
fn a_request_that_could_not_be_written_is_tried_twice() {
    check(&[&[], &[Read(1), Write(A)]], &["POST /1"], &["200 a"], &["", "POST /1"]);
    check(
        &[&[], &[], &[Read(1), Write(A)]],
        &["GET /1", "POST /2"],
        &["Send Io, not sent", "200 a"],
        &["", "", "POST /2"],
    );
}

/// Dials streams that take all that is written, and then fail to flush it.
struct UnflushedDialer(Server);

impl Dialer for UnflushedDialer {
    type Stream = Rigged;

    async fn dial(&self, host: &str, port: u16) -> io::Result<Rigged> {
        Ok(Rigged::new(self.0.dial(host, port).await?).unflushed())
    }
}

/// The server may have received it all the same, but its late response goes to no other request.
#[test]
fn a_connection_that_fails_to_flush_is_asked_nothing_more() {
    paused(async {
        let server = Server::new(&[&[Read(1), Write(A), Hang], &[Read(1), Write(B), Hang]]);
        let client = Client::builder().dialer(UnflushedDialer(server.clone())).timeouts(timeouts()).build();
        let pipeline = client.pipeline("http://a").unwrap().build();
        assert_eq!(ask(&pipeline, &["GET /1"]).await, ["200 a"]);
        assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
        assert_eq!(ask(&pipeline, &["GET /2"]).await, ["201 b"]);
        assert_eq!(server.received(), ["GET /1", "GET /2"]);
    });
}

/// Half a response is no reason to ask again, even where it would do no harm.
#[tokio::test]
async fn a_reset_in_a_response_is_an_error() {
    for half in ["HTTP/1.1 200 OK\r\nx", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx"] {
        let server = Scripted::new(move |mut peer, _| async move {
            peer.request().await?;
            peer.send(A).await?;
            peer.request().await?;
            peer.send(half).await?;
            // A reset would overtake what has not been read.
            tokio::time::sleep(Duration::from_millis(30)).await;
            peer.reset();
            Ok(())
        })
        .await;
        let pipeline = Client::new().pipeline(&server.url).unwrap().build();
        let told = ask(&pipeline, &["GET /1", "GET /2"]).await;
        assert_eq!(told[0], "200 a");
        assert!(told[1].ends_with(" Io, sent"), "{told:?}");
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn an_unreachable_host_fails_all_callers_at_once() {
    check(
        &[],
        &["GET /1", "GET /2", "POST /3"],
        &["Connect Io, not sent", "Connect Io, not sent", "Connect Io, not sent"],
        &[""],
    );
}

#[test]
fn a_request_that_cannot_be_pipelined_is_refused_before_anything_is_dialed() {
    for line in ["POST /", "PUT /", "DELETE /", "PATCH /", "BREW /", "POST http://a/"] {
        check_with(|builder| builder, &[], &[line], &["Prepare NotPipelinable, not sent"], &[]);
    }
    check(&[], &["GET http://b/"], &["Prepare Origin, not sent"], &[]);
    check(&[], &["GET https://a/"], &["Prepare Origin, not sent"], &[]);
    check(&[], &["CONNECT http://a/"], &["Prepare NotPipelinable, not sent"], &[]);
    let set: [fn(&mut Request); 5] = [
        |request| request.body.set_stream(&b"stream"[..], Some(6)),
        |request| request.trailers.set("x", "y").unwrap(),
        |request| request.headers.set("expect", "100-continue").unwrap(),
        |request| request.headers.set("upgrade", "x").unwrap(),
        |request| request.headers.set("connection", "close").unwrap(),
    ];
    paused(async {
        let server = Server::new(&[]);
        let pipeline = server.client().pipeline("http://a").unwrap().allow_unsafe_methods(true).build();
        for set in set {
            let mut request = Request::get("/").unwrap();
            set(&mut request);
            let error = pipeline.send(&request, &mut Response::new()).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::NotPipelinable), "{error:#}");
            assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, false));
        }
        assert_eq!(server.received().len(), 0);
    });
}

/// It is safe, so it shares a connection, and idempotent, so it is sent again with its content (RFC 10008 §2).
#[test]
fn a_query_shares_a_connection_and_is_sent_again_rfc9112_9_3_2() {
    check_with(
        |builder| builder,
        &[&[Read(1), Write(A), Read(1), Write(LAST)], &[Read(1), Write(C)]],
        &["GET /1", "QUERY /2", "QUERY /3"],
        &["200 a", "203 l", "202 c"],
        &["GET /1, QUERY /2", "QUERY /3"],
    );
}

#[test]
fn the_response_to_a_caller_that_has_gone_is_dropped_in_its_place() {
    // The caller goes before any response has come, or in the middle of the first.
    const SCRIPTS: [&[Script]; 2] = [
        &[&[Read(1), Write(A), Read(3), Wait(2), Write(A), Write(B), Write(C), Read(1), Write(LAST)]],
        &[&[
            Read(1),
            Write(A),
            Read(3),
            Write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nx"),
            Wait(2),
            Write("yz"),
            Write(B),
            Write(C),
            Read(1),
            Write(LAST),
        ]],
    ];
    for (scripts, first) in SCRIPTS.into_iter().zip(["200 a", "200 xyz"]) {
        for gone in 0..3 {
            paused(async {
                let server = Server::new(scripts);
                let pipeline = server.client().pipeline("http://a").unwrap().build();
                assert_eq!(ask(&pipeline, &["GET /0"]).await, ["200 a"]);
                let mut expected = [first, "201 b", "202 c"];
                expected[gone] = "gone";
                let told = ask_but_one_goes(&pipeline, &["GET /1", "GET /2", "GET /3"], Some(gone)).await;
                assert_eq!(told, expected);
                assert_eq!(ask(&pipeline, &["GET /4"]).await, ["203 l"], "{gone} has gone");
                assert_eq!(server.received(), ["GET /0, GET /1, GET /2, GET /3, GET /4"]);
                assert_eq!(pipeline.in_flight(), 0);
            });
        }
    }
}

#[test]
fn a_request_that_nobody_waits_for_is_not_sent() {
    paused(async {
        let server = Server::new(&[&[Read(1), Wait(2), Write(A), Read(1), Write(B)]]);
        let pipeline = server.client().pipeline("http://a").unwrap().build();
        let told = ask_but_one_goes(&pipeline, &["GET /1", "GET /2", "GET /3"], Some(1)).await;
        assert_eq!(told, ["200 a", "gone", "201 b"]);
        assert_eq!(server.received(), ["GET /1, GET /3"]);
    });
    // Nor is it sent again, when its connection ends.
    paused(async {
        let server =
            Server::new(&[&[Read(1), Write(A), Read(2), Wait(2), Write(LAST)], &[Read(1), Write(B)]]);
        let pipeline = server.client().pipeline("http://a").unwrap().build();
        assert_eq!(ask(&pipeline, &["GET /0"]).await, ["200 a"]);
        assert_eq!(ask_but_one_goes(&pipeline, &["GET /1", "GET /2"], Some(1)).await, ["203 l", "gone"]);
        assert_eq!(ask(&pipeline, &["GET /3"]).await, ["201 b"]);
        assert_eq!((server.received()[1].as_str(), pipeline.in_flight()), ("GET /3", 0));
    });
}

#[test]
fn the_deadline_of_a_caller_does_not_end_the_connection() {
    paused(async {
        let server = Server::new(&[&[Read(1), Write(A), Read(1), Hang]]);
        let client = server.client().with_timeout(Duration::from_secs(3));
        let pipeline = client.pipeline("http://a").unwrap().in_flight_max(1).build();
        assert_eq!(ask(&pipeline, &["GET /1"]).await, ["200 a"]);
        let told = ask(&pipeline, &["GET /2", "GET /3"]).await;
        assert_eq!(told, ["Wait TimedOut, sent", "Queue TimedOut, not sent"]);
        assert_eq!((server.received().len(), pipeline.in_flight()), (1, 1), "its response is still owed");
    });
    const SILENT: [(&[Script], bool); 2] =
        [(&[&[Read(1), Hang]], false), (&[&[Read(1), Write(A), Read(1), Hang]], true)];
    for (scripts, is_reused) in SILENT {
        paused(async {
            let client = Server::new(scripts).client().with_timeout(Duration::from_secs(3));
            let (pipeline, mut response) = (client.pipeline("http://a").unwrap().build(), Response::new());
            let request = request("GET /");
            if is_reused {
                pipeline.send(&request, &mut response).await.unwrap();
            }
            let error = pipeline.send(&request, &mut response).await.unwrap_err();
            assert_eq!((error.is_timeout(), error.is_sent(), error.is_reused()), (true, true, is_reused));
        });
    }
}

#[test]
fn row_78_unsolicited_bytes_are_never_a_response_rfc9112_9_2() {
    const A_AND_MORE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 204 Stray\r\n\r\n";
    check(
        &[&[Read(1), Write(A_AND_MORE), Hang], &[Read(1), Write(C)]],
        &["GET /1", "GET /2"],
        &["200 a", "202 c"],
        &["GET /1", "GET /2"],
    );
    for (stray, connections) in [("", 1), ("x", 2), (B, 2), ("\r\n", 2)] {
        paused(async move {
            let scripts: &[Script] = match stray {
                "" => &[&[Read(1), Write(A), Read(1), Write(C)]],
                "x" => &[&[Read(1), Write(A), Write("x"), Hang], &[Read(1), Write(C)]],
                "\r\n" => &[&[Read(1), Write(A), Write("\r\n"), Hang], &[Read(1), Write(C)]],
                _ => &[&[Read(1), Write(A), Write(B), Hang], &[Read(1), Write(C)]],
            };
            let server = Server::new(scripts);
            let pipeline = server.client().pipeline("http://a").unwrap().build();
            assert_eq!(ask(&pipeline, &["GET /1"]).await, ["200 a"]);
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(ask(&pipeline, &["GET /2"]).await, ["202 c"], "{stray:?}");
            assert_eq!(server.received().len(), connections, "{stray:?}");
        });
    }
}

#[test]
fn no_more_than_the_limit_are_in_flight_and_callers_come_in_turn() {
    check_with(
        |builder| builder.in_flight_max(2),
        // A server that waits for three would wait for ever.
        &[&[Read(1), Write(A), Read(2), Write(B), Write(B), Read(1), Write(C)]],
        &["GET /1", "GET /2", "GET /3", "GET /4"],
        &["200 a", "201 b", "201 b", "202 c"],
        &["GET /1, GET /2, GET /3, GET /4"],
    );
}

#[test]
fn a_second_connection_is_opened_when_the_first_is_busy() {
    const BOTH: &[Script] =
        &[&[Read(1), Write(A), Read(1), Write(A)], &[Read(1), Write(B), Read(1), Write(B)]];
    check_with(
        |builder| builder.connections(2),
        BOTH,
        &["GET /1", "GET /2", "GET /3", "GET /4"],
        &["200 a", "201 b", "200 a", "201 b"],
        &["GET /1, GET /3", "GET /2, GET /4"],
    );
    paused(async {
        let server = Server::new(BOTH);
        let pipeline = server.client().pipeline("http://a").unwrap().connections(2).build();
        for _ in 0..2 {
            assert_eq!(ask(&pipeline, &["GET /"]).await, ["200 a"]);
        }
        assert_eq!(server.received(), ["GET /, GET /"]);
    });
}

/// The first dial succeeds. Each further one takes so long, and then fails.
#[derive(Clone)]
struct OneConnection(Duration, Arc<AtomicUsize>);

impl Dialer for OneConnection {
    type Stream = DuplexStream;

    async fn dial(&self, _host: &str, _port: u16) -> io::Result<DuplexStream> {
        if self.1.fetch_add(1, Ordering::Relaxed) > 0 {
            sleep(self.0).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 16);
        tokio::spawn(async move {
            let mut peer = Peer::new(far, Received::default());
            while peer.request().await?.is_some() {
                sleep(Duration::from_millis(20)).await;
                peer.send(OK).await?;
            }
            io::Result::Ok(())
        });
        Ok(near)
    }
}

/// Callers of a connection that cannot be opened do not starve beside one that is always busy.
#[test]
fn requests_share_the_connection_that_is_there() {
    const LONG: Duration = Duration::from_secs(100);
    for (fails_after, failures_max) in [(LONG, 0), (Duration::from_millis(20), 5)] {
        paused(async {
            let client = Client::builder().dialer(OneConnection(fails_after, Arc::default())).build();
            let pipeline = client.pipeline("http://a").unwrap().connections(2).build();
            assert_eq!(ask(&pipeline, &["GET /"]).await, ["200 ok"]);
            let mut callers = JoinSet::new();
            for _ in 0..10 {
                let pipeline = pipeline.clone();
                callers.spawn(async move {
                    let (begin, mut answered, mut failed) = (Instant::now(), 0, 0);
                    let mut longest = Duration::ZERO;
                    while begin.elapsed() < Duration::from_secs(3) {
                        let asked = Instant::now();
                        match pipeline.send(&request("GET /"), &mut Response::new()).await {
                            Ok(()) => answered += 1,
                            Err(_) => failed += 1,
                        }
                        longest = longest.max(asked.elapsed());
                    }
                    (answered, failed, longest)
                });
            }
            for (answered, failed, longest) in callers.join_all().await {
                let told = format!("{answered} answered, {failed} failed, at most {longest:?}");
                assert!(answered >= 5 && failed <= failures_max, "{fails_after:?}: {told}");
                assert!(longest < Duration::from_millis(700), "{fails_after:?}: {told}");
            }
        });
    }
}

#[test]
fn requests_that_come_together_leave_in_one_write() {
    paused(async {
        let (near, mut far) = duplex(1 << 16);
        let near = Arc::new(Mutex::new(Some(near)));
        struct Once(Arc<Mutex<Option<DuplexStream>>>);
        impl Dialer for Once {
            type Stream = DuplexStream;

            async fn dial(&self, _host: &str, _port: u16) -> io::Result<DuplexStream> {
                self.0.lock().unwrap().take().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
            }
        }
        let pipeline = Client::builder().dialer(Once(near)).build().pipeline("http://a").unwrap().build();
        let callers = tokio::spawn(async move { ask(&pipeline, &["GET /"; 9]).await });
        let mut received = vec![0; 1 << 16];
        let reads = async {
            let first = far.read(&mut received).await.unwrap();
            far.write_all(A.as_bytes()).await.unwrap();
            let rest = far.read(&mut received).await.unwrap();
            far.write_all(A.repeat(8).as_bytes()).await.unwrap();
            (first, rest)
        };
        let (first, rest) = reads.await;
        assert_eq!(rest, 8 * first, "eight requests are one write");
        assert_eq!(callers.await.unwrap(), ["200 a"; 9]);
    });
}

/// If the pipeline kept it for as long as it may be idle, or opened one though another is idle, a host that may have
/// one connection would have two, or nobody else any.
#[test]
fn a_connection_with_nothing_in_flight_belongs_to_the_client() {
    paused(async {
        let server = Server::new(&[&[
            Read(1),
            Write(A),
            Read(1),
            Write(B),
            Read(2),
            Write(A),
            Write(C),
            Read(1),
            Write(B),
            Hang,
        ]]);
        let (client, start) = (
            server
                .builder()
                .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
                .build(),
            tokio::time::Instant::now(),
        );
        let pipelines = [(); 2].map(|()| client.pipeline("http://a").unwrap().build());
        assert_eq!(client.get("http://a/1").await.unwrap().body.bytes(), b"a");
        assert_eq!(ask(&pipelines[0], &["GET /2"]).await, ["201 b"]);
        assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1));
        // It has answered, so that two may be asked at once: this server waits for both.
        assert_eq!(ask(&pipelines[1], &["GET /3", "GET /4"]).await, ["200 a", "202 c"]);
        assert_eq!(client.get("http://a/5").await.unwrap().body.bytes(), b"b");
        assert_eq!(server.received(), ["GET /1, GET /2, GET /3, GET /4, GET /5"]);
        assert_eq!(start.elapsed(), Duration::ZERO);
        client.close_idle();
        assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0));
    });
}

/// When the first has waited for long enough, those that came later must not fail with it.
#[test]
fn each_request_waits_for_a_place_as_long_as_it_may() {
    paused(async {
        let server = Server::new(&[&[
            Read(1),
            Write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx"),
            Wait(4),
            Write("y"),
            Read(1),
            Write(B),
            Hang,
        ]]);
        let timeouts = ClientTimeouts { queue: Duration::from_secs(3), ..timeouts() };
        let client = server
            .builder()
            .timeouts(timeouts)
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build();
        let pipeline = client.pipeline("http://a").unwrap().build();
        let ask_at = |seconds, line| ask_at(&pipeline, seconds, line);
        let (slow, first, second) =
            tokio::join!(client.get("http://a/0").into_future(), ask_at(0, "GET /1"), ask_at(2, "GET /2"));
        assert_eq!(slow.unwrap().body.bytes(), b"xy");
        assert_eq!([&*first, &*second], ["Queue TimedOut, not sent", "201 b"]);
    });
    // The failure of the first gives the second no more time.
    paused(async {
        let server = Server::new(&[&[Read(1), Hang]]);
        let timeouts = ClientTimeouts { queue: Duration::from_secs(3), ..timeouts() };
        let client = server
            .builder()
            .timeouts(timeouts)
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build();
        let pipeline = client.pipeline("http://a").unwrap().build();
        let start = tokio::time::Instant::now();
        let told = async {
            let told = tokio::join!(ask_at(&pipeline, 0, "GET /1"), ask_at(&pipeline, 2, "GET /2"));
            assert_eq!([told.0, told.1], ["Queue TimedOut, not sent"; 2]);
            start.elapsed().as_secs()
        };
        assert_eq!(tokio::join!(client.get("http://a/0").into_future(), told).1, 2 + 3);
    });
}

/// Its pipe must not ask for the time over and over: with a clock that is paused, that is for ever.
#[test]
fn a_request_may_wait_until_a_part_of_a_millisecond() {
    paused(async {
        let server = Server::new(&[&[Read(1), Hang]]);
        let timeouts = ClientTimeouts { queue: Duration::from_secs(3), ..timeouts() };
        let pipeline = server.builder().timeouts(timeouts).build().pipeline("http://a").unwrap().build();
        let third = async {
            settle().await;
            tokio::time::advance(Duration::from_micros(300)).await;
            ask(&pipeline, &["GET /3"]).await
        };
        let (others, third) = tokio::join!(ask(&pipeline, &["GET /1", "GET /2"]), third);
        assert_eq!(others, ["Wait TimedOut, sent", "Queue TimedOut, not sent"]);
        assert_eq!(third, ["Queue TimedOut, not sent"]);
    });
}

/// It was in flight, and waits anew for its turn on the next connection.
#[test]
fn a_request_that_is_sent_again_has_all_of_its_time_to_wait() {
    paused(async {
        let server = Server::new(&[
            &[Read(1), Write(A), Read(3), Wait(6), Write(LAST), Hang],
            &[Read(1), Wait(6), Write(B), Read(1), Write(C)],
        ]);
        let timeouts = ClientTimeouts { queue: Duration::from_secs(10), ..timeouts() };
        let pipeline = server.builder().timeouts(timeouts).build().pipeline("http://a").unwrap().build();
        let told = ask(&pipeline, &["GET /1", "GET /2", "GET /3", "GET /4"]).await;
        assert_eq!(told, ["200 a", "203 l", "201 b", "202 c"]);
    });
}

/// It waits as if it had never been in flight: its caller learns that, and if it goes, the request is not sent again.
#[test]
fn a_request_that_was_put_back_waits_in_the_queue() {
    const ALONE: Script = &[Read(1), Wait(5), Write(C), Read(1), Write(A), Hang];
    let says_so: &[Script] = &[&[Read(1), Write(A), Read(3), Write(LAST)], ALONE];
    let just_ends: &[Script] = &[&[Read(1), Write(A), Read(3), Write(LONGER)], ALONE];
    for (scripts, second, fourth) in
        [(says_so, "203 l", "Queue TimedOut, not sent"), (just_ends, "200 xy", "Queue TimedOut, sent")]
    {
        paused(async {
            let server = Server::new(scripts);
            let client = server.client().with_timeout(Duration::from_secs(3));
            let pipeline = client.pipeline("http://a").unwrap().build();
            let told = ask(&pipeline, &["GET /1", "GET /2", "GET /3", "GET /4"]).await;
            assert_eq!(told, ["200 a", second, "Wait TimedOut, sent", fourth]);
            assert_eq!(pipeline.in_flight(), 1, "one response is still to come");
            assert_eq!(ask(&pipeline, &["GET /5"]).await, ["200 a"]);
            assert_eq!(server.received()[1], "GET /3, GET /5");
        });
    }
}

/// The facts of one request are not reported of the next.
#[test]
fn a_request_is_not_sent_because_the_one_before_it_was() {
    paused(async {
        let server = Server::new(&[&[Read(1), Write(A), Read(1)], &[Read(1), Write(B)]]);
        let pipeline = server.client().pipeline("http://a").unwrap().build();
        let mut told = Vec::new();
        for line in ["GET /1", "GET /2", "GET /3"] {
            told.push(ask_at(&pipeline, 1, line).await);
        }
        assert_eq!(told, ["200 a", "201 b", "Connect Io, not sent"]);
        assert_eq!(server.received(), ["GET /1, GET /2", "GET /2", ""]);
    });
}

/// When the time of a request comes that waits no more, the task of the pipe would not find what had woken it, and look
/// for ever.
#[test]
fn the_time_of_a_request_that_waits_no_more_is_that_of_no_other() {
    paused(async {
        let server = Server::new(&[&[Read(1), Wait(30), Write(A), Read(1), Write(B), Hang]]);
        let timeouts = ClientTimeouts { wait: Duration::from_secs(60), ..timeouts() };
        let pipeline = server.builder().timeouts(timeouts).build().pipeline("http://a").unwrap().build();
        let goes = tokio::time::timeout(Duration::from_secs(5), ask_at(&pipeline, 1, "GET /1"));
        let (slow, gone, last) =
            tokio::join!(ask_at(&pipeline, 0, "GET /0"), goes, ask_at(&pipeline, 15, "GET /2"));
        assert_eq!((&*slow, gone.is_err(), &*last), ("200 a", true, "201 b"));
        assert_eq!(server.received(), ["GET /0, GET /2"]);
    });
}

#[test]
fn the_task_of_a_pipe_ends_with_its_pipeline_or_when_idle() {
    paused(async {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let server =
            Server::new(&[&[Read(1), Write(A), Read(1)], &[Read(1), Write(B), Read(1), Write(C), Read(1)]]);
        let client = server.client();
        let pipeline = client.pipeline("http://a").unwrap().build();
        assert_eq!(ask(&pipeline, &["GET /1"]).await, ["200 a"]);
        assert_eq!(tasks(), 3, "the pipe, the server, and who looks after what rests");
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!((client.busy_connections(), client.idle_connections(), tasks()), (0, 0, 0));
        for response in ["201 b", "202 c"] {
            assert_eq!(ask(&pipeline, &["GET /2"]).await, [response]);
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(tasks(), 3, "it has not been idle for long");
        }
        drop(pipeline);
        tokio::task::yield_now().await;
        assert_eq!((client.busy_connections(), client.idle_connections(), tasks()), (0, 1, 2));
    });
}

#[cfg(feature = "compress")]
#[test]
fn each_coded_response_is_decoded_by_itself() {
    let listener = corehttp::net::MemoryListener::new();
    let client = Client::builder().connect_to(&listener).decode_up_to(1 << 20).build();
    let handler =
        corehttp::middleware::wrap(corehttp::middleware::Compress::new(), |ctx: &mut corehttp::Context| {
            let text = if ctx.request.path() == "/long" { "long ".repeat(1000) } else { "short".to_owned() };
            ctx.response.set_text(text);
        });
    let server = corehttp::Server::bind(listener).cores(1).start(handler).unwrap();
    let pipeline = client.pipeline("http://a").unwrap().build();
    let lines = ["GET /long", "GET /short", "HEAD /long", "GET /long", "GET /short"];
    let told = corehttp::block_on(ask(&pipeline, &lines)).unwrap();
    let long = format!("200 {}", "long ".repeat(1000));
    assert_eq!(told, [&long, "200 short", "200 ", &long, "200 short"]);
    server.stop(Duration::ZERO);
    server.wait().unwrap();
}

/// Remembers one cookie for each URL.
#[derive(Default)]
struct Cookies(Mutex<Vec<(String, String)>>);

impl corehttp::client::CookieStore for Cookies {
    fn cookie_header(&self, target: &corehttp::Target) -> Option<Vec<u8>> {
        let cookies = self.0.lock().unwrap();
        cookies.iter().find(|(url, _)| url == target.as_str()).map(|(_, cookie)| cookie.clone().into_bytes())
    }

    fn store(&self, target: &corehttp::Target, headers: &corehttp::Headers) {
        let cookie = headers.get("set-cookie").unwrap().to_owned();
        self.0.lock().unwrap().push((target.as_str().to_owned(), cookie));
    }
}

#[test]
fn cookies_are_kept_and_given_back() {
    let listener = corehttp::net::MemoryListener::new();
    let client = Client::builder().connect_to(&listener).cookie_store(Arc::new(Cookies::default())).build();
    let handler = |ctx: &mut corehttp::Context| -> corehttp::Result {
        let cookie = ctx.request.headers.get("cookie").unwrap_or("none").to_owned();
        ctx.response.headers.set("set-cookie", format!("at={}", ctx.request.path()))?;
        ctx.response.set_text(cookie);
        Ok(())
    };
    let server = corehttp::Server::bind(listener).cores(1).start(handler).unwrap();
    let pipeline = client.pipeline("http://a").unwrap().build();
    let told = corehttp::block_on(async {
        [ask(&pipeline, &["GET /1", "GET /2"]).await, ask(&pipeline, &["GET /2", "GET /3", "GET /1"]).await]
    });
    let expected = [vec!["200 none", "200 none"], vec!["200 at=/2", "200 none", "200 at=/1"]];
    assert_eq!(told.unwrap(), expected);
    server.stop(Duration::ZERO);
    server.wait().unwrap();
}

/// The runtime that the connection lives in ends; the pipeline goes on in another.
#[test]
fn a_pipeline_outlives_its_runtime() {
    let server = Server::new(&[&[Read(1), Write(A), Read(1), Hang], &[Read(1), Write(B), Read(1), Write(C)]]);
    let pipeline = server.client().pipeline("http://a").unwrap().build();
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let told = elsewhere.block_on(ask(&pipeline, &["GET /1"]));
    assert_eq!(told, ["200 a"]);
    // With the time of day: a clock that jumps would not wait for the other thread.
    let told = corehttp::block_on(async {
        let asking = ask(&pipeline, &["GET /2"]);
        let ending = async {
            while server.received()[0].len() < "GET /1, GET /2".len() {
                tokio::task::yield_now().await;
            }
            elsewhere.shutdown_background();
        };
        tokio::join!(asking, ending).0
    });
    assert_eq!(told.unwrap(), ["Wait NoRuntime, sent"]);
    assert_eq!(paused(ask(&pipeline, &["GET /3", "GET /4"])), ["201 b", "202 c"]);
    assert_eq!(pipeline.in_flight(), 0);
}

/// No task would send it any more, and its caller would wait for ever.
#[test]
fn a_request_that_waits_fails_when_the_runtime_of_its_pipe_ends() {
    let server = Server::new(&[&[Read(1), Hang]]);
    let pipeline = server.client().pipeline("http://a").unwrap().build();
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = pipeline.clone();
    elsewhere.spawn(async move { ask(&first, &["GET /1"]).await });
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = here.block_on(async {
        while server.received() != ["GET /1"] {
            tokio::task::yield_now().await;
        }
        let ending = async {
            while pipeline.in_flight() < 2 {
                tokio::task::yield_now().await;
            }
            elsewhere.shutdown_background();
        };
        let asking = tokio::time::timeout(Duration::from_secs(60), ask(&pipeline, &["GET /2"]));
        tokio::join!(asking, ending).0
    });
    assert_eq!(told.expect("it is told"), ["Queue NoRuntime, not sent"]);
}

/// A server that closes whenever it likes, with and without saying so, is never noticed.
#[tokio::test]
async fn a_server_that_closes_at_random_is_never_noticed() {
    const CLOSE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let server = Scripted::new(|mut peer, number| async move {
        for _ in 0..1 + number * 7919 % 13 {
            if peer.request().await?.is_none() {
                return Ok(());
            }
            peer.send(OK).await?;
        }
        if number % 2 == 0 && peer.request().await?.is_some() {
            peer.send(CLOSE).await?;
        }
        Ok(())
    })
    .await;
    let pipeline = Client::new().pipeline(&server.url).unwrap().connections(2).build();
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let pipeline = pipeline.clone();
        callers.spawn(async move {
            let (request, mut response) = (Request::get("/").unwrap(), Response::new());
            for _ in 0..100 {
                pipeline.send(&request, &mut response).await.unwrap();
                assert_eq!(response.body.bytes(), b"ok");
            }
        });
    }
    callers.join_all().await;
    assert!(server.connections() > 100, "{} connections", server.connections());
}
