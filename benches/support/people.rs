//! [`People`]: each of them wants one response, and closes the connection if it does not come in time.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::clients::{Outcomes, REQUEST};

/// People before one server. They come at fixed moments, whatever the server does.
pub struct People {
    address: SocketAddr,
    patience: Duration,
    poll: Poll,
    events: Events,
    input: Vec<u8>,
    /// Connections by their tokens. A place is empty once its people have left.
    conns: Vec<Option<Conn>>,
    vacant: Vec<usize>,
    /// Connections on which a response has come, for the next of them.
    idle: Vec<usize>,
    open: usize,
    /// People for whom there is no connection, by when they came.
    waiting: VecDeque<Instant>,
    /// The requests in flight in the order in which people give up, some of which are over.
    in_flight: VecDeque<Request>,
    last_number: u64,
}

struct Conn {
    stream: TcpStream,
    is_connected: bool,
    request: Option<Request>,
}

/// A request of somebody who came at that moment.
#[derive(Clone, Copy)]
struct Request {
    number: u64,
    conn: usize,
    came: Instant,
}

/// How a request ended: its answer is `None` if there was none in time.
struct Ended {
    request: Request,
    is_ok: Option<bool>,
}

impl People {
    pub fn new(address: SocketAddr, patience: Duration) -> People {
        People {
            address,
            patience,
            poll: Poll::new().expect("an epoll"),
            events: Events::with_capacity(1024),
            input: vec![0; 4096],
            conns: Vec::new(),
            vacant: Vec::new(),
            idle: Vec::new(),
            open: 0,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            last_number: 0,
        }
    }

    /// Has `rate` people come in a second, evenly, for so long. Responses count from when the first of them give up.
    pub fn come(&mut self, rate: f64, time: Duration) -> Outcomes {
        let started = Instant::now();
        let due = |count: u64| started + Duration::from_secs_f64(count as f64 / rate);
        let (mut outcomes, mut count) = (Outcomes::default(), 0);
        while started.elapsed() < time {
            let now = Instant::now();
            while due(count) <= now {
                self.waiting.push_back(due(count));
                count += 1;
            }
            for Ended { request, is_ok } in self.step(Duration::ZERO) {
                let took = request.came.elapsed();
                let counts = started.elapsed() >= self.patience && took <= self.patience;
                is_ok.filter(|_| counts).iter().for_each(|is_ok| outcomes.add(*is_ok, took, self.patience));
            }
        }
        outcomes
    }

    /// How long it takes from now on until a response comes within `quick` to somebody new, while the people who are
    /// there still wait. `None` if it takes longer than `most`.
    pub fn recover(&mut self, quick: Duration, most: Duration) -> Option<Duration> {
        let started = Instant::now();
        while started.elapsed() < most {
            let came = Instant::now();
            let probe = self.open(came);
            let ended = loop {
                let ended = self.step(Duration::from_millis(1));
                if let Some(ended) = ended.into_iter().find(|ended| ended.request.number == probe) {
                    break ended;
                }
            };
            if ended.is_ok == Some(true) && came.elapsed() <= quick {
                return Some(came - started);
            }
        }
        None
    }

    /// Sends what can be sent, and receives what has come. Returns the requests that ended.
    fn step(&mut self, wait: Duration) -> Vec<Ended> {
        let mut ended = self.give_up();
        // A few at a time, so that responses are not left for later.
        for _ in 0..AT_ONCE {
            let Some(&came) = self.waiting.front() else { break };
            match self.idle.pop() {
                Some(index) => self.ask(index, came),
                None if self.open < CONNECTIONS_MAX => drop(self.open(came)),
                None => break,
            }
            self.waiting.pop_front();
        }
        self.poll.poll(&mut self.events, Some(wait)).expect("events");
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        ended.extend(ready.into_iter().filter_map(|index| self.proceed(index)));
        ended
    }

    /// Has those leave who have waited for too long, with their connections.
    fn give_up(&mut self) -> Vec<Ended> {
        let Some(latest) = Instant::now().checked_sub(self.patience) else { return Vec::new() };
        while self.waiting.front().is_some_and(|came| *came <= latest) {
            self.waiting.pop_front();
        }
        let mut ended = Vec::new();
        while let Some(&request) = self.in_flight.front().filter(|request| request.came <= latest) {
            self.in_flight.pop_front();
            let current = self.conns[request.conn].as_ref().and_then(|conn| conn.request);
            if current.is_some_and(|current| current.number == request.number) {
                self.close(request.conn);
                ended.push(Ended { request, is_ok: None });
            }
        }
        ended
    }

    /// Opens a connection for somebody. Returns the number of the request.
    fn open(&mut self, came: Instant) -> u64 {
        let mut stream = TcpStream::connect(self.address).expect("a port is free");
        let index = self.vacant.pop().unwrap_or(self.conns.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index), interest).expect("a socket");
        if index == self.conns.len() {
            self.conns.push(None);
        }
        self.conns[index] = Some(Conn { stream, is_connected: false, request: None });
        self.open += 1;
        self.ask(index, came);
        self.last_number
    }

    /// Sends a request, once there is a connection.
    fn ask(&mut self, index: usize, came: Instant) {
        self.last_number += 1;
        let request = Request { number: self.last_number, conn: index, came };
        self.in_flight.push_back(request);
        let conn = self.conns[index].as_mut().expect("it is open");
        conn.request = Some(request);
        if conn.is_connected {
            // A connection that the server has closed meanwhile ends when it is read.
            let _ = conn.stream.write(REQUEST);
        }
    }

    /// Goes on with a connection that is ready. Returns the request on it, if that has ended.
    fn proceed(&mut self, index: usize) -> Option<Ended> {
        let conn = self.conns[index].as_mut()?;
        if !conn.is_connected && conn.stream.peer_addr().is_ok() {
            conn.is_connected = true;
            let _ = conn.stream.set_nodelay(true);
            let _ = conn.stream.write(REQUEST);
        }
        let read = match conn.stream.read(&mut self.input) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                return None;
            }
            read => read.unwrap_or(0),
        };
        let request = conn.request.take();
        // Responses are small, and come in one piece.
        let input = &self.input[..read];
        let is_last = input.windows(CLOSE.len()).any(|octets| octets.eq_ignore_ascii_case(CLOSE));
        let is_ok = (read > 0).then(|| input.starts_with(b"HTTP/1.1 200 "));
        match request {
            Some(_) if read > 0 && !is_last => self.idle.push(index),
            Some(_) => self.close(index),
            None => {
                self.idle.retain(|idle| *idle != index);
                self.close(index);
            }
        }
        request.map(|request| Ended { request, is_ok })
    }

    fn close(&mut self, index: usize) {
        self.conns[index] = None;
        self.vacant.push(index);
        self.open -= 1;
    }
}

const AT_ONCE: usize = 64;

const CLOSE: &[u8] = b"connection: close";

/// More people than that wait before the door.
pub const CONNECTIONS_MAX: usize = 16_384;
