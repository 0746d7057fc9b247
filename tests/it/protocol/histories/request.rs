//! [`Step`]: one request, as a peer may send it, and what becomes of it.

use super::DRAIN_MAX;
use crate::support::chance::Chance;
use crate::support::chunks::{Chunks, content};
use crate::support::connection_option::{CONNECTIONS, ConnectionOption};
use crate::support::wired::Then;

/// One request.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whether it comes over a new connection.
    pub is_first: bool,
    pub method: &'static str,
    pub route: Route,
    /// Tells it from the others.
    pub tag: usize,
    pub version: &'static str,
    /// Text that changes nothing: before the request, before its path, and among its fields.
    pub empty_line: &'static str,
    pub origin: &'static str,
    pub field: &'static str,
    pub connection: (&'static str, ConnectionOption),
    pub is_expecting: bool,
    pub body: Body,
    pub fault: Fault,
    /// Where it is cut into packets.
    pub cuts: Vec<usize>,
    /// How the peer goes on behind the request, if it is the last one.
    pub then: Then,
}

/// How the handler answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Route {
    /// Sends the content back, which was buffered.
    Echo,
    /// As `Echo`, but after a 103.
    Hints,
    /// Reads the content in pieces, and then sends it back in pieces.
    Streamed,
    /// Sends each piece back as it arrives.
    Duplex,
    /// Answers without reading the content, or after a piece of it.
    Early,
    Partly,
    /// Answers 204, or fails with a status.
    Empty,
    Missing,
    /// Is never called.
    Refused,
    /// Panics, before or within its response.
    Panics,
    Breaks,
    /// Takes the connection over.
    Upgrade,
}

#[derive(Clone, Debug)]
pub enum Body {
    None,
    Length(usize),
    Chunked(Chunks),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Something else stands for some part of the head, and is answered with that status.
    Head(&'static str, &'static str, u16),
    /// Only this many thousandths of it are sent, and nothing after it.
    Cut(usize),
}

impl Step {
    pub fn draw(chance: &mut Chance) -> Step {
        let route = chance.one_of(&ROUTES);
        let small = |chance: &mut Chance| chance.one_of(&[0, 1, 5, 30, 300]);
        let size = match route {
            // How much of a large one is left depends on the packets.
            Route::Partly => 30,
            _ if chance.once_in(8) => chance.one_of(&[5_000, 17_000, 25_000]),
            _ => small(chance),
        };
        let body = match chance.below(3) {
            0 => Body::None,
            1 => Body::Length(size),
            _ => Body::Chunked(Chunks::draw(chance, |chance| if size < 1000 { small(chance) } else { size })),
        };
        let mut step = Step {
            is_first: chance.once_in(4),
            method: chance.one_of(&["GET", "GET", "POST", "PUT", "DELETE", "HEAD", "M-SEARCH"]),
            route,
            tag: chance.below(1000),
            version: chance.one_of(&["1.1", "1.1", "1.1", "1.1", "1.0", "1.7"]),
            empty_line: chance.one_of(&["", "", "", "\r\n"]),
            origin: chance.one_of(&["", "", "", "http://b:1"]),
            field: chance.one_of(FIELDS),
            connection: chance.one_of(CONNECTIONS),
            // Whether a handler that reads only a piece asks for the rest depends on the packets, too.
            is_expecting: route != Route::Partly && chance.once_in(5),
            body,
            fault: Fault::None,
            cuts: Vec::new(),
            then: chance.one_of(&[Then::Ends, Then::Waits]),
        };
        if route == Route::Upgrade {
            (step.version, step.connection) =
                ("1.1", ("connection: upgrade\r\nupgrade: echo\r\n", ConnectionOption::Absent));
        }
        step.spoil(chance);
        let len = step.wire().len();
        step.cuts = chance.some(4, |chance| chance.below(len.max(1)));
        if chance.once_in(3) {
            step.cuts.push(step.head().len());
        }
        step
    }

    /// Breaks it, perhaps.
    fn spoil(&mut self, chance: &mut Chance) {
        if self.len() > DRAIN_MAX {
            // With two faults, the packets would decide which one is found first.
            return;
        }
        match (chance.below(16), &mut self.body) {
            (0, _) => {
                let (good, bad, status) = chance.one_of(HEAD_FAULTS);
                (self.version, self.fault) = ("1.1", Fault::Head(good, bad, status));
            }
            (1, Body::Chunked(chunks)) => chunks.spoil(chance),
            (2, _) => self.fault = Fault::Cut(chance.below(1000)),
            _ => {}
        }
    }

    /// The last request of every connection, whose response shows whether the connection was still open.
    pub fn farewell() -> Step {
        let mut plain = Step::draw(&mut Chance::new(0));
        (plain.method, plain.route, plain.version, plain.tag) = ("GET", Route::Echo, "1.1", 1000);
        (plain.empty_line, plain.origin, plain.field) = ("", "", "");
        (plain.connection, plain.is_expecting) = (("connection: close\r\n", ConnectionOption::Close), false);
        (plain.body, plain.fault, plain.cuts) = (Body::None, Fault::None, Vec::new());
        plain
    }

    pub fn head(&self) -> String {
        let Step { empty_line, method, origin, route, tag, version, field, .. } = self;
        let framing = match self.body {
            Body::None => String::new(),
            Body::Length(length) => format!("Content-Length:  0{length}\r\n"),
            Body::Chunked(_) => "Transfer-Encoding:\tChunked \r\n".into(),
        };
        let expect = if self.is_expecting { "expect: 100-Continue\r\n" } else { "" };
        let head = format!(
            "{empty_line}{method} {origin}/{route:?}/{tag} HTTP/{version}\r\nhost: a\r\n{field}{}{expect}{framing}\r\n",
            self.connection.0
        );
        match self.fault {
            Fault::Head(good, bad, _) => head.replacen(good, bad, 1),
            Fault::None | Fault::Cut(_) => head,
        }
    }

    pub fn wire(&self) -> String {
        let content = content(self.len());
        let body = match &self.body {
            Body::None | Body::Length(_) => content,
            Body::Chunked(chunks) => chunks.wire(&content),
        };
        let mut wire = self.head() + &body;
        if let Fault::Cut(thousandths) = self.fault {
            let mut len = wire.len() * thousandths / 1000;
            while !wire.is_char_boundary(len) {
                len -= 1;
            }
            wire.truncate(len);
        }
        wire
    }

    /// How much content it has.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::None => 0,
            Body::Length(length) => *length,
            Body::Chunked(chunks) => chunks.len(),
        }
    }
}

const ROUTES: [Route; 18] = {
    use Route::*;
    [
        Echo, Echo, Echo, Echo, Hints, Streamed, Streamed, Duplex, Duplex, Early, Early, Partly, Empty,
        Missing, Refused, Panics, Breaks, Upgrade,
    ]
};

const FIELDS: &[&str] = &[
    "",
    "",
    "x-!#$%&'*+.^_`|~: \t a b \t\r\n",
    "x:\r\nx:caf\u{e9}\t\u{fc}\r\n",
    "te: trailers\r\ntrailer: x-sum\r\n",
    "content_length: 5\r\nx-transfer-encoding: chunked\r\n",
    "connection: upgrade\r\nupgrade: h2c\r\n",
];

/// Text of a head, its replacement, and the status of the response.
const HEAD_FAULTS: &[(&str, &str, u16)] = &[
    (" HTTP/1.", "  HTTP/1.", 400),
    (" HTTP/1.", "\tHTTP/1.", 400),
    (" HTTP/1.", "#f HTTP/1.", 400),
    (" HTTP/1.", "\u{e9} HTTP/1.", 400),
    (" HTTP/1.", " http/1.", 400),
    (" HTTP/1.", " HTTP/2.", 505),
    (" HTTP/1.", "/a-target-that-is-longer-than-the-eighty-octets-that-a-request-line-may-have HTTP/1.", 414),
    ("host: a\r\n", "", 400),
    ("host: a\r\n", "host: a\n", 400),
    ("host: a\r\n", "host: a\r\nhost: a\r\n", 400),
    ("host: a\r\n", "host: a, b\r\n", 400),
    ("host: a\r\n", "host : a\r\n", 400),
    ("host: a\r\n", " host: a\r\n", 400),
    ("host: a\r\n", "host: a\r\n\tb\r\n", 400),
    ("host: a\r\n", "host: a\r\nx: \0\r\n", 400),
    ("host: a\r\n", "host: a\r\nx: \r\r\n", 400),
    ("host: a\r\n", "host: a\r\n: x\r\n", 400),
    ("host: a\r\n", "host: a\r\nx\r\n", 400),
    (
        "host: a\r\n",
        "host: a\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\nx:\r\n",
        431,
    ),
    ("host: a\r\n", "host: a\r\ncontent-length: +1\r\n", 400),
    ("host: a\r\n", "host: a\r\ncontent-length: 1, 1\r\n", 400),
    ("host: a\r\n", "host: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n", 400),
    ("host: a\r\n", "host: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n", 400),
    ("host: a\r\n", "host: a\r\ntransfer-encoding: chunked, chunked\r\n", 400),
    ("host: a\r\n", "host: a\r\ntransfer-encoding: identity\r\n", 400),
    ("host: a\r\n", "host: a\r\nexpect: wonders\r\n", 417),
];
