//! Random histories of connections: whatever peers send, however it is cut, and whatever handlers do, each request gets
//! what RFC 9110 and RFC 9112, read plainly, owe it.

mod request;

use std::panic::resume_unwind;
use std::str::from_utf8;
use std::time::Duration;

use corehttp::{BodyPlan, Context, Handler, Headers, Limits, Server, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::request::{Body, Fault, Route, Step};
use crate::oracle::server::{CHOICES, may_refuse};
use crate::oracle::{Next, Reader};
use crate::support::Served;
use crate::support::chance::check_histories;
use crate::support::chunks::content;
use crate::support::connection_option::ConnectionOption;
use crate::support::responses::{ReceivedResponse, take_response};
use crate::support::wired::{Then, Wired};

#[test]
fn every_request_of_a_random_history_is_answered_as_it_should_be() {
    let served = Served::with(settings, Application);
    check_histories("it histories", (300, 8), Step::draw, |steps| {
        // Memory passes from one connection to the next, and a history begins without any.
        let wired = Wired::with(settings, Application);
        for connection in steps.chunk_by(|_, next| !next.is_first) {
            let (steps, then) = sent(connection);
            let packets = packets(&steps);
            check_read(&packets.concat(), &steps);
            let cut: Vec<&[u8]> = packets.iter().map(String::as_bytes).collect();
            check(&wired.ask(&cut, then), &steps, then, Way::Cut);
            check(&served.ask(packets.concat()), &steps, Then::Ends, Way::Whole);
        }
    });
}

/// Small limits, which are often exceeded.
fn settings(server: Server) -> Server {
    let limits = Limits {
        request_line_max: 80,
        fields_max: 12,
        body_max: BODY_MAX,
        drain_max: DRAIN_MAX,
        pipeline_responses_max: 3,
        pipeline_bytes_max: 500,
        ..Limits::default()
    };
    // A handler that waits in vain must not hold up the test.
    let handler = Some(Duration::from_secs(3600));
    server.limits(limits).timeouts(Timeouts { handler, ..Timeouts::default() })
}

const BODY_MAX: usize = 20_000;
const DRAIN_MAX: usize = 1_000;

/// Returns the steps that are sent, which end with a last request if none is cut short, and what the peer does then.
fn sent(steps: &[Step]) -> (Vec<Step>, Then) {
    let then = steps[0].then;
    match steps.iter().position(|step| matches!(step.fault, Fault::Cut(_))) {
        Some(at) => (steps[..=at].to_vec(), then),
        None => ([steps, &[Step::farewell()]].concat(), then),
    }
}

fn packets(steps: &[Step]) -> Vec<String> {
    let mut packets = vec![String::new()];
    for step in steps {
        for (at, octet) in step.wire().char_indices() {
            if step.cuts.contains(&at) && packets.last().is_some_and(|packet| !packet.is_empty()) {
                packets.push(String::new());
            }
            packets.last_mut().unwrap().push(octet);
        }
    }
    packets
}

/// Checks that the oracle reads what the steps mean: as many requests as are good, and then a fault.
#[track_caller]
fn check_read(wire: &str, steps: &[Step]) {
    let mut reader = Reader::new(wire.as_bytes(), CHOICES);
    for step in steps {
        let is_chunked = matches!(step.body, Body::Chunked(_));
        let refused = match (&step.fault, &step.body) {
            (Fault::Head(.., status), _) => Some(*status),
            (Fault::Cut(_), _) => Some(408),
            (Fault::None, Body::Chunked(chunks)) if chunks.is_spoiled(false) || step.version == "1.0" => {
                Some(400)
            }
            (Fault::None, _) => None,
        };
        let request = match reader.request() {
            Next::Whole(request) => request,
            next => return assert!(refused.is_some(), "request {}: {next:?} of {wire:?}", step.tag),
        };
        let told = format!("request {}: {request:?} of {wire:?}", step.tag);
        if let Some(status) = refused {
            return assert!(may_refuse(&request, status), "{told}");
        }
        assert_eq!(request.method, step.method.as_bytes(), "{told}");
        assert_eq!(request.path(), format!("/{:?}/{}", step.route, step.tag).as_bytes(), "{told}");
        assert_eq!(request.content, content(step.len()).as_bytes(), "{told}");
        assert_eq!(request.trailer("x-sum").unwrap_or_default(), step.trailer().as_bytes(), "{told}");
        assert_eq!(request.chunking.is_some(), is_chunked, "{told}");
        if !request.persists() || step.route == Route::Upgrade {
            let closes = Expected::outcome(step, None) != Outcome::Persists;
            return assert!(closes, "{told}");
        }
    }
    assert_eq!(reader.request(), Next::Nothing, "{wire:?}");
}

/// How the packets arrive.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// As they were cut.
    Cut,
    /// All at once, over TCP.
    Whole,
}

/// Checks all that was received of one connection.
#[track_caller]
fn check(received: &str, steps: &[Step], then: Then, way: Way) {
    let mut rest = received;
    for (at, step) in steps.iter().enumerate() {
        let Some(expected) = Expected::to(step, then) else { break };
        let story = format!("request {}: {received:?}", step.tag);
        let (is_told, response) = take_interim(&mut rest, step);
        let must_be_told = way == Way::Cut && step.waits() && step.route.reads() && expected.status == 200;
        assert!(if is_told { step.may_wait() } else { !must_be_told }, "100 ({is_told}), {story}");
        if expected.outcome == Outcome::Breaks {
            // A body without a length ends with the connection, in whatever way that ends.
            let may_end = step.is_to_head() || step.version == "1.0";
            assert!(response.is_none() || may_end, "a response is broken and seems whole, {story}");
            return;
        }
        let response = response.unwrap_or_else(|| panic!("no response, {story}"));
        let body = if step.is_to_head() { "" } else { &expected.body };
        assert_eq!((response.status, &*response.body), (expected.status, body), "{story}");
        let connection = match (expected.outcome, step.version) {
            (Outcome::Persists, "1.0") => Some("keep-alive"),
            (Outcome::Persists, _) => None,
            (Outcome::Switches, _) => Some("upgrade"),
            (Outcome::Closes, _) => Some("close"),
            (Outcome::Drops | Outcome::Breaks, _) => break,
        };
        assert_eq!(response.field("connection"), connection, "{story}");
        match expected.outcome {
            Outcome::Persists => {}
            Outcome::Switches => {
                let next: String = steps[at + 1..].iter().map(Step::wire).collect();
                // The bytes of the other protocol are received as text, though they may end within a character.
                let spoken = next.as_bytes().get(..SPOKEN).unwrap_or_default();
                let spoken = String::from_utf8_lossy(spoken);
                return assert_eq!(rest.trim_end_matches("<ConnectionReset>"), spoken, "{story}");
            }
            Outcome::Closes | Outcome::Drops | Outcome::Breaks => break,
        }
    }
    assert_eq!(rest, "", "nothing follows the last response: {received:?}");
}

/// Takes the response to `step`, and what comes before it. Returns whether 100 was said.
fn take_interim(rest: &mut &str, step: &Step) -> (bool, Option<ReceivedResponse>) {
    let (mut is_told, mut hints) = (false, 0);
    loop {
        let response = take_response(rest, step.is_to_head());
        match response.as_ref().map_or(0, |response| response.status) {
            100 if !is_told => is_told = true,
            103 if step.route == Route::Hints && step.version != "1.0" && hints == 0 => hints += 1,
            // A 101 has no date, since it is not a final response.
            101 => return (is_told, response),
            _ => {
                response.iter().for_each(ReceivedResponse::check);
                return (is_told, response);
            }
        }
    }
}

/// The response that a request must get, and what becomes of its connection.
struct Expected {
    status: u16,
    body: String,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Persists,
    /// Closes, and the response says so.
    Closes,
    /// Closes, because of a fault behind the response.
    Drops,
    /// The response breaks off.
    Breaks,
    /// Goes on in another protocol.
    Switches,
}

impl Expected {
    /// Nothing, if nothing of the request is sent.
    fn to(step: &Step, then: Then) -> Option<Expected> {
        let (wire, head) = (step.wire(), step.head());
        let cut_short = if then == Then::Ends { 400 } else { 408 };
        let is_chunked = matches!(step.body, Body::Chunked(_));
        let fault = match (&step.fault, &step.body) {
            (Fault::Cut(_), _) if wire.trim_start_matches(['\r', '\n']).is_empty() => return None,
            (Fault::Head(.., status), _) => return Some(Expected::refusal(*status)),
            (Fault::Cut(_), _) if wire.len() < head.len() => return Some(Expected::refusal(cut_short)),
            // RFC 9112 §6.1.
            _ if step.version == "1.0" && is_chunked => return Some(Expected::refusal(400)),
            (Fault::Cut(_), _) => Some(cut_short),
            (Fault::None, Body::Chunked(chunks)) if chunks.is_spoiled(false) => Some(400),
            (Fault::None, _) => None,
        };
        let content = || format!("{}:{}:{}", step.tag, content(step.len()), step.trailer());
        let (status, body) = match (step.route, fault) {
            (route, _) if !route.streams() && step.len() > BODY_MAX => return Some(Expected::refusal(413)),
            (Route::Duplex, Some(_)) | (Route::Breaks, _) => {
                return Some(Expected { outcome: Outcome::Breaks, ..Expected::refusal(200) });
            }
            (route, Some(status)) if route.reads() && route != Route::Partly => {
                return Some(Expected::refusal(status));
            }
            (Route::Panics, _) => return Some(Expected::refusal(500)),
            (Route::Upgrade, _) => (101, String::new()),
            (Route::Echo | Route::Hints | Route::Streamed | Route::Duplex, _) => (200, content()),
            (Route::Early | Route::Partly, _) => (200, step.tag.to_string()),
            (Route::Empty, _) => (204, String::new()),
            (Route::Refused, _) => (403, "Forbidden".into()),
            (Route::Missing, _) => (404, "Not Found".into()),
        };
        Some(Expected { status, body, outcome: Expected::outcome(step, fault) })
    }

    /// RFC 9112 §9.3.
    fn outcome(step: &Step, fault: Option<u16>) -> Outcome {
        let is_old = step.version == "1.0";
        let is_unread = !step.route.reads() && step.len() > DRAIN_MAX;
        match (&step.body, step.connection.1) {
            _ if step.route == Route::Upgrade => Outcome::Switches,
            (_, ConnectionOption::Close) => Outcome::Closes,
            (_, ConnectionOption::Absent) if is_old => Outcome::Closes,
            // Its end is the only end that HTTP/1.0 knows for content of unknown length.
            _ if is_old && step.method != "HEAD" && matches!(step.route, Route::Streamed | Route::Duplex) => {
                Outcome::Closes
            }
            // The peer may send the content that it was not told to send, or not.
            _ if step.may_wait() && !step.route.reads() => Outcome::Closes,
            (Body::Length(_), _) if is_unread => Outcome::Closes,
            _ if fault.is_some() => Outcome::Drops,
            _ => Outcome::Persists,
        }
    }

    /// An error, in a few words that are known.
    fn refusal(status: u16) -> Expected {
        let body = Status::new(status).unwrap().reason().to_owned();
        Expected { status, body, outcome: Outcome::Closes }
    }
}

impl Step {
    /// Whether the peer may wait for 100 before it sends its content (RFC 9110 §10.1.1).
    fn may_wait(&self) -> bool {
        let has_body = match self.body {
            Body::None => false,
            Body::Length(length) => length > 0,
            Body::Chunked(_) => true,
        };
        self.is_expecting && self.version != "1.0" && has_body
    }

    /// Whether it does: the packet with the end of the head has nothing of the content.
    fn waits(&self) -> bool {
        self.may_wait() && self.cuts.contains(&self.head().len())
    }

    /// Whether the server can know that the response has no content.
    fn is_to_head(&self) -> bool {
        self.method == "HEAD" && self.wire().contains("HEAD ")
    }

    fn trailer(&self) -> &str {
        match &self.body {
            Body::Chunked(chunks) => chunks.trailer.unwrap_or_default(),
            Body::None | Body::Length(_) => "",
        }
    }
}

impl Route {
    /// Whether the handler begins before the content is there.
    fn streams(self) -> bool {
        !matches!(self, Route::Echo | Route::Hints | Route::Panics | Route::Upgrade)
    }

    /// Whether content is read, by the handler or before it is called.
    fn reads(self) -> bool {
        !self.streams() || matches!(self, Route::Streamed | Route::Duplex | Route::Partly)
    }
}

/// Does what the path says.
struct Application;

impl Handler for Application {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        match ctx.request.path().split('/').nth(1) {
            Some("Refused") => BodyPlan::Refuse(Status::FORBIDDEN),
            Some("Echo" | "Hints" | "Panics" | "Upgrade") => BodyPlan::Buffer,
            _ => BodyPlan::Stream,
        }
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let path = ctx.request.path().to_owned();
        let (route, tag) = path[1..].split_once('/').unwrap();
        match route {
            "Echo" => {}
            "Hints" => ctx.send_informational(Status::EARLY_HINTS, &Headers::new()).await?,
            "Streamed" => return send_back(ctx, tag).await,
            "Duplex" => return pass_through(ctx, tag).await,
            "Empty" => {
                ctx.response.status = Status::NO_CONTENT;
                return Ok(());
            }
            "Missing" => return Err(Status::NOT_FOUND.into()),
            "Panics" => panic_quietly(),
            "Breaks" => {
                let mut out = ctx.body_writer().await?;
                out.write_all(tag.as_bytes()).await?;
                out.flush().await?;
                panic_quietly();
            }
            "Upgrade" => {
                let (mut io, mut spoken) = (ctx.upgrade("echo").await?, [0; SPOKEN]);
                io.read_exact(&mut spoken).await?;
                io.write_all(&spoken).await?;
                io.flush().await?;
                return Ok(());
            }
            // That it failed makes no difference.
            "Partly" => drop(ctx.body_reader().chunk().await),
            _ => {}
        }
        match route {
            "Echo" | "Hints" => {
                let Context { request, response, .. } = ctx;
                response.set_text(echo(tag, request.body.bytes(), &request.trailers));
            }
            _ => ctx.response.set_text(tag),
        }
        Ok(())
    }
}

/// How many octets of another protocol are spoken.
const SPOKEN: usize = 16;

fn echo(tag: &str, content: &[u8], trailers: &Headers) -> String {
    format!("{tag}:{}:{}", from_utf8(content).unwrap(), trailers.get("x-sum").unwrap_or_default())
}

async fn send_back(ctx: &mut Context, tag: &str) -> corehttp::Result {
    let (mut body, mut content) = (ctx.body_reader(), Vec::new());
    while let Some(chunk) = body.chunk().await? {
        content.extend_from_slice(chunk);
    }
    let echo = echo(tag, &content, body.trailers());
    let mut out = ctx.body_writer().await?;
    for piece in echo.as_bytes().chunks(1000) {
        out.write_all(piece).await?;
    }
    Ok(out.finish().await?)
}

async fn pass_through(ctx: &mut Context, tag: &str) -> corehttp::Result {
    let (mut body, mut out) = ctx.duplex().await?;
    out.write_all(format!("{tag}:").as_bytes()).await?;
    while let Some(chunk) = body.chunk().await? {
        out.write_all(chunk).await?;
    }
    let trailer = body.trailers().get("x-sum").unwrap_or_default();
    out.write_all(format!(":{trailer}").as_bytes()).await?;
    Ok(out.finish().await?)
}

/// Panics without a word on the console.
fn panic_quietly() -> ! {
    resume_unwind(Box::new("a panic of the application"))
}
