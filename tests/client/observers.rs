//! Observers of a client: any number of them sees each event, in their order, and the sum of all is `Client::counts`.

use std::future::pending;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    ClientCounters, ClientExchangeReport, ClientLimits, ClientObserver, ClientTimeouts, DialReport,
    ExchangeEnd, HostEvents, QueueReport,
};
use corehttp::net::{Dialer, MemoryListener};
use corehttp::{Client, ClientBuilder, Response};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{OK, Scripted, Stage, ask, cancelled_after, get, paused, settle};
use crate::{counts, storm};

const SECOND: Duration = Duration::from_secs(1);

/// The events that an observer has seen.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Queue(QueueReport),
    Dial(DialReport),
    Exchange(ClientExchangeReport),
}

/// Keeps all events of all hosts, in their order.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Event>>>);

impl ClientObserver for Events {
    fn attach(&self, host: &mut HostEvents) {
        let events = self.clone();
        host.on_queue(move |report| events.push(Event::Queue(*report)));
        let events = self.clone();
        host.on_dial(move |report| events.push(Event::Dial(*report)));
        let events = self.clone();
        host.on_exchange(move |report| events.push(Event::Exchange(*report)));
    }
}

impl Events {
    fn push(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn list(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn exchanges(&self) -> Vec<ClientExchangeReport> {
        let exchange = |event| if let Event::Exchange(report) = event { Some(report) } else { None };
        self.list().into_iter().filter_map(exchange).collect()
    }

    fn count(&self, is_counted: impl Fn(&Event) -> bool) -> u64 {
        self.list().iter().filter(|event| is_counted(event)).count() as u64
    }

    /// The events add up to the counts of the client.
    #[track_caller]
    fn check(&self, client: &Client) {
        let total = client.counts().total;
        let ended = |end| self.count(|event| matches!(event, Event::Exchange(report) if report.end == end));
        let failed = self.count(
            |event| matches!(event, Event::Exchange(report) if matches!(report.end, ExchangeEnd::Failed(_))),
        );
        assert_eq!(
            [ended(ExchangeEnd::Answered), failed, ended(ExchangeEnd::Canceled), ended(ExchangeEnd::Retried)],
            [total.answered, total.failed, total.canceled, total.retries],
            "{total:?}"
        );
        let dialed = |is_open| {
            self.count(|event| matches!(event, Event::Dial(report) if report.failed.is_none() == is_open))
        };
        let dials_failed = total.resolve.failed + total.connect.failed + total.tls.failed;
        assert_eq!([dialed(true), dialed(false)], [total.opened, dials_failed], "{total:?}");
        let queued =
            |late| self.count(|event| matches!(event, Event::Queue(report) if report.timed_out == late));
        assert_eq!([queued(false), queued(true)], [total.queue.ended, total.queue.failed], "{total:?}");
        let exchanges = self.exchanges();
        let reused = exchanges.iter().filter(|report| report.timings.reused).count() as u64;
        assert_eq!(reused, total.reused, "{total:?}");
        let sum = |bytes: fn(&ClientExchangeReport) -> u64| exchanges.iter().map(bytes).sum::<u64>();
        assert_eq!(
            [sum(|report| report.received), sum(|report| report.sent)],
            [total.received, total.sent],
            "{total:?}"
        );
    }
}

/// An event in short: the phase that failed, the end of an exchange, its status, and whether its connection was reused.
fn short(event: &Event) -> String {
    match event {
        Event::Queue(QueueReport { timed_out, .. }) => format!("queue late={timed_out}"),
        Event::Dial(report) => format!("dial {:?}", report.failed),
        Event::Exchange(report) => {
            let status = report.status.map_or(0, |status| status.as_u16());
            let again = if report.timings.reused { " again" } else { "" };
            format!("{:?} {status}{again}", report.end)
        }
    }
}

/// Two GETs cause these events, for each of two observers, and the counts say the same.
async fn check(builder: ClientBuilder, expected: &[&str]) {
    let [one, other] = [Events::default(), Events::default()];
    let client = builder.observe(one.clone()).observe(other.clone()).build();
    for _ in 0..2 {
        let _ = timeout(PATIENCE, ask(&client, &get())).await;
        settle().await;
    }
    let seen = Vec::from_iter(one.list().iter().map(short));
    assert_eq!(seen, expected);
    assert_eq!(one.list(), other.list(), "both see the same");
    one.check(&client);
}

/// When the caller leaves, if nothing has ended the wait before.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server whose first connection ends after one response, whatever it has been asked then.
fn stale() -> Stage {
    Stage::new(|mut peer, number| async move {
        while peer.request().await?.is_some() {
            peer.send(OK).await?;
            if number == 0 {
                peer.request().await?;
                return Ok(());
            }
        }
        Ok(())
    })
}

/// Connects once. Later dials end so, or never.
struct Once(Stage, Option<io::ErrorKind>);

impl Dialer for Once {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        match (self.0.dialed().is_empty(), self.1) {
            (true, _) => self.0.dial(host, port).await,
            (false, Some(end)) => Err(end.into()),
            (false, None) => pending().await,
        }
    }
}

#[test]
fn ends_are_told_apart() {
    paused(async {
        let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok";
        let brief = ClientTimeouts { receive: SECOND, wait: SECOND, ..ClientTimeouts::default() };
        let unheard = MemoryListener::new();
        let unanswered = || Client::builder().dialer(Once(stale(), None));
        let rows: [(ClientBuilder, &[&str]); 11] = [
            (Stage::always(OK).builder(), &["dial None", "Answered 200", "Answered 200 again"]),
            (
                Stage::always("HTTP/1.1 503 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").builder(),
                &["dial None", "Answered 503", "dial None", "Answered 503"],
            ),
            (
                Stage::answering(|_| String::new()).builder(),
                &["dial None", "Failed(Wait) 0", "dial None", "Failed(Wait) 0"],
            ),
            (
                Stage::always(cut).builder().timeouts(brief),
                &["dial None", "Failed(Receive) 200", "dial None", "Failed(Receive) 200"],
            ),
            (
                Stage::new(|mut peer, _| async move { peer.receive_all().await }).builder().timeouts(brief),
                &["dial None", "Failed(Wait) 0", "dial None", "Failed(Wait) 0"],
            ),
            (
                stale().builder(),
                &["dial None", "Answered 200", "dial None", "Retried 0 again", "Answered 200"],
            ),
            (
                Client::builder().dialer(Once(stale(), Some(io::ErrorKind::ConnectionRefused))),
                &["dial None", "Answered 200", "dial Some(Connect)", "Retried 0 again"],
            ),
            (
                unanswered().timeout(SECOND),
                &["dial None", "Answered 200", "dial Some(Connect)", "Retried 0 again"],
            ),
            (unanswered(), &["dial None", "Answered 200", "Retried 0 again"]),
            (Client::builder().connect_to(unheard), &["dial Some(Connect)", "dial Some(Connect)"]),
            (
                Stage::answering(|request| match request.starts_with("GET / ") {
                    true => "HTTP/1.1 302 x\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n".into(),
                    false => OK.into(),
                })
                .builder(),
                &[
                    "dial None",
                    "Answered 302",
                    "Answered 200 again",
                    "Answered 302 again",
                    "Answered 200 again",
                ],
            ),
        ];
        for (builder, expected) in rows {
            check(builder, expected).await;
        }
    });
}

/// A server that takes two seconds for a response.
fn slow() -> Stage {
    Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(2 * SECOND).await;
            peer.send(OK).await?;
        }
        Ok(())
    })
}

#[test]
fn waits_bring_their_time_whether_they_are_in_vain_or_not() {
    paused(async {
        let timeouts = ClientTimeouts { queue: 3 * SECOND, ..ClientTimeouts::default() };
        let events = Events::default();
        let builder = slow()
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .timeouts(timeouts);
        let client = builder.observe(events.clone()).build();
        let ask = || async { ask(&client, &get()).await.is_ok() };
        assert_eq!(tokio::join!(ask(), ask(), ask()), (true, true, false));
        let waits = |event| if let Event::Queue(report) = event { Some(report) } else { None };
        let waits = events.list().into_iter().filter_map(waits);
        let seconds = waits.map(|report| (report.waited.as_secs(), report.timed_out));
        assert_eq!(Vec::from_iter(seconds), [(2, false), (3, true)]);
        let exchanges = events.exchanges();
        let times =
            exchanges.iter().map(|report| (report.timings.queue.as_secs(), report.timings.wait.as_secs()));
        assert_eq!(Vec::from_iter(times), [(0, 2), (2, 2)]);
        events.check(&client);
    });
}

/// The caller goes away after any number of polls.
#[test]
fn exchanges_that_are_canceled_at_any_await_are_reported_once() {
    paused(async {
        let events = Events::default();
        let client = slow().builder().observe(events.clone()).build();
        for polls in 0..8 {
            let _ = cancelled_after(polls, ask(&client, &get())).await;
            settle().await;
            events.check(&client);
        }
        let canceled = events.count(|event| short(event).starts_with("Canceled 0"));
        assert!(canceled > 2, "{:?}", events.list());
    });
}

#[test]
fn a_panic_ends_neither_the_exchange_nor_the_other_observers() {
    paused(async {
        fn panic() -> ! {
            resume_unwind(Box::new("without a trace"))
        }
        let [one, other] = [Events::default(), Events::default()];
        let client = slow()
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .observe(one.clone())
            .observe(|_: &mut HostEvents| panic())
            .observe(|host: &mut HostEvents| {
                host.on_queue(|_| panic());
                host.on_dial(|_| panic());
                host.on_exchange(|_| panic());
            })
            .observe(other.clone())
            .build();
        let ask = || async { ask(&client, &get()).await.map(|(status, _)| status) };
        let answered = tokio::join!(ask(), ask());
        assert_eq!((answered.0.unwrap(), answered.1.unwrap()), (200, 200));
        assert_eq!(one.list().len(), 4, "{:?}", one.list());
        assert_eq!(one.list(), other.list());
        one.check(&client);
    });
}

/// The function runs under no lock, and the counts have its exchange. They stay when the client is gone.
#[test]
fn functions_read_the_counters_of_their_client() {
    paused(async {
        let (seen, kept) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None::<ClientCounters>)));
        let (noted, keeps) = (seen.clone(), kept.clone());
        let observer = move |host: &mut HostEvents| {
            let (noted, counters) = (noted.clone(), host.client());
            *keeps.lock().unwrap() = Some(counters.clone());
            let origin = host.origin().to_owned();
            host.on_exchange(move |_| {
                let stats = counters.counts();
                let host = &stats.hosts[&*origin];
                noted.lock().unwrap().push((origin.clone(), host.answered, stats.total.answered));
            });
        };
        let client = Stage::always(OK).builder().observe(observer).build();
        for url in ["http://a/", "http://b/", "http://a/"] {
            client.get(url).await.unwrap();
        }
        let expected = [("http://a", 1, 1), ("http://b", 1, 2), ("http://a", 2, 3)];
        assert_eq!(*seen.lock().unwrap(), expected.map(|(origin, own, all)| (origin.to_owned(), own, all)));
        let counters = kept.lock().unwrap().take().unwrap();
        assert_eq!(counters.counts(), client.counts());
        assert_eq!(counters.counts().total.idle, 2);
        drop(client);
        assert_eq!((counters.counts().total.idle, counters.counts().total.answered), (0, 3));
    });
}

/// Several requests are in flight on one connection, which breaks; each has a report, and no byte counts twice.
#[test]
fn exchanges_of_a_pipeline_add_up_to_the_counts() {
    async fn serve(mut peer: crate::support::Peer<tokio::io::DuplexStream>, number: usize) -> io::Result<()> {
        // A new connection carries a single request first.
        peer.request().await?;
        peer.send(OK).await?;
        for _ in 0..4 + number {
            peer.request().await?;
        }
        for _ in 0..3 {
            peer.send(OK).await?;
        }
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await
    }
    paused(async {
        let events = Events::default();
        let client = Stage::new(serve).builder().observe(events.clone()).build();
        let pipeline = client.pipeline("http://a/").unwrap().build();
        let mut callers = JoinSet::new();
        for _ in 0..12 {
            let pipeline = pipeline.clone();
            callers.spawn(async move { pipeline.send(&get(), &mut Response::new()).await.is_ok() });
        }
        let answered = callers.join_all().await.into_iter().filter(|is_ok| *is_ok).count();
        drop(pipeline);
        settle().await;
        events.check(&client);
        let ended = events.exchanges().iter().filter(|report| report.end == ExchangeEnd::Answered).count();
        assert_eq!(answered, ended);
        assert!(answered > 2 && answered < 12, "{answered}: {:?}", events.exchanges());
    });
}

/// Resets, ends in the middle, callers that go away.
#[tokio::test]
async fn events_add_up_to_the_counts_after_a_storm() {
    let server = Scripted::new(storm::spoil).await;
    let events = Events::default();
    let builder = Client::builder()
        .limits(ClientLimits { connections_per_host_max: 8, ..ClientLimits::default() })
        .timeout(20 * SECOND);
    let client = builder.observe(events.clone()).build();
    storm::ask_impatiently(&client, &server.url).await;
    let total = counts::check_counts(&client);
    events.check(&client);
    assert!(total.answered > 100 && total.failed > 10 && total.canceled > 0, "{total:?}");
}
