//! Random histories of dials: however slow they are and however they end, whoever goes away meanwhile, there are never
//! more connections than there may be, no request waits beside one that is idle, and none is lost.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientLimits, ClientTimeouts, Proxies, Proxy};
use corehttp::net::Dialer;
use corehttp::{Client, Request};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::reply::tag;
use crate::chance::{Chance, check_histories};
use crate::support::{Peer, Rigged, ask, paused, settle};

#[test]
fn no_request_of_a_random_history_waits_beside_an_idle_connection() {
    check_histories("client histories::dialing", (60, 16), Step::draw, |steps| {
        paused(play(steps, Proxies::none(), 1));
        // Hosts that a proxy forwards to share what they wait for.
        paused(play(steps, Proxies::all(Proxy::new("p").unwrap()), 3));
    });
}

/// One call. The bound of connections is that of the first.
#[derive(Clone, Debug)]
struct Step {
    connections_max: usize,
    /// The time between the call before and this one.
    pause: Duration,
    /// How long its dial takes, if it dials, and whether it ends well.
    dial: Duration,
    is_reached: bool,
    /// How long the server takes for a response, and whether it closes then.
    answer: Duration,
    is_last: bool,
    /// When the caller goes away.
    patience: Duration,
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        let ms = |chance: &mut Chance, choices: &[u64]| Duration::from_millis(chance.one_of(choices));
        Step {
            connections_max: chance.one_of(&[1, 2, 3, 8]),
            pause: ms(chance, &[0, 0, 0, 5, 50, 500]),
            dial: ms(chance, &[0, 10, 100, 1000, 8000]),
            is_reached: !chance.once_in(4),
            answer: ms(chance, &[0, 1, 20, 300]),
            is_last: chance.once_in(6),
            patience: ms(chance, &[5, 60, 600, 60_000, 60_000, 60_000]),
        }
    }
}

/// The world outside of the client, and what happens in it.
#[derive(Clone)]
struct World {
    /// The steps whose dials have not begun yet.
    plans: Arc<Mutex<Vec<Step>>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Connections that are open or being opened.
    open: usize,
    open_max: usize,
    /// The calls that wait for a connection.
    waiting: HashSet<usize>,
    refused: usize,
}

impl Seen {
    fn opens(&mut self) {
        self.open += 1;
        self.open_max = self.open_max.max(self.open);
    }
}

/// Counts a connection from its dial on.
struct Counted(Arc<Mutex<Seen>>);

impl Counted {
    fn new(seen: &Arc<Mutex<Seen>>) -> Counted {
        seen.lock().unwrap().opens();
        Counted(Arc::clone(seen))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().unwrap().open -= 1;
    }
}

impl World {
    fn has_waiting(&self) -> bool {
        !self.seen.lock().unwrap().waiting.is_empty()
    }
}

impl Dialer for World {
    type Stream = Rigged;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Rigged> {
        let (counted, plan) = (Counted::new(&self.seen), self.plans.lock().unwrap().pop());
        let Some(plan) = plan else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        sleep(plan.dial).await;
        if !plan.is_reached {
            self.seen.lock().unwrap().refused += 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(1 << 10);
        tokio::spawn(serve(Peer::new(far, Arc::default()), plan, Arc::clone(&self.seen)));
        Ok(Rigged::new(near).on_drop(move || drop(counted)))
    }
}

async fn serve(mut peer: Peer<DuplexStream>, plan: Step, seen: Arc<Mutex<Seen>>) -> io::Result<()> {
    while let Some(request) = peer.request().await? {
        // A proxy is sent the whole URL.
        seen.lock().unwrap().waiting.remove(&tag(&request.replacen("http://", "", 1)));
        sleep(plan.answer).await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
        if plan.is_last {
            return Ok(());
        }
    }
    Ok(())
}

async fn play(steps: &[Step], proxies: Proxies, hosts: usize) {
    let Some(Step { connections_max, .. }) = steps.first() else { return };
    let plans = steps.iter().chain(steps).chain(steps).cloned().collect();
    let world = World { plans: Arc::new(Mutex::new(plans)), seen: Arc::default() };
    let timeouts = ClientTimeouts { queue: Duration::from_secs(600), ..ClientTimeouts::default() };
    let builder = Client::builder().dialer(world.clone()).proxies(proxies).timeouts(timeouts);
    let client = builder
        .limits(ClientLimits { connections_per_host_max: *connections_max, ..ClientLimits::default() })
        .build();
    let mut callers = JoinSet::new();
    for (at, step) in steps.iter().cloned().enumerate() {
        check_for(step.pause, &client, &world).await;
        let (client, seen) = (client.clone(), Arc::clone(&world.seen));
        callers.spawn(async move { call(&client, &seen, (at % hosts, at), step.patience).await });
    }
    let start = Instant::now();
    while !callers.is_empty() && start.elapsed() < Duration::from_secs(600) {
        check_for(Duration::from_millis(20), &client, &world).await;
        while callers.try_join_next().is_some_and(|ended| ended.is_ok()) {}
    }
    assert!(callers.is_empty(), "a caller waits for ever");
    sleep(Duration::from_secs(20)).await;
    let seen = world.seen.lock().unwrap();
    assert!(seen.open_max <= *connections_max, "{seen:?}");
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, seen.open), "{seen:?}");
    let total = client.counts().total;
    assert!(total.opened <= total.dials && total.waiting == 0, "{total:?}");
}

/// Calls a host once. An error has the reason that a connection was refused.
async fn call(client: &Client, seen: &Arc<Mutex<Seen>>, (host, at): (usize, usize), patience: Duration) {
    seen.lock().unwrap().waiting.insert(at);
    let request = Request::get(&format!("http://a{host}/{at}")).unwrap();
    let ended = timeout(patience, ask(client, &request)).await;
    let mut seen = seen.lock().unwrap();
    seen.waiting.remove(&at);
    match ended {
        Ok(Ok(response)) => assert_eq!(response, (200, "ok".into())),
        Ok(Err(error)) => assert!(seen.refused > 0, "{error:#}"),
        Err(_) => {}
    }
}

/// Lets time pass, and checks meanwhile that no request waits beside an idle connection.
async fn check_for(wait: Duration, client: &Client, world: &World) {
    let start = Instant::now();
    loop {
        settle().await;
        let idle = client.idle_connections();
        assert!(idle == 0 || !world.has_waiting(), "{idle} are idle: {:?}", world.seen);
        if start.elapsed() >= wait {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}
