//! Random histories of requests that a policy retries: whatever the host does, no request that it may have acted on is
//! sent twice unless that does no harm, the host gets no more than its load and the budget, and each request ends as a
//! plain model says.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientCause, Retry, RetryBudget, RetryStop};
use corehttp::net::Dialer;
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

use crate::chance::{Chance, check_histories};
use crate::support::{Peer, Received, paused};

#[test]
fn no_request_of_a_random_history_is_sent_more_often_than_it_may() {
    check_histories("client histories::retries", (200, 40), Step::draw, |steps| paused(play(steps)));
}

/// One request. The settings are those of the first.
#[derive(Clone, Debug)]
struct Step {
    method: &'static str,
    has_key: bool,
    content: Content,
    way: Way,
    /// The behavior of the host at each attempt, and at all after the last.
    attempts: Vec<Behavior>,
    settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    None,
    Bytes,
    Made,
    Stream,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sends,
    Streams,
    Opens,
}

/// How the host behaves in one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    /// It cannot be connected to.
    Refuses,
    /// It acts on the request, and closes without a response.
    Closes,
    /// It answers with this status, and perhaps with so many seconds of `retry-after`.
    Answers(u16, Option<u64>),
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    attempts_max: u32,
    percent: u32,
    is_assumed_idempotent: bool,
    retries_closed: bool,
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        use Behavior::{Answers, Closes, Refuses};
        let method = chance.one_of(&["GET", "HEAD", "POST", "POST", "PUT", "DELETE"]);
        let contents = match method {
            "POST" | "PUT" => &[Content::None, Content::Bytes, Content::Made, Content::Stream][..],
            _ => &[Content::None],
        };
        // A call whose caller writes the body is retried by other rules.
        let ways = match method {
            "POST" | "PUT" => &[Way::Sends, Way::Streams][..],
            _ => &[Way::Sends, Way::Streams, Way::Opens],
        };
        let behaviors = [
            Refuses,
            Refuses,
            Closes,
            Answers(200, None),
            Answers(200, None),
            Answers(500, Some(0)),
            Answers(502, None),
            Answers(504, Some(1)),
            Answers(503, Some(0)),
            Answers(503, Some(30)),
            Answers(503, Some(31)),
            Answers(503, None),
            Answers(429, Some(2)),
            Answers(429, None),
            Answers(408, None),
        ];
        let mut attempts = chance.some(6, |chance| chance.one_of(&behaviors));
        attempts.push(chance.one_of(&behaviors));
        Step {
            method,
            has_key: chance.once_in(4),
            content: chance.one_of(contents),
            way: chance.one_of(ways),
            attempts,
            settings: Settings {
                attempts_max: chance.one_of(&[0, 1, 2, 3, 3, 6]),
                percent: chance.one_of(&[0, 10, 10, 50, 150]),
                is_assumed_idempotent: chance.once_in(6),
                retries_closed: chance.once_in(2),
            },
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.method, "http://a/").unwrap();
        match self.content {
            Content::None => {}
            Content::Bytes => request.body.set_bytes("content"),
            Content::Made => request.body.set_stream_with(|| &b"content"[..], Some(7)),
            Content::Stream => request.body.set_stream(&b"content"[..], Some(7)),
        }
        if self.has_key {
            request.headers.set("idempotency-key", 1).unwrap();
        }
        request
    }

    fn is_idempotent(&self, settings: Settings) -> bool {
        self.method != "POST" || self.has_key || settings.is_assumed_idempotent
    }

    fn behavior(&self, attempt: usize) -> Behavior {
        self.attempts[attempt.min(self.attempts.len() - 1)]
    }

    /// How the request ends, and the seconds of the waits. `budget` is in hundredths of a retry.
    fn model(&self, settings: Settings, budget: &mut u32) -> (End, u64) {
        *budget = (*budget + settings.percent).min(10_000);
        let mut waited = 0;
        for attempt in 0.. {
            let behavior = self.behavior(attempt);
            let (may_help, asked) = match behavior {
                Behavior::Refuses => (true, 0),
                Behavior::Closes => (settings.retries_closed, 0),
                Behavior::Answers(502 | 504, asked) => (true, asked.unwrap_or(0)),
                Behavior::Answers(429 | 503, Some(asked)) => (true, asked),
                Behavior::Answers(..) => (false, 0),
            };
            let is_sent = behavior != Behavior::Refuses;
            let stop = match () {
                () if !may_help => None,
                () if attempt + 1 >= settings.attempts_max as usize => Some(RetryStop::AttemptsMax),
                () if is_sent && !self.is_idempotent(settings) => Some(RetryStop::NotIdempotent),
                () if is_sent && self.content == Content::Stream => Some(RetryStop::BodyConsumed),
                () if asked > 30 => Some(RetryStop::RetryAfter),
                () if *budget < 100 => Some(RetryStop::Budget),
                () => {
                    *budget -= 100;
                    waited += asked;
                    continue;
                }
            };
            return (End { behavior, attempts: attempt + 1, stop }, waited);
        }
        unreachable!("attempts are bounded")
    }
}

/// How a request ends.
#[derive(Debug, PartialEq)]
struct End {
    /// The behavior at the last attempt.
    behavior: Behavior,
    attempts: usize,
    stop: Option<RetryStop>,
}

/// The host of a history.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<HostState>>);

#[derive(Default)]
struct HostState {
    step: Option<Step>,
    /// The attempts at the request so far, and how often the host may have acted on it.
    attempts: usize,
    acted: usize,
}

impl Dialer for Host {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let behavior = {
            let mut state = self.0.lock().unwrap();
            state.attempts += 1;
            state.step.as_ref().unwrap().behavior(state.attempts - 1)
        };
        if behavior == Behavior::Refuses {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        tokio::spawn(self.clone().serve(Peer::new(far, Received::default()), behavior));
        Ok(near)
    }
}

impl Host {
    async fn serve(self, mut peer: Peer<DuplexStream>, behavior: Behavior) -> io::Result<()> {
        let request = peer.request().await?.unwrap();
        let has_content = {
            let mut state = self.0.lock().unwrap();
            state.acted += 1;
            state.step.as_ref().unwrap().content != Content::None
        };
        assert_eq!(request.ends_with("content"), has_content, "{request}");
        let Behavior::Answers(status, asked) = behavior else { return Ok(()) };
        let asked = asked.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        peer.send(format!("HTTP/1.1 {status} x\r\n{asked}content-length: 0\r\nconnection: close\r\n\r\n"))
            .await
    }
}

async fn play(steps: &[Step]) {
    let Some(Step { settings, .. }) = steps.first() else { return };
    let host = Host::default();
    let retries_closed = settings.retries_closed;
    let mut retry = Retry::new().attempts_max(settings.attempts_max).backoff(Duration::ZERO, Duration::ZERO);
    retry = retry.retry_if(move |outcome| {
        let is_closed = outcome.is_err_and(|error| matches!(error.cause(), ClientCause::Closed));
        Retry::is_transient(outcome) || is_closed && retries_closed
    });
    if settings.is_assumed_idempotent {
        retry = retry.assume_idempotent();
    }
    let budget = RetryBudget { percent: settings.percent, per_second: 0 };
    let client = Client::builder().dialer(host.clone()).retry(retry).retry_budget(budget).build();
    let (mut budget, mut attempts) = (0, 0);
    for step in steps {
        *host.0.lock().unwrap() = HostState { step: Some(step.clone()), ..HostState::default() };
        let (expected, seconds) = step.model(*settings, &mut budget);
        let (mut response, start) = (Response::new(), Instant::now());
        let sent = send(&client, step, &mut response).await;
        let (retries, stop) = match &sent {
            Ok(()) => (response.retries().to_vec(), response.retry_stop()),
            Err(error) => (error.retries().to_vec(), error.retry_stop()),
        };
        let behavior = match &sent {
            Ok(()) => {
                let asked = response.headers.get("retry-after").map(|asked| asked.parse().unwrap());
                Behavior::Answers(response.status.as_u16(), asked)
            }
            Err(error) if matches!(error.cause(), ClientCause::Closed) => Behavior::Closes,
            Err(_) => Behavior::Refuses,
        };
        let state = host.0.lock().unwrap();
        assert_eq!(End { behavior, attempts: state.attempts, stop }, expected);
        assert_eq!(retries.len(), state.attempts - 1);
        assert!(state.acted <= 1 || step.is_idempotent(*settings), "the host acted {} times", state.acted);
        assert!(sent.is_ok() || sent.is_err_and(|error| error.is_sent() == (state.acted > 0)));
        // Timers may be a millisecond late.
        let late = start.elapsed().checked_sub(Duration::from_secs(seconds));
        assert!(late.is_some_and(|late| late <= Duration::from_millis(10)), "{:?}", start.elapsed());
        attempts += state.attempts;
        assert_eq!(client.busy_connections(), 0);
    }
    let most = steps.len() * (100 + settings.percent as usize) / 100;
    assert!(attempts <= most, "{attempts} attempts for {} requests", steps.len());
    let total = client.counts().total;
    assert_eq!((total.retries_by_policy as usize, total.retries), (attempts - steps.len(), 0));
}

async fn send(client: &Client, step: &Step, response: &mut Response) -> Result<(), ClientError> {
    let request = step.request();
    match step.way {
        Way::Sends => client.send(&request, response).await,
        Way::Streams => client.open_response(&request, response).await.map(drop),
        Way::Opens => client.open_call(&request).await?.finish(response).await.map(drop),
    }
}
