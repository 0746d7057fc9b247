//! Random histories of a client with all of its policies at once: retries, hedges, a budget, middleware that sends again,
//! redirects and a balancer. A POST that a host may have acted on, however hosts fail and callers leave, is never
//! sent again, each caller gets its own response or an error that says whether the request was sent, and nothing is left.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::{Attempt, ClientCause, ClientMiddleware, ClientNext, Retry, RetryBudget};
use corehttp::net::Dialer;
use corehttp::{Client, ClientError, Method, Request, Response, Status};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::chance::{Chance, check_histories};
use crate::counts::check_counts;
use crate::support::{Peer, Received, paused};

#[test]
fn no_post_of_a_random_history_is_sent_again_once_a_host_may_have_acted_on_it() {
    check_histories("client histories::policies", (100, 40), Step::draw, |steps| paused(play(steps)));
}

/// One request. The settings are those of the first.
#[derive(Clone, Debug)]
struct Step {
    /// The milliseconds after the request before.
    pause: u64,
    method: &'static str,
    has_key: bool,
    content: Content,
    way: Way,
    door: Door,
    /// The milliseconds after which the caller leaves.
    patience: Option<u64>,
    /// Decides how hosts behave to this request.
    seed: u64,
    settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    None,
    Bytes,
    Made,
    /// It can be sent once.
    Stream,
    /// It fails when it is read for the second time.
    FailsLater,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sends,
    Streams,
    Opens,
}

/// The part of the client that the request is made by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Client,
    Host,
    Balancer,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    attempts_max: u32,
    percent: u32,
    hedges: bool,
    retries_closed: bool,
    middleware: Middleware,
    keeps_connections: bool,
}

/// Middleware that sends again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Middleware {
    None,
    /// If its error says that nothing was sent.
    Unsent,
    /// If the request was refused, as one with an old token is.
    Refused,
    /// If it takes longer than 20 ms and has a safe method. It drops the first future.
    Slow,
}

const HOSTS: [&str; 3] = ["a", "b", "c"];
const ATTEMPTS_MAX: usize = 4;

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        let method = chance.one_of(&["GET", "GET", "HEAD", "QUERY", "POST", "POST", "POST", "PUT", "DELETE"]);
        let contents = [Content::None, Content::Bytes, Content::Made, Content::Stream, Content::FailsLater];
        let content = match method {
            "POST" | "PUT" | "QUERY" => chance.one_of(&contents),
            _ => Content::None,
        };
        // The caller of a call with a body may have begun to write it, and no policy sends that again.
        let ways = match method {
            "POST" | "PUT" | "QUERY" => &[Way::Sends, Way::Streams][..],
            _ => &[Way::Sends, Way::Streams, Way::Opens],
        };
        Step {
            pause: chance.one_of(&[0, 0, 1, 5, 40]),
            method,
            has_key: chance.once_in(6),
            content,
            way: chance.one_of(ways),
            door: chance.one_of(&[Door::Client, Door::Client, Door::Host, Door::Balancer, Door::Balancer]),
            patience: chance.once_in(6).then(|| chance.below(60) as u64),
            seed: chance.below(usize::MAX) as u64,
            settings: Settings {
                attempts_max: chance.one_of(&[1, 2, 3, ATTEMPTS_MAX as u32]),
                percent: chance.one_of(&[0, 10, 100, 100]),
                hedges: chance.once_in(2),
                retries_closed: chance.once_in(2),
                middleware: chance.one_of(&[
                    Middleware::None,
                    Middleware::Unsent,
                    Middleware::Refused,
                    Middleware::Slow,
                ]),
                keeps_connections: !chance.once_in(3),
            },
        }
    }

    fn request(&self, id: usize) -> Request {
        let host = if self.door == Door::Client { "http://a" } else { "" };
        let mut request = Request::new(self.method, &format!("{host}/{id}/0")).unwrap();
        match self.content {
            Content::None => {}
            Content::Bytes => request.body.set_bytes("milk"),
            Content::Made => request.body.set_stream_with(|| &b"milk"[..], Some(4)),
            Content::Stream => request.body.set_stream(&b"milk"[..], Some(4)),
            Content::FailsLater => {
                let made = AtomicUsize::new(0);
                let make = move || match made.fetch_add(1, Ordering::Relaxed) {
                    0 => Source::Whole(b"milk"),
                    _ => Source::Broken,
                };
                request.body.set_stream_with(make, Some(4));
            }
        }
        if self.has_key {
            request.headers.set("idempotency-key", id).unwrap();
        }
        request
    }
}

/// A source of these bytes, or one that fails.
enum Source {
    Whole(&'static [u8]),
    Broken,
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Source::Whole(bytes) => out.put_slice(std::mem::take(bytes)),
            Source::Broken => return Poll::Ready(Err(io::Error::other("the source is broken"))),
        }
        Poll::Ready(Ok(()))
    }
}

impl ClientMiddleware for Middleware {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        match self {
            Middleware::None => next.send(attempt).await,
            Middleware::Unsent => match next.send(attempt).await {
                Err(error) if !error.is_sent() => next.send(attempt).await,
                sent => sent,
            },
            Middleware::Refused => {
                next.send(attempt).await?;
                match attempt.response().is_some_and(|response| response.status == Status::UNAUTHORIZED) {
                    true => next.send(attempt).await,
                    false => Ok(()),
                }
            }
            Middleware::Slow if attempt.request.method().is_safe() => {
                match timeout(Duration::from_millis(20), next.send(attempt)).await {
                    Ok(sent) => sent,
                    Err(_) => next.send(attempt).await,
                }
            }
            Middleware::Slow => next.send(attempt).await,
        }
    }
}

/// All hosts of a history.
#[derive(Clone)]
struct World(Arc<WorldState>);

struct WorldState {
    keeps_connections: bool,
    /// The choices for each request, and those for dials.
    chances: Vec<Mutex<Chance>>,
    dials: Mutex<Chance>,
    arrived: Mutex<HashMap<usize, Vec<Arrival>>>,
    /// How many connections are open.
    open: AtomicUsize,
}

/// A request at a host, which may have acted on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Arrival {
    method: String,
    /// The number of redirects before.
    hop: usize,
}

/// How a host behaves to a request.
#[derive(Clone, Copy)]
enum Behavior {
    Answers {
        status: u16,
        fields: &'static str,
        millis: u64,
    },
    /// Answers, and closes the connection without a word of it.
    Leaves,
    /// Closes once it has the head, or all of the request.
    ClosesEarly,
    Closes,
    /// Closes within the head of its response.
    Cuts,
    Redirects(u16),
}

impl Behavior {
    fn draw(chance: &mut Chance) -> Behavior {
        use Behavior::{Answers, Closes, ClosesEarly, Cuts, Leaves, Redirects};
        let answers = |status, fields| Answers { status, fields, millis: 5 };
        chance.one_of(&[
            answers(200, ""),
            answers(200, ""),
            answers(200, ""),
            Answers { status: 200, fields: "", millis: 90 },
            Answers { status: 200, fields: "", millis: 1_000 },
            Leaves,
            Leaves,
            answers(502, ""),
            answers(503, "retry-after: 0\r\n"),
            answers(503, "retry-after: 1\r\n"),
            answers(408, "connection: close\r\n"),
            answers(401, ""),
            ClosesEarly,
            Closes,
            Cuts,
            Redirects(302),
            Redirects(303),
            Redirects(307),
            Redirects(308),
        ])
    }
}

impl Dialer for World {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _: u16) -> io::Result<DuplexStream> {
        assert!(HOSTS.contains(&host), "{host}");
        let chosen = self.0.dials.lock().unwrap().below(10);
        match chosen {
            0 | 1 => return Err(io::ErrorKind::ConnectionRefused.into()),
            2 => sleep(Duration::from_millis(50)).await,
            _ => {}
        }
        let (near, far) = duplex(1 << 10);
        let world = self.clone();
        tokio::spawn(async move {
            world.0.open.fetch_add(1, Ordering::Relaxed);
            let _ = world.serve(Peer::new(far, Received::default())).await;
            world.0.open.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(near)
    }
}

impl World {
    fn new(steps: &[Step]) -> World {
        let chances = steps.iter().map(|step| Mutex::new(Chance::new(step.seed)));
        World(Arc::new(WorldState {
            keeps_connections: steps[0].settings.keeps_connections,
            chances: chances.collect(),
            dials: Mutex::new(Chance::new(steps[0].seed)),
            arrived: Mutex::default(),
            open: AtomicUsize::new(0),
        }))
    }

    async fn serve(&self, mut peer: Peer<DuplexStream>) -> io::Result<()> {
        while let Some(mut request) = peer.head().await? {
            let mut line = request.split(' ');
            let method = line.next().unwrap().to_owned();
            let mut numbers = line.next().unwrap()[1..].split('/').map(|number| number.parse().unwrap());
            let (id, hop): (usize, usize) = (numbers.next().unwrap(), numbers.next().unwrap());
            let mut behavior = match self.0.chances.get(id) {
                Some(chance) => Behavior::draw(&mut chance.lock().unwrap()),
                None => Behavior::Answers { status: 200, fields: "", millis: 12 },
            };
            if let Behavior::Answers { millis: 5, .. } = behavior
                && !self.0.keeps_connections
            {
                behavior = Behavior::Leaves;
            }
            // A refusal for its token says that the host has not acted.
            if !matches!(behavior, Behavior::Answers { status: 401, .. }) {
                let arrival = Arrival { method: method.clone(), hop };
                self.0.arrived.lock().unwrap().entry(id).or_default().push(arrival);
            }
            if let Behavior::ClosesEarly = behavior {
                return Ok(());
            }
            peer.content(&mut request).await?;
            let (status, fields) = match behavior {
                Behavior::Answers { status, fields, millis } => {
                    sleep(Duration::from_millis(millis)).await;
                    (status, fields.to_owned())
                }
                Behavior::Leaves => (200, String::new()),
                Behavior::ClosesEarly | Behavior::Closes => return Ok(()),
                Behavior::Cuts => return peer.send("HTTP/1.1 200 OK\r\ncontent-le").await,
                Behavior::Redirects(status) => {
                    let host = HOSTS[(id + hop) % HOSTS.len()];
                    (status, format!("location: http://{host}/{id}/{}\r\n", hop + 1))
                }
            };
            let body = format!("{id}/{hop}");
            let head = format!("HTTP/1.1 {status} x\r\n{fields}content-length: {}\r\n\r\n", body.len());
            peer.send(if method == "HEAD" { head } else { head + &body }).await?;
            if fields.starts_with("connection: close") || matches!(behavior, Behavior::Leaves) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The end of a request: whether its error says that it was sent, if there is one. `None`: its caller has left.
type End = Option<Result<(), bool>>;

/// Sends requests through one part of a client each.
#[derive(Clone)]
struct Asker {
    client: Client,
    host: corehttp::client::Host,
    balancer: corehttp::client::Balancer,
}

impl Asker {
    fn new(client: Client) -> Asker {
        let host = client.host("http://a").unwrap();
        let balancer = client.balance(HOSTS.map(|host| format!("http://{host}"))).unwrap();
        Asker { host, balancer: balancer.ejection(None).build(), client }
    }

    async fn ask(&self, step: &Step, id: usize) -> Result<(), ClientError> {
        let (request, mut response) = (step.request(id), Response::new());
        let body = match step.way {
            Way::Sends => {
                match step.door {
                    Door::Client => self.client.send(&request, &mut response).await?,
                    Door::Host => self.host.send(&request, &mut response).await?,
                    Door::Balancer => self.balancer.send(&request, &mut response).await?,
                }
                response.body.bytes().to_vec()
            }
            Way::Streams => {
                read(match step.door {
                    Door::Client => self.client.open_response(&request, &mut response).await?,
                    Door::Host => self.host.open_response(&request, &mut response).await?,
                    Door::Balancer => self.balancer.open_response(&request, &mut response).await?,
                })
                .await?
            }
            Way::Opens => {
                let call = match step.door {
                    Door::Client => self.client.open_call(&request).await?,
                    Door::Host => self.host.open_call(&request).await?,
                    Door::Balancer => self.balancer.open_call(&request).await?,
                };
                read(call.finish(&mut response).await?).await?
            }
        };
        let hop = response.redirects().len();
        let expected = if step.method == "HEAD" { String::new() } else { format!("{id}/{hop}") };
        assert_eq!(String::from_utf8(body).unwrap(), expected, "request {id}");
        Ok(())
    }
}

async fn read(mut reader: corehttp::client::ResponseReader) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(piece) = reader.chunk().await? {
        body.extend_from_slice(piece);
    }
    Ok(body)
}

async fn play(steps: &[Step]) {
    let Some(Step { settings, .. }) = steps.first().cloned() else { return };
    let world = World::new(steps);
    let asker = Asker::new(client(&world, settings));
    if settings.hedges {
        warm(&asker, steps.len()).await;
    }
    let mut asking = JoinSet::new();
    for (id, step) in steps.iter().cloned().enumerate() {
        sleep(Duration::from_millis(step.pause)).await;
        let asker = asker.clone();
        asking.spawn(async move {
            let patience = step.patience.map_or(Duration::MAX, Duration::from_millis);
            let asked = timeout(patience, asker.ask(&step, id)).await.ok();
            (id, asked.map(|asked| asked.map_err(|error| error.is_sent())))
        });
    }
    while let Some(ended) = asking.join_next().await {
        let (id, end) = ended.unwrap();
        check(&steps[id], id, end, world.0.arrived.lock().unwrap().remove(&id).unwrap_or_default());
    }
    check_nothing_is_left(asker, &world).await;
}

fn client(world: &World, settings: Settings) -> Client {
    let retries_closed = settings.retries_closed;
    let mut retry = Retry::new().attempts_max(settings.attempts_max).backoff(Duration::ZERO, Duration::ZERO);
    retry = retry.retry_if(move |outcome| {
        let is_closed = outcome.is_err_and(|error| matches!(error.cause(), ClientCause::Closed));
        Retry::is_transient(outcome) || is_closed && retries_closed
    });
    if settings.hedges {
        retry = retry.hedge_after_percentile(90);
    }
    let budget = RetryBudget { percent: settings.percent, per_second: 0 };
    let builder = Client::builder().dialer(world.clone()).retry(retry).retry_budget(budget);
    builder.timeout(Duration::from_secs(30)).wrap(settings.middleware).build()
}

/// Has a host and the balancer answer so often that they hedge.
async fn warm(asker: &Asker, first_id: usize) {
    for id in 0..64 {
        let request = Request::get(&format!("/{}/0", first_id + id)).unwrap();
        match id % 2 {
            0 => drop(asker.host.send(&request, &mut Response::new()).await),
            _ => drop(asker.balancer.send(&request, &mut Response::new()).await),
        }
    }
}

/// Checks that no host has received a request more often than it may.
fn check(step: &Step, id: usize, end: End, arrived: Vec<Arrival>) {
    let mut counts = HashMap::<Arrival, usize>::new();
    arrived.iter().for_each(|arrival| *counts.entry(arrival.clone()).or_default() += 1);
    for (arrival, count) in counts {
        let method = Method::parse(arrival.method.as_bytes()).unwrap();
        let most = match method.is_idempotent() || step.has_key {
            false => 1,
            // Each attempt may find its connection stale, and middleware may send it twice.
            true => ATTEMPTS_MAX * 4,
        };
        assert!(count <= most, "request {id}: {count} times {arrival:?}, as {step:?}");
    }
    if let Some(Err(is_sent)) = end {
        assert!(
            is_sent || arrived.is_empty(),
            "request {id} was sent, its error does not say so: {arrived:?}"
        );
    }
}

async fn check_nothing_is_left(asker: Asker, world: &World) {
    let Asker { client, host, balancer } = asker;
    // A dial that goes on without its request has ended by then, and so has a response that nobody waits for.
    sleep(Duration::from_secs(20)).await;
    assert_eq!((client.busy_connections(), host.busy_connections()), (0, 0));
    assert_eq!(check_counts(&client).waiting, 0);
    assert!(balancer.counts().iter().all(|host| host.pending == 0), "{:?}", balancer.counts());
    client.close_idle();
    sleep(Duration::from_secs(1)).await;
    assert_eq!((client.idle_connections(), world.0.open.load(Ordering::Relaxed)), (0, 0));
    drop((client, host, balancer));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
