//! Random histories of calls: whatever servers answer, however it is cut, and whenever they close, each call gets its
//! own response or the error that is due, and the next call is not troubled by it.

mod balance;
mod dialing;
mod pipeline;
mod policies;
mod reply;
mod retries;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, HostCounts, Redirects};
use corehttp::error::ExchangeError;
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::DuplexStream;

use self::reply::{Body, Fault, Reply, Then};
use crate::chance::{Chance, check_histories};
use crate::chunks::content;
use crate::counts::check_ends;
use crate::oracle::client::{self, Call, LIMITS};
use crate::support::{Metered, Peer, Stage, cancelled_after, paused, settle};

#[test]
fn every_call_of_a_random_history_ends_as_it_should() {
    check_histories("client histories", (60, 10), Step::draw, |steps| paused(play(steps)));
}

/// One call.
#[derive(Clone, Debug)]
struct Step {
    /// Tells it from the others.
    tag: usize,
    method: &'static str,
    /// How much content it has, whether that is a stream, and whether it waits for 100.
    len: usize,
    is_stream: bool,
    is_expecting: bool,
    mode: CallMode,
    reply: Reply,
}

/// The action of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CallMode {
    /// It waits for all of the response.
    Sends,
    /// It reads the content in pieces, to its end.
    Streams,
    /// It goes away having read one piece.
    Leaves,
    /// It goes away having waited a few times.
    Cancels(usize),
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        let method = chance.one_of(&["GET", "GET", "HEAD", "POST", "PUT", "DELETE"]);
        let has_content = matches!(method, "POST" | "PUT");
        let reply = Reply::draw(chance);
        let manners = [
            CallMode::Sends,
            CallMode::Sends,
            CallMode::Streams,
            CallMode::Leaves,
            CallMode::Cancels(chance.below(8)),
        ];
        Step {
            tag: chance.below(usize::MAX),
            method,
            len: if has_content { chance.one_of(&[0, 1, 300, 20_000]) } else { 0 },
            is_stream: has_content && chance.once_in(3),
            is_expecting: reply.fault == Fault::None && chance.once_in(4),
            mode: chance.one_of(&manners),
            reply,
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.method, &format!("http://a/{}", self.tag)).unwrap();
        match (self.is_stream, content(self.len)) {
            (true, content) => request.body.set_stream(io::Cursor::new(content), Some(self.len as u64)),
            (false, content) if !content.is_empty() => request.body.set_bytes(content),
            _ => {}
        }
        if self.is_expecting {
            request.headers.set("expect", "100-continue").unwrap();
        }
        request
    }

    fn has_body(&self) -> bool {
        self.reply.has_body(self.method)
    }

    fn body(&self) -> String {
        if self.has_body() { self.reply.body() } else { String::new() }
    }

    /// All that the server says, or would.
    fn wire(&self) -> String {
        self.reply.interim() + &self.reply.head() + &self.body()
    }

    /// How much of it the server says.
    fn said(&self) -> usize {
        let len = self.wire().len();
        match self.reply.fault {
            Fault::Cut(thousandths) | Fault::Stalls(thousandths) => len * thousandths / 1000,
            _ => len,
        }
    }

    /// Whether the server closes without a word.
    fn is_ignored(&self) -> bool {
        match self.reply.fault {
            Fault::Vanishes(_) => true,
            Fault::Cut(_) => self.said() == 0,
            _ => false,
        }
    }

    /// Whether the server can be asked again without harm (RFC 9110 §9.2.2).
    fn may_be_repeated(&self) -> bool {
        self.method != "POST" && !self.is_stream
    }
}

/// The server's side of one connection. `asked` is what was asked so far.
async fn serve(
    mut peer: Peer<DuplexStream>,
    steps: Arc<Vec<Step>>,
    asked: Arc<Mutex<Vec<usize>>>,
) -> io::Result<()> {
    while let Some(mut request) = peer.head().await? {
        let tag = reply::tag(&request);
        let before = {
            let mut asked = asked.lock().unwrap();
            asked.push(tag);
            asked.iter().filter(|asked| **asked == tag).count() - 1
        };
        let Some(step) = steps.iter().find(|step| step.tag == tag) else {
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nfarewell").await?;
            continue;
        };
        let interim = step.reply.interim();
        if matches!(step.reply.fault, Fault::Vanishes(times) if before < times) {
            return Ok(());
        }
        let is_waiting = request.contains("\r\nexpect: 100-continue\r\n");
        assert_eq!(is_waiting, step.is_waiting(), "{request}");
        if is_waiting {
            peer.send(&interim).await?;
        }
        if !is_waiting || step.reply.interim.contains(&100) {
            peer.content(&mut request).await?;
            assert!(request.ends_with(&content(step.len)), "{request}");
        }
        let wire = step.wire();
        let said = &wire[..step.said()];
        let said = if is_waiting { &said[interim.len()..] } else { said };
        peer.send_in_pieces(said.as_bytes(), &step.reply.cuts).await?;
        match (step.reply.fault, step.reply.then) {
            (Fault::Stalls(_), _) => return peer.receive_all().await,
            (Fault::Cut(_), _) | (_, Then::Ends) => return Ok(()),
            _ if matches!(step.reply.body, Body::UntilClose(_)) && step.has_body() => return Ok(()),
            (_, Then::Babbles) => peer.send("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nbabble").await?,
            (_, Then::Keeps) => {}
        }
    }
    Ok(())
}

async fn play(steps: &[Step]) {
    let (all, asked) = (Arc::new(steps.to_vec()), Arc::default());
    let stage = Stage::new(move |peer, _| serve(peer, Arc::clone(&all), Arc::clone(&asked)));
    let dialer = Metered::new(stage.clone());
    let client = Client::builder().dialer(dialer.clone()).redirects(Redirects::Return);
    let client = client.timeout(Duration::from_secs(60)).build();
    let mut counted = check_ends(&client);
    // Whether a connection rests that can be used again.
    let mut rests = false;
    for step in steps {
        let (tag, before) = (step.tag, stage.dialed().len());
        let end = call(&client, step).await;
        let dialed = stage.dialed().len() - before;
        settle().await;
        assert!(
            client.busy_connections() == 0 && client.idle_connections() <= 1,
            "a place is lost: call {tag}"
        );
        let before = std::mem::replace(&mut counted, check_ends(&client));
        check_counts(&before, &counted, end.as_ref());
        if let Some(end) = &end {
            assert_eq!(*end, End::from_step(step, rests), "call {tag}");
            check_read(step, end);
            let again = rests && step.may_be_repeated() && step.is_ignored();
            assert_eq!(dialed, usize::from(!rests || again), "connections dialed for call {tag}");
        }
        rests = match (end, step.mode) {
            (Some(End::Answered(..)), _) => step.persists(),
            (Some(End::Fails(..)), _) => false,
            (None, CallMode::Cancels(0)) => rests,
            // If all of it had come, it was as good as read.
            (None, CallMode::Leaves) => step.persists() && client.idle_connections() == 1,
            (None, _) => false,
        };
        assert!(!rests || client.idle_connections() == 1, "a good connection is lost: call {tag}");
    }
    let (before, farewell) = (stage.dialed().len(), client.get("http://a/farewell").await.unwrap());
    assert_eq!(farewell.body.text().unwrap(), "farewell");
    assert_eq!(stage.dialed().len() - before, usize::from(!rests), "connections dialed for the farewell");
    assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
    let (total, (read, written)) = (check_ends(&client).clone(), dialer.traffic());
    // A byte that was sent unasked is read, to see that there is one, and is not received.
    assert!(total.sent == written && total.received <= read && read - total.received <= total.dials);
}

/// Checks that the call was counted as what it was.
fn check_counts(before: &HostCounts, after: &HostCounts, end: Option<&End>) {
    let grown = |count: fn(&HostCounts) -> u64| count(after) - count(before);
    let ended = [grown(|it| it.answered), grown(|it| it.failed), grown(|it| it.canceled)];
    let in_phase = match end {
        Some(End::Fails(ClientPhase::Wait, _)) => grown(|it| it.wait.failed),
        Some(End::Fails(ClientPhase::Receive, _)) => grown(|it| it.receive.failed),
        _ => 1,
    };
    assert_eq!(in_phase, 1, "it failed in another phase");
    match end {
        Some(End::Answered(..)) => assert_eq!(ended, [1, 0, 0]),
        Some(End::Fails(..)) => assert_eq!(ended, [0, 1, 0]),
        None => assert!(ended.iter().sum::<u64>() <= 1, "{ended:?}"),
    }
}

/// Checks that the oracle reads the same of what the server said.
fn check_read(step: &Step, end: &End) {
    let (wire, reply) = (step.wire(), &step.reply);
    let is_closed = match (reply.fault, reply.then) {
        (Fault::Stalls(_), _) => false,
        (Fault::Cut(_), _) | (_, Then::Ends) => true,
        _ => matches!(reply.body, Body::UntilClose(_)) && step.has_body(),
    };
    let why = format!("{end:?}");
    let outcome = match end {
        // Then the server has said nothing.
        End::Fails(..) if matches!(reply.fault, Fault::Vanishes(_)) => return,
        End::Answered(status, content, _) => Ok((*status, content.as_bytes(), step.persists())),
        End::Fails(..) => Err(&*why),
    };
    let said = &wire.as_bytes()[..step.said()];
    client::check(Call { method: step.method, wire: said, is_closed, limits: LIMITS }, outcome);
}

/// How the call ends, if the caller waits for that.
async fn call(client: &Client, step: &Step) -> Option<End> {
    let (request, mut response) = (step.request(), Response::new());
    let ended = match step.mode {
        CallMode::Sends => Some(client.send(&request, &mut response).await),
        CallMode::Cancels(polls) => cancelled_after(polls, client.send(&request, &mut response)).await,
        CallMode::Streams => Some(stream(client, &request, &mut response).await),
        CallMode::Leaves => {
            if let Ok(mut reader) = client.open_response(&request, &mut response).await {
                let _ = reader.chunk().await;
            }
            None
        }
    };
    let trailer = || response.trailers.get("x-sum").unwrap_or_default().to_owned();
    Some(match ended? {
        Ok(()) => End::Answered(response.status.as_u16(), response.body.text().unwrap().into(), trailer()),
        Err(error) => End::Fails(error.phase(), Why::from_error(&error)),
    })
}

/// Reads the content in pieces, into `response`.
async fn stream(client: &Client, request: &Request, response: &mut Response) -> Result<(), ClientError> {
    let (mut reader, mut content) = (client.open_response(request, response).await?, Vec::new());
    while let Some(piece) = reader.chunk().await? {
        content.extend_from_slice(piece);
    }
    response.body.set_bytes(content);
    response.trailers = reader.trailers().clone();
    Ok(())
}

/// How a call ends.
#[derive(Debug, PartialEq)]
enum End {
    /// With this status, content and trailer.
    Answered(u16, String, String),
    Fails(ClientPhase, Why),
}

#[derive(Debug, PartialEq)]
enum Why {
    Closed,
    Incomplete,
    Invalid,
    Interim,
    Upgrade,
    Late,
    Other(String),
}

impl Why {
    fn from_error(error: &ClientError) -> Why {
        match error.cause() {
            _ if error.is_timeout() => Why::Late,
            ClientCause::Closed => Why::Closed,
            ClientCause::Exchange(ExchangeError::Incomplete) => Why::Incomplete,
            ClientCause::Exchange(ExchangeError::Wire(..)) => Why::Invalid,
            ClientCause::TooManyInformational => Why::Interim,
            ClientCause::Upgrade => Why::Upgrade,
            _ => Why::Other(format!("{error:#}")),
        }
    }
}

impl End {
    /// How the call must end. `is_reused` is whether the connection has carried another one.
    fn from_step(step: &Step, is_reused: bool) -> End {
        use ClientPhase::{Receive, Wait};
        let (reply, wire) = (&step.reply, step.wire());
        let head_end = wire.len() - step.body().len();
        let (mut content, trailer) = if step.has_body() { reply.content() } else { Default::default() };
        let may_come = if is_reused && step.may_be_repeated() { 2 } else { 1 };
        let said = step.said();
        let cut = match reply.fault {
            Fault::Cut(_) => Some(Why::Incomplete),
            Fault::Stalls(_) => Some(Why::Late),
            _ => None,
        };
        let is_between = said == 0 || said <= reply.interim().len() && wire[..said].ends_with("\r\n\r\n");
        match (reply.fault, &reply.body, cut) {
            (Fault::Vanishes(times), ..) if times >= may_come => return End::Fails(Wait, Why::Closed),
            (Fault::Switches, ..) => return End::Fails(Wait, Why::Upgrade),
            (Fault::Endless, ..) => return End::Fails(Wait, Why::Interim),
            (Fault::Head(..), ..) => return End::Fails(Wait, Why::Invalid),
            // Where no content can follow, it does not matter how it would be framed (RFC 9112 §6.3).
            (Fault::Framing(_), ..) if step.has_body() => return End::Fails(Wait, Why::Invalid),
            (Fault::Cut(_), ..) if is_between => return End::Fails(Wait, Why::Closed),
            (.., Some(why)) if said < head_end => return End::Fails(Wait, why),
            // RFC 9112 §6.1.
            (_, Body::Chunked(_), _) if reply.version == "1.0" && step.has_body() => {
                return End::Fails(Wait, Why::Invalid);
            }
            // A body that ends with its connection cannot be told from a cut one.
            (Fault::Cut(_), Body::UntilClose(_), _) => content.truncate(said - head_end),
            (.., Some(why)) => return End::Fails(Receive, why),
            (_, Body::Chunked(chunks), None) if step.has_body() && chunks.is_spoiled(true) => {
                return End::Fails(Receive, Why::Invalid);
            }
            _ => {}
        }
        End::Answered(reply.status, content, trailer.into())
    }
}

impl Step {
    /// Whether another call may follow on the connection (RFC 9112 §9.3).
    fn persists(&self) -> bool {
        // Content that was not asked for was not sent, and never will be.
        let is_sent = !self.is_waiting() || self.reply.interim.contains(&100);
        self.reply.persists(self.method) && is_sent && self.reply.then == Then::Keeps
    }

    /// Whether the content waits for 100 (RFC 9110 §10.1.1).
    fn is_waiting(&self) -> bool {
        self.is_expecting && self.len > 0
    }
}
