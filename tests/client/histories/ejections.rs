//! Random histories of ejections: however hosts fail, come and go, a balancer asks hosts that may be asked, and ejects and
//! returns them as a plain model says. No more are ejected at once than may be, each ejection ends, a host that is drained
//! gets nothing new, and nothing stays pending.

mod model;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    Balancer, BalancerChoice, ClientTimeouts, Ejection, HostChange, HostReport, PanicReport, ResponseReader,
};
use corehttp::net::Dialer;
use corehttp::{Client, Request, Response};
use tokio::io::{DuplexStream, duplex};
use tokio::time::{sleep, timeout};

use self::model::Model;
use crate::chance::{Chance, check_histories};
use crate::support::{Peer, Received, paused};

#[test]
fn hosts_of_a_random_history_are_ejected_and_return_as_they_should() {
    check_histories("client histories::ejections", (1_000, 12), Step::draw, |steps| paused(play(steps)));
}

/// Something that happens. The settings are those of the first.
#[derive(Clone, Debug)]
struct Step {
    event: Event,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// So many requests, one after the other.
    Asks(usize),
    /// A request whose response is read only in the end.
    Holds,
    Becomes(usize, Behavior),
    Weighs(usize, u32),
    Adds(usize),
    Removes(usize),
    /// So many milliseconds pass.
    Passes(u64),
}

/// How a host behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Well,
    Refuses,
    Fails,
    /// It answers nothing until the caller leaves, which says nothing about it.
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    hosts: usize,
    /// Whether the last host is a backup.
    has_backup: bool,
    choice: BalancerChoice,
    failures: u32,
    percent_max: u8,
    panic_below: u8,
}

const HOSTS: [&str; 6] = ["http://a", "http://b", "http://c", "http://d", "http://e", "http://f"];
const BACKUP: usize = HOSTS.len() - 1;
const FIRST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(50);

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        use Behavior::{Fails, Refuses, Silent, Well};
        let host = chance.below(HOSTS.len());
        let behavior = chance.one_of(&[Well, Refuses, Refuses, Fails, Silent]);
        let event = match chance.below(12) {
            0..4 => Event::Asks(chance.one_of(&[1, 2, 5, 10])),
            4 => Event::Holds,
            5..8 => Event::Becomes(host, behavior),
            8 => Event::Weighs(host, chance.one_of(&[0, 0, 1, 5])),
            9 => chance.one_of(&[Event::Adds(host), Event::Removes(host)]),
            _ => Event::Passes(chance.one_of(&[400, 1_000, 10_000, 20_000, 60_000])),
        };
        let choices = [BalancerChoice::LeastPending, BalancerChoice::TwoRandom, BalancerChoice::RoundRobin];
        let settings = Settings {
            hosts: 1 + chance.below(BACKUP),
            has_backup: chance.once_in(3),
            choice: chance.one_of(&choices),
            failures: chance.one_of(&[1, 1, 2, 5, 0]),
            percent_max: chance.one_of(&[50, 50, 100, 34, 0]),
            panic_below: chance.one_of(&[0, 0, 51, 100]),
        };
        Step { event, settings }
    }
}

async fn play(steps: &[Step]) {
    let Some(Step { settings, .. }) = steps.first() else { return };
    let fleet = Fleet::default();
    let balancer = fleet.balance(*settings);
    let mut history = History { model: Model::new(*settings), fleet, balancer, held: Vec::new() };
    for step in steps {
        history.happen(step.event).await;
    }
    history.end().await;
}

struct History {
    model: Model,
    fleet: Fleet,
    balancer: Balancer,
    held: Vec<ResponseReader>,
}

impl History {
    async fn happen(&mut self, event: Event) {
        let Self { model, fleet, balancer, .. } = self;
        match event {
            Event::Asks(count) => {
                for _ in 0..count {
                    self.ask(false).await;
                }
            }
            Event::Holds => self.ask(true).await,
            Event::Becomes(host, behavior) => fleet.set(host, behavior),
            Event::Weighs(host, weight) => {
                assert_eq!(balancer.set_weight(HOSTS[host], weight), model.set_weight(host, weight));
            }
            Event::Adds(host) => assert_eq!(balancer.add(HOSTS[host]).unwrap(), model.add(host)),
            Event::Removes(host) => assert_eq!(balancer.remove(HOSTS[host]), model.remove(host)),
            Event::Passes(millis) => sleep(Duration::from_millis(millis)).await,
        }
    }

    /// Sends a request, and checks who gets it, and what is said of the hosts meanwhile.
    async fn ask(&mut self, is_held: bool) {
        let (request, mut response) = (Request::get("/").unwrap(), Response::new());
        let began = self.model.now();
        let opened = timeout(SILENCE, self.balancer.open_response(&request, &mut response)).await;
        let noted = self.fleet.take();
        let outcome = match &opened {
            Err(_) => None,
            Ok(opened) => Some(opened.is_ok() && response.status.is_success()),
        };
        if is_held {
            self.held.extend(opened.into_iter().flatten());
        }
        let expected = self.model.ask(noted.asked, began, outcome);
        assert_eq!(noted.reports, expected, "asked {:?}, which led to {outcome:?}", noted.asked);
        let counts = self.balancer.counts();
        let seen =
            counts.iter().map(|it| (it.origin.as_str(), it.weight, it.ejected.is_some(), it.ejections));
        assert_eq!(seen.collect::<Vec<_>>(), self.model.counts());
        assert_eq!(counts.iter().map(|it| it.penalties).sum::<usize>(), 0);
    }

    /// All is well again. Each ejection is over in time, and each host is asked.
    async fn end(mut self) {
        let present = self.model.present();
        for host in present.clone() {
            self.happen(Event::Becomes(host, Behavior::Well)).await;
            self.happen(Event::Weighs(host, 1)).await;
        }
        self.happen(Event::Passes(MOST.as_millis() as u64)).await;
        // A host with a pending request is not chosen while the others have none.
        self.held.clear();
        for _ in 0..8 * present.len() {
            self.ask(false).await;
        }
        let is_spared = |origin: &str| self.model.is_backup(origin) && present.len() > 1;
        for host in self.balancer.counts() {
            assert_eq!(host.pending, 0);
            assert!(host.ejected.is_none() || is_spared(&host.origin), "{} stays ejected", host.origin);
        }
    }
}

/// How long a caller waits.
const SILENCE: Duration = Duration::from_millis(100);

/// Hosts in memory.
#[derive(Clone)]
struct Fleet(Arc<Mutex<([Behavior; HOSTS.len()], Noted)>>);

/// The host that one request has reached, and the reports meanwhile.
#[derive(Default)]
struct Noted {
    asked: Option<usize>,
    reports: Vec<String>,
}

impl Default for Fleet {
    fn default() -> Fleet {
        Fleet(Arc::new(Mutex::new(([Behavior::Well; HOSTS.len()], Noted::default()))))
    }
}

impl Fleet {
    fn set(&self, host: usize, behavior: Behavior) {
        self.0.lock().unwrap().0[host] = behavior;
    }

    fn take(&self) -> Noted {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }

    fn report(&self, text: String) {
        self.0.lock().unwrap().1.reports.push(text);
    }

    fn balance(&self, settings: Settings) -> Balancer {
        // One exchange for each connection, so that each dial is a request.
        let timeouts = ClientTimeouts { idle: Duration::ZERO, ..ClientTimeouts::default() };
        let client = Client::builder().dialer(self.clone()).timeouts(timeouts).build();
        let mut builder = client.balance(&HOSTS[..settings.hosts]).unwrap();
        if settings.has_backup {
            builder = builder.backup(HOSTS[BACKUP]).unwrap();
        }
        let ejection = Ejection::new().failures(settings.failures).percent_max(settings.percent_max);
        let (hosts, panics) = (self.clone(), self.clone());
        builder
            .choice(settings.choice)
            .penalty_max(0)
            .ejection(ejection.time(FIRST, MOST).compared_from(None))
            .panic_below(settings.panic_below)
            .on_change(move |report: &HostReport<'_>| hosts.report(said(report)))
            .on_panic(move |report: &PanicReport| panics.report(format!("{report:?}")))
            .build()
    }
}

fn said(report: &HostReport<'_>) -> String {
    match report.change {
        HostChange::Ejected(cause, time) => format!("{} {cause:?} {}", report.origin, time.as_secs()),
        change => format!("{} {change:?}", report.origin),
    }
}

impl Dialer for Fleet {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _port: u16) -> io::Result<DuplexStream> {
        let at = HOSTS.iter().position(|url| url.ends_with(host)).unwrap();
        let behavior = {
            let (behaviors, noted) = &mut *self.0.lock().unwrap();
            assert_eq!(noted.asked.replace(at), None, "two hosts are asked at once");
            behaviors[at]
        };
        let status = match behavior {
            Behavior::Refuses => return Err(io::ErrorKind::ConnectionRefused.into()),
            Behavior::Silent => std::future::pending().await,
            Behavior::Fails => 503,
            Behavior::Well => 200,
        };
        let (near, far) = duplex(1 << 10);
        let response = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok");
        tokio::spawn(Peer::new(far, Received::default()).answer(response));
        Ok(near)
    }
}
