//! [`Clients`]: connections that send a request when the last one was answered, or when one is due; and [`Outcomes`].

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// Connections to one server, each of which has at most one request in flight.
pub struct Clients {
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
    input: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    /// When the request in flight was due.
    due: Option<Instant>,
}

/// A response that has arrived.
struct Answered {
    index: usize,
    is_ok: bool,
    due: Instant,
}

impl Clients {
    /// Opens so many connections, and receives a response on each of them.
    pub fn open(address: SocketAddr, count: usize) -> Clients {
        let mut clients = Clients {
            poll: Poll::new().expect("an epoll"),
            events: Events::with_capacity(1024),
            clients: Vec::with_capacity(count),
            input: vec![0; 4096],
        };
        for index in 0..count {
            let stream = std::net::TcpStream::connect(address).expect("the server accepts");
            stream.set_nodelay(true).expect("a socket");
            stream.set_nonblocking(true).expect("a socket");
            let mut stream = TcpStream::from_std(stream);
            let registry = clients.poll.registry();
            registry.register(&mut stream, Token(index), Interest::READABLE).expect("a socket");
            clients.clients.push(Client { stream, due: None });
            clients.send(index, Instant::now());
            // A few at a time, so that none waits for a place in the server's backlog.
            if index % BATCH == 0 {
                clients.drain();
            }
        }
        clients.drain();
        clients
    }

    /// Keeps all connections busy for so long.
    pub fn keep_busy(&mut self, time: Duration) -> Outcomes {
        let (started, mut outcomes) = (Instant::now(), Outcomes::default());
        (0..self.clients.len()).for_each(|index| self.send(index, started));
        while started.elapsed() < time {
            for Answered { index, is_ok, due } in self.poll_answers(None) {
                outcomes.add(is_ok, due.elapsed(), Duration::MAX);
                self.send(index, Instant::now());
            }
        }
        self.drain();
        outcomes
    }

    /// Sends `rate` requests a second for so long, evenly. A request for which no connection becomes free within
    /// `patience` is given up.
    pub fn offer(&mut self, rate: f64, time: Duration, patience: Duration) -> Outcomes {
        let started = Instant::now();
        let due = |count: u64| started + Duration::from_secs_f64(count as f64 / rate);
        let mut free: VecDeque<usize> = (0..self.clients.len()).collect();
        let (mut outcomes, mut count) = (Outcomes::default(), 0);
        while started.elapsed() < time {
            let now = Instant::now();
            while due(count) <= now {
                if now - due(count) <= patience {
                    let Some(index) = free.pop_front() else { break };
                    self.send(index, due(count));
                }
                count += 1;
            }
            for Answered { index, is_ok, due } in self.poll_answers(Some(Duration::ZERO)) {
                outcomes.add(is_ok, due.elapsed(), patience);
                free.push_back(index);
            }
        }
        self.drain();
        outcomes
    }

    fn send(&mut self, index: usize, due: Instant) {
        let client = &mut self.clients[index];
        client.due = Some(due);
        let sent = client.stream.write(REQUEST).expect("the server reads");
        assert_eq!(sent, REQUEST.len(), "a socket's buffer holds a request");
    }

    /// Waits for all responses.
    fn drain(&mut self) {
        while self.clients.iter().any(|client| client.due.is_some()) {
            self.poll_answers(None);
        }
    }

    /// Returns the responses that have arrived, and waits for one as long as it may.
    fn poll_answers(&mut self, wait: Option<Duration>) -> Vec<Answered> {
        self.poll.poll(&mut self.events, wait).expect("events");
        let mut answers = Vec::new();
        for event in &self.events {
            let index = event.token().0;
            let client = &mut self.clients[index];
            let read = match client.stream.read(&mut self.input) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read.expect("the server keeps its connections"),
            };
            // Responses are small, and come in one piece.
            let input = &self.input[..read];
            let is_ok = input.starts_with(b"HTTP/1.1 200 ");
            assert!(is_ok || input.starts_with(b"HTTP/1.1 503 "), "{}", input.escape_ascii());
            answers.push(Answered { index, is_ok, due: client.due.take().expect("a request is in flight") });
        }
        answers
    }
}

const BATCH: usize = 100;
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// The outcomes of requests.
#[derive(Default)]
pub struct Outcomes {
    /// Answered with 200 in time.
    pub good: u64,
    /// Answered with 503.
    pub refused: u64,
    /// How long the answers with 200 took, in milliseconds.
    times: Vec<f64>,
}

impl Outcomes {
    pub(crate) fn add(&mut self, is_ok: bool, time: Duration, patience: Duration) {
        if is_ok {
            self.good += u64::from(time <= patience);
            self.times.push(time.as_secs_f64() * 1e3);
        } else {
            self.refused += 1;
        }
    }

    /// The time in milliseconds within which this share of the answers with 200 came.
    pub fn quantile(&mut self, share: f64) -> f64 {
        self.times.sort_by(f64::total_cmp);
        let index = (self.times.len() as f64 * share) as usize;
        self.times.get(index).or(self.times.last()).copied().unwrap_or(f64::NAN)
    }
}
