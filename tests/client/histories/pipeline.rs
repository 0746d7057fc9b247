//! Random histories of a pipeline: whatever servers answer, and whenever they close or callers go, each caller gets the
//! response to its own request or an error, and nothing is done twice that must not be (RFC 9112 §9.3.2).

mod server;

use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits, ClientTimeouts, Pipeline, Redirects};
use corehttp::{Client, ClientError, Request, Response};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::server::{GOOD, Seen, Server};
use super::reply::{Body, Fault, Reply, Then};
use crate::chance::{Chance, check_histories};
use crate::chunks::content;
use crate::connection_option::ConnectionOption;
use crate::support::{cancelled_after, paused};

#[test]
fn every_caller_of_a_random_history_of_a_pipeline_is_told_the_truth() {
    check_histories("client histories::pipeline", (300, 8), Step::draw, |steps| paused(play(steps)));
}

/// One call. The settings are those of the first.
#[derive(Clone, Debug)]
struct Step {
    /// Tells it from the others.
    tag: usize,
    /// How long after the one before it comes.
    pause: Duration,
    method: &'static str,
    /// How much content it has.
    len: usize,
    mode: CallMode,
    /// The responses to the first and the second attempt. Later responses are good.
    turns: [Turn; 2],
    settings: Settings,
}

/// The action of the caller.
#[derive(Clone, Copy, Debug)]
enum CallMode {
    Waits,
    /// It asks the client, whose connections are the same, and not the pipeline.
    Apart,
    /// It goes away having waited a few times, or for so long.
    Cancels(usize),
    Leaves(Duration),
}

#[derive(Clone, Debug)]
struct Turn {
    reply: Reply,
    /// How long the server takes for it, and between its packets.
    before: Duration,
    between: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    connections: usize,
    in_flight_max: usize,
    per_host_max: usize,
    timeout: Duration,
    /// How long connecting takes.
    dialing: Duration,
    /// How many bytes may be on their way.
    room: usize,
    /// Whether the server reads requests before it has answered those before them.
    is_eager: bool,
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        let method = chance.one_of(&["GET", "GET", "HEAD", "OPTIONS", "POST", "POST", "PUT", "DELETE"]);
        let has_content = matches!(method, "POST" | "PUT");
        let leaves = CallMode::Leaves(Duration::from_millis(chance.one_of(&[0, 1, 2, 10, 1000])));
        let manners = [
            CallMode::Waits,
            CallMode::Waits,
            CallMode::Waits,
            CallMode::Apart,
            CallMode::Cancels(chance.below(8)),
            leaves,
        ];
        Step {
            tag: chance.below(usize::MAX),
            pause: Duration::from_millis(chance.one_of(&[0, 0, 0, 1, 1, 3, 100, 40_000])),
            method,
            len: if has_content { chance.one_of(&[0, 300, 300]) } else { 0 },
            mode: chance.one_of(&manners),
            turns: [Turn::draw(chance), Turn::draw(chance)],
            settings: Settings {
                connections: chance.one_of(&[1, 1, 1, 2]),
                in_flight_max: chance.one_of(&[1, 3, 100, 100, 100]),
                per_host_max: chance.one_of(&[1, 2, 100, 100]),
                timeout: chance.one_of(&[LONG, LONG, LONG, Duration::from_millis(20)]),
                dialing: Duration::from_millis(chance.one_of(&[0, 0, 15])),
                room: chance.one_of(&[100, 1 << 16, 1 << 16]),
                is_eager: chance.once_in(2),
            },
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.method, &format!("http://a/{}", self.tag)).unwrap();
        if self.len > 0 {
            request.body.set_bytes(content(self.len));
        }
        request
    }

    /// The content of a good response.
    fn good(&self) -> &'static str {
        if self.method == "HEAD" { "" } else { GOOD }
    }

    fn has_body(&self, turn: usize) -> bool {
        self.turns[turn].reply.has_body(self.method)
    }

    /// All that comes before the content of a response, and the content.
    fn wire(&self, turn: usize) -> [String; 2] {
        let reply = &self.turns[turn].reply;
        let head = reply.interim() + &reply.head();
        let head = format!("{}x-turn: {} {turn}\r\n\r\n", &head[..head.len() - 2], self.tag);
        [head, if self.has_body(turn) { reply.body() } else { String::new() }]
    }

    /// Whether what is answered is no response.
    fn is_broken(&self, turn: usize) -> bool {
        let reply = &self.turns[turn].reply;
        match (reply.fault, &reply.body) {
            // Where no content can follow, it does not matter how it would be framed (RFC 9112 §6.3).
            (Fault::None | Fault::Framing(_), _) if !self.has_body(turn) => false,
            // §6.1.
            (Fault::None, Body::Chunked(it)) => reply.version == "1.0" || it.is_spoiled(true),
            (Fault::None, _) => false,
            _ => true,
        }
    }

    fn persists(&self, turn: usize) -> bool {
        self.turns[turn].reply.persists(self.method)
    }

    /// Whether this turn may end the connection without the word that would spare the requests behind it.
    fn strikes(&self, turn: usize) -> bool {
        let Reply { connection, then, .. } = &self.turns[turn].reply;
        let is_said = connection.1 == ConnectionOption::Close;
        self.is_broken(turn) || !is_said && (*then == Then::Ends || !self.persists(turn))
    }

    fn stalls(&self) -> bool {
        self.turns.iter().any(|turn| matches!(turn.reply.fault, Fault::Stalls(_)))
    }
}

impl Turn {
    fn draw(chance: &mut Chance) -> Turn {
        let mut reply = Reply::draw(chance);
        if chance.once_in(2) {
            (reply.fault, reply.then, reply.version) = (Fault::None, Then::Keeps, "1.1");
        }
        if reply.then == Then::Babbles {
            // The octets cannot be told from the response to the request behind.
            reply.then = Then::Keeps;
        }
        let ms = |chance: &mut Chance| Duration::from_millis(chance.one_of(&[0, 0, 0, 2, 2, 900]));
        Turn { reply, before: ms(chance), between: ms(chance) }
    }
}

/// Longer than any history.
const LONG: Duration = Duration::from_secs(36_000);

async fn play(steps: &[Step]) {
    let Some(Step { settings, .. }) = steps.first() else { return };
    let server = Server::new(steps);
    let timeouts = ClientTimeouts { queue: LONG, ..ClientTimeouts::default() };
    let client = Client::builder().dialer(server.clone()).timeouts(timeouts).timeout(settings.timeout);
    let client = client
        .redirects(Redirects::Return)
        .limits(ClientLimits { connections_per_host_max: settings.per_host_max, ..ClientLimits::default() })
        .build();
    let pipeline = client.pipeline("http://a").unwrap().connections(settings.connections);
    let pipeline = pipeline.in_flight_max(settings.in_flight_max).allow_unsafe_methods(true).build();
    let mut callers = JoinSet::new();
    for (at, step) in steps.iter().cloned().enumerate() {
        sleep(step.pause).await;
        server.seen(step.tag, |seen| seen.made = Some(Instant::now()));
        let (client, pipeline) = (client.clone(), pipeline.clone());
        callers.spawn(async move { (at, call(&client, &pipeline, &step).await) });
    }
    let ends = timeout(LONG / 2, callers.join_all()).await.expect("a caller waits for ever");
    // Requests of callers that went away are still answered.
    sleep(Duration::from_secs(1000)).await;
    assert_eq!((pipeline.in_flight(), client.busy_connections()), (0, 0), "something is left");
    let mut response = Response::new();
    pipeline.send(&Request::get("/farewell").unwrap(), &mut response).await.unwrap();
    assert_eq!(response.body.text().unwrap(), GOOD);
    assert_eq!(server.faults(), [""; 0]);
    let (total, answered) =
        (client.counts().total, ends.iter().filter(|end| matches!(end.1, Some(Ok(_)))).count());
    let ended = total.answered + total.failed + total.canceled;
    assert!(total.answered > answered as u64 && ended <= 1 + steps.len() as u64, "{answered}: {total:?}");
    assert!(total.dials >= total.opened && total.busy == 0, "{total:?}");
    for (at, end) in ends {
        let (step, seen) = (&steps[at], server.seen(steps[at].tag, |seen| *seen));
        assert!(
            seen.begun <= 1 || step.method != "POST",
            "call {} was received {} times",
            step.tag,
            seen.begun
        );
        match end {
            None => {}
            Some(Ok(response)) => check_response(step, seen, &response),
            Some(Err(error)) => check_error(step, seen, &error, steps),
        }
    }
}

/// How the call ends, if the caller waits for that.
async fn call(client: &Client, pipeline: &Pipeline, step: &Step) -> Option<Result<Response, ClientError>> {
    let (request, mut response) = (step.request(), Response::new());
    let sent = match step.mode {
        CallMode::Waits => Some(pipeline.send(&request, &mut response).await),
        CallMode::Apart => Some(client.send(&request, &mut response).await),
        CallMode::Cancels(polls) => cancelled_after(polls, pipeline.send(&request, &mut response)).await,
        CallMode::Leaves(after) => timeout(after, pipeline.send(&request, &mut response)).await.ok(),
    };
    sent.map(|sent| sent.map(|()| response))
}

/// It is the response to this request, and all of it.
fn check_response(step: &Step, seen: Seen, response: &Response) {
    let said = response.headers.get("x-turn").unwrap_or_default();
    let turn = said.strip_prefix(&step.tag.to_string()).map(|turn| turn.trim().parse::<usize>().unwrap());
    let turn = turn.unwrap_or_else(|| panic!("call {} was told what is meant for {said}", step.tag));
    assert!(turn < seen.begun, "call {} was told {said}", step.tag);
    let body = response.body.text().unwrap();
    let Some(Turn { reply, .. }) = step.turns.get(turn) else { return assert_eq!(body, step.good()) };
    let (mut content, trailer) = if step.has_body(turn) { reply.content() } else { Default::default() };
    match (reply.fault, &reply.body) {
        // A body that ends with its connection cannot be told from a cut one.
        (Fault::Cut(_), Body::UntilClose(_)) => content.truncate(body.len()),
        // It was there before the server fell silent.
        (Fault::Cut(_) | Fault::Stalls(_), _) if content.is_empty() => {}
        _ => assert!(!step.is_broken(turn), "call {} was told what is no response", step.tag),
    }
    let told = (response.status.as_u16(), body, response.trailers.get("x-sum").unwrap_or_default());
    assert_eq!(told, (reply.status, &*content, trailer), "call {}", step.tag);
}

/// It does not hide that the server may have acted on the request, and there is a reason for it.
fn check_error(step: &Step, seen: Seen, error: &ClientError, steps: &[Step]) {
    assert!(error.is_sent() || seen.begun == 0, "call {} was received: {error:?}", step.tag);
    let others = || steps.iter().filter(|other| other.tag != step.tag);
    let strikes: usize = others().map(|it| (0..2).filter(|turn| it.strikes(*turn)).count()).sum();
    // A request that may be repeated is, even if it was the first in line.
    let spared = if step.method == "POST" { 0 } else { 1 };
    let is_own = step.is_broken(0) || step.is_broken(1);
    let is_others = strikes > spared || others().any(Step::stalls);
    let is_late = error.is_timeout() && steps[0].settings.timeout < LONG;
    assert!(is_own || is_others || is_late, "call {} failed without a reason: {error:?}", step.tag);
    let is_blamed = !matches!(error.cause(), ClientCause::PipelineBroken) || strikes > 0;
    assert!(is_blamed, "call {} failed because of another, which did not: {error:?}", step.tag);
}
