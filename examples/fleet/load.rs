//! [`Load`]: clients that ask without a pause, and count.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use corehttp::{Client, Request, Response, Result, Status};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use crate::event::Event;
use crate::member::REQUESTS_A_SECOND;

/// Clients that ask until they have asked enough: 16 users within their bound, and four clients of one user beyond it.
pub struct Load {
    counts: Rc<Counts>,
    clients: Vec<JoinHandle<()>>,
    started: Instant,
}

const CLIENTS: usize = 16;
const GREEDY_CLIENTS: usize = 4;

#[derive(Default)]
struct Counts {
    /// One for each phase; the latest is that of the requests that end now.
    phases: RefCell<Vec<Phase>>,
    is_over: Cell<bool>,
    /// The requests of the user beyond the bound that were admitted, and that were refused.
    admitted: Cell<u32>,
    refused: Cell<u32>,
}

/// The requests that ended in one phase. A request that fails in it may have begun a moment earlier.
pub struct Phase {
    pub event: Event,
    pub gets: usize,
    pub gets_failed: usize,
    pub posts: usize,
    pub posts_failed: usize,
    /// How many of them had no response. HAProxy then closes the connection in silence, so that the client decides.
    pub cut: usize,
    /// The time of the slowest request that did not fail.
    pub slowest: Duration,
    /// Responses without the values that a session must have had.
    pub lost: usize,
}

impl Load {
    pub fn start(url: &str) -> Load {
        let counts = Rc::new(Counts::default());
        counts.phases.borrow_mut().push(Phase::new(Event::None));
        let mut clients = Vec::from_iter((0..CLIENTS).map(|number| {
            let user = User::new(url, &format!("user-{number}"));
            spawn_local(user.ask(counts.clone()))
        }));
        clients.extend((0..GREEDY_CLIENTS).map(|_| {
            let user = User::new(url, "greedy");
            spawn_local(user.ask_too_often(counts.clone()))
        }));
        Load { counts, clients, started: Instant::now() }
    }

    /// Begins a phase, to which the requests belong that end from now on.
    pub fn begin(&self, event: Event) {
        self.counts.phases.borrow_mut().push(Phase::new(event));
    }

    /// Ends the load, and returns the phases, and a line about the user beyond the bound.
    pub async fn end(self) -> Result<(Vec<Phase>, String)> {
        let seconds = self.started.elapsed().as_secs_f64();
        self.counts.is_over.set(true);
        for client in self.clients {
            client.await?;
        }
        let (admitted, refused) = (self.counts.admitted.get(), self.counts.refused.get());
        let bound = f64::from(REQUESTS_A_SECOND) * (1.0 + seconds);
        let line = format!(
            "One user sent {} requests in {seconds:.1} s, of which {admitted} were admitted; the bound is {bound:.0}.",
            admitted + refused
        );
        // The first requests, before any phase, open the connections.
        let phases = self.counts.phases.take().split_off(1);
        Ok((phases, line))
    }
}

/// A user, with the cookie of a session.
struct User {
    client: Client,
    url: String,
    name: String,
    cookie: String,
    /// How often a response has said that the session was added to.
    added: u64,
    /// How often it may have been added to besides, by requests that failed.
    unsure: u64,
}

impl User {
    fn new(url: &str, name: &str) -> User {
        let (url, name, cookie) = (format!("{url}count"), name.to_owned(), String::new());
        User { client: Client::new(), url, name, cookie, added: 0, unsure: 0 }
    }

    /// Reads and adds in turn, less often than the bound admits.
    async fn ask(mut self, counts: Rc<Counts>) {
        let mut is_post = false;
        while !counts.is_over.get() {
            is_post = !is_post;
            let asked = Instant::now();
            let outcome = self.send(is_post).await;
            if let Some(phase) = counts.phases.borrow_mut().last_mut() {
                self.note(phase, is_post, outcome, asked.elapsed());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Counts a request, and looks whether its response has the session.
    fn note(&mut self, phase: &mut Phase, is_post: bool, outcome: Result<Response>, took: Duration) {
        let (event, user) = (phase.event.name(), &self.name);
        let (method, sent, failed) = match is_post {
            true => ("POST", &mut phase.posts, &mut phase.posts_failed),
            false => ("GET", &mut phase.gets, &mut phase.gets_failed),
        };
        *sent += 1;
        match outcome {
            Ok(response) if response.status == Status::OK => {
                phase.slowest = phase.slowest.max(took);
                self.added += u64::from(is_post);
                if !self.is_kept(&response) {
                    eprintln!("{event}: the session of {user} is lost: {:?}", response.text());
                    phase.lost += 1;
                }
            }
            outcome => {
                phase.cut += usize::from(outcome.is_err());
                let outcome = outcome.map(|response| response.status);
                eprintln!("{event}: a {method} of {user} failed after {took:.0?}: {outcome:?}");
                *failed += 1;
                self.unsure += u64::from(is_post);
            }
        }
    }

    /// Asks as often as it can.
    async fn ask_too_often(mut self, counts: Rc<Counts>) {
        while !counts.is_over.get() {
            let status = self.send(false).await.map(|response| response.status);
            match status {
                Ok(Status::OK) => counts.admitted.set(counts.admitted.get() + 1),
                _ => counts.refused.set(counts.refused.get() + 1),
            }
        }
    }

    async fn send(&mut self, is_post: bool) -> Result<Response> {
        let mut request = Request::new(if is_post { "POST" } else { "GET" }, &self.url)?;
        request.headers.set("x-user", &self.name)?;
        request.headers.set("cookie", &self.cookie)?;
        let mut response = Response::default();
        self.client.send(&request, &mut response).await?;
        if let Some(cookie) = response.cookies().next() {
            self.cookie = format!("{}={}", cookie.name, cookie.value);
        }
        Ok(response)
    }

    /// Whether a response has the count of the session.
    fn is_kept(&self, response: &Response) -> bool {
        let count = response.text().ok().and_then(|text| text.split_once(" by ")?.0.parse().ok());
        count.is_some_and(|count: u64| (self.added..=self.added + self.unsure).contains(&count))
    }
}

impl Phase {
    fn new(event: Event) -> Phase {
        let slowest = Duration::ZERO;
        Phase { event, gets: 0, gets_failed: 0, posts: 0, posts_failed: 0, cut: 0, slowest, lost: 0 }
    }
}
