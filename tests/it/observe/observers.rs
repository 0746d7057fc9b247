//! Observers: any number of them sees each event, in their order, whatever the others do.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use corehttp::server::{CoreEvents, Observer};
use corehttp::{Context, Server};

use crate::support::{Served, eventually, status};

const LAST: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// The events that observers have seen, in the order in which they saw it.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// Waits for so many notes, and takes them.
    fn take(&self, count: usize) -> Vec<String> {
        eventually("all events are seen", || self.0.lock().unwrap().len() >= count);
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Notes each event with its name. A count of one core needs no lock.
struct Noting {
    name: &'static str,
    seen: Seen,
}

impl Observer for Noting {
    fn attach(&self, core: &mut CoreEvents) {
        let Noting { name, ref seen } = *self;
        let exchanges = Rc::new(Cell::new(0));
        let counted = exchanges.clone();
        let on = seen.clone();
        core.on_connect(move |_| on.note(format!("{name}: opened")));
        let on = seen.clone();
        core.on_exchange(move |report| {
            counted.set(counted.get() + 1);
            on.note(format!("{name}: {:?}", report.status.map(|status| status.as_u16())));
        });
        let on = seen.clone();
        core.on_error(move |report| on.note(format!("{name}: {}", report.cause)));
        let on = seen.clone();
        core.on_disconnect(move |_| on.note(format!("{name}: closed after {}", exchanges.get())));
    }
}

fn answer(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/" => Ok(()),
        path => Err(corehttp::Error::other(format!("no {path}"))),
    }
}

#[test]
fn each_observer_sees_each_event_in_its_turn() {
    let seen = Seen::default();
    let [first, second] = ["first", "second"].map(|name| Noting { name, seen: seen.clone() });
    let served = Served::with(|server| server.cores(1).observe(first).observe(second), answer);
    assert_eq!(status(&served.ask(LAST)), 200);
    assert_eq!(
        seen.take(6),
        ["first: opened", "second: opened", "first: Some(200)", "second: Some(200)"]
            .into_iter()
            .chain(["first: closed after 1", "second: closed after 1"])
            .collect::<Vec<_>>()
    );
    assert_eq!(status(&served.ask(LAST.replace("/ ", "/none "))), 500);
    let errors: Vec<_> = seen.take(8).into_iter().filter(|seen| seen.contains("failed")).collect();
    assert_eq!(
        errors,
        ["first: the handler failed: no /none", "second: the handler failed: no /none"],
        "the second does not replace the first"
    );
}

#[test]
fn a_function_adds_to_those_before_it() {
    let seen = Seen::default();
    let [first, second, third] = [(); 3].map(|()| seen.clone());
    let set = |server: Server| {
        server
            .on_exchange(move |_| first.note("first"))
            .on_exchange(|_| std::panic::resume_unwind(Box::new("without a trace")))
            .on_exchange(move |_| second.note("second"))
            .observe(move |core: &mut CoreEvents| {
                let (seen, index) = (third.clone(), core.index());
                core.on_exchange(move |_| seen.note(format!("core {index}")));
            })
    };
    let served = Served::with(|server| set(server.cores(1)), answer);
    assert_eq!(status(&served.ask(LAST)), 200);
    assert_eq!(seen.take(3), ["first", "second", "core 0"], "a panic of one is no matter of the others");
}

#[test]
fn each_observer_gives_a_connection_a_state_of_its_own_type() {
    fn told(ctx: &mut Context) {
        let (number, name) = (ctx.connection_state::<u32>(), ctx.connection_state::<&str>());
        ctx.response.set_text(format!("{number:?} {name:?} {:?}", ctx.connection_state::<u8>()));
    }
    let set = |server: Server| {
        server
            .on_connect(|connection| connection.set_state(1u32))
            .on_connect(|connection| connection.set_state("name"))
            .on_connect(|connection| connection.set_state(2u32))
    };
    let served = Served::with(set, told);
    assert!(served.ask(LAST).ends_with("Some(2) Some(\"name\") None"));
}

#[test]
fn a_connection_that_one_observer_refuses_is_refused() {
    let set = |server: Server| {
        server
            .on_connect(|connection| connection.refuse())
            .on_connect(|connection| connection.set_state(1u32))
    };
    let served = Served::with(set, answer);
    assert!(!served.ask(LAST).contains("HTTP/1.1"));
    let panics = |server: Server| {
        server.on_connect(|_| std::panic::resume_unwind(Box::new("without a trace"))).on_connect(|_| {})
    };
    assert!(!Served::with(panics, answer).ask(LAST).contains("HTTP/1.1"), "a panic refuses");
}

#[test]
fn counters_are_read_on_any_thread_and_outlive_their_core() {
    let counters = Arc::new(Mutex::new(None));
    let kept = counters.clone();
    let watch = move |core: &mut CoreEvents| *kept.lock().unwrap() = Some(core.counters());
    let served = Served::with(|server| server.cores(1).observe(watch), answer);
    assert_eq!(status(&served.ask(LAST)), 200);
    drop(served);
    let counters = counters.lock().unwrap().take().unwrap();
    assert_eq!((counters.counts().requests, counters.counts().accepted), (1, 1));
}

#[test]
fn polls_are_timed_only_for_those_who_ask() {
    let seen = Seen::default();
    let noted = seen.clone();
    let watch = move |core: &mut CoreEvents| {
        let (polls, accepts) = (noted.clone(), noted.clone());
        core.on_poll(move |report| polls.note(format!("poll {}", report.waiting.is_some())));
        core.on_accept(move |_| accepts.note("accepted"));
    };
    let served = Served::with(|server| server.cores(1).observe(watch), answer);
    assert_eq!(status(&served.ask(LAST)), 200);
    let first = seen.take(2);
    assert_eq!(first[0], "accepted");
    assert!(first[1..].iter().all(|poll| poll == "poll false"), "{first:?}");
}
