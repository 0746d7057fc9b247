//! [`Reply`]: what a server may say to a request, and what it does then.

use crate::chance::Chance;
use crate::chunks::{Chunks, content};
use crate::connection_option::{CONNECTIONS, ConnectionOption};

/// One response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The statuses of the interim responses before it.
    pub interim: Vec<u16>,
    pub version: &'static str,
    pub status: u16,
    pub field: &'static str,
    pub connection: (&'static str, ConnectionOption),
    pub body: Body,
    pub fault: Fault,
    /// Where it is cut into packets.
    pub cuts: Vec<usize>,
    pub then: Then,
}

#[derive(Clone, Debug)]
pub enum Body {
    Length(usize),
    Chunked(Chunks),
    UntilClose(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// The server closes instead, that many times.
    Vanishes(usize),
    /// Only this many thousandths are said, and then the server closes, or falls silent.
    Cut(usize),
    Stalls(usize),
    /// Something else stands for a part of the head; or for one that only matters if there is content.
    Head(&'static str, &'static str),
    Framing(&'static str),
    /// The request has asked for no other protocol.
    Switches,
    /// Interim responses that do not end.
    Endless,
}

/// The treatment of the connection behind the response, which no field has announced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    Keeps,
    Ends,
    Babbles,
}

/// The number in the target of a request that begins like this, which tells what to answer.
pub fn tag(head: &str) -> usize {
    head.split([' ', '/']).nth(2).and_then(|tag| tag.parse().ok()).unwrap_or(usize::MAX)
}

impl Reply {
    pub fn draw(chance: &mut Chance) -> Reply {
        let size = |chance: &mut Chance| chance.one_of(&[0, 1, 5, 30, 300, 300, 20_000]);
        let body = match chance.below(8) {
            0..4 => Body::Length(size(chance)),
            4..7 => Body::Chunked(Chunks::draw(chance, size)),
            _ => Body::UntilClose(size(chance)),
        };
        let mut reply = Reply {
            interim: chance.some(3, |chance| chance.one_of(&[100, 102, 103, 199])),
            version: chance.one_of(&["1.1", "1.1", "1.1", "1.1", "1.0", "1.8"]),
            status: chance.one_of(&[200, 200, 200, 201, 204, 299, 301, 304, 404, 599]),
            field: chance.one_of(FIELDS),
            connection: chance.one_of(CONNECTIONS),
            body,
            fault: Fault::None,
            cuts: Vec::new(),
            then: chance.one_of(&[
                Then::Keeps,
                Then::Keeps,
                Then::Keeps,
                Then::Keeps,
                Then::Ends,
                Then::Babbles,
            ]),
        };
        match (chance.below(24), &mut reply.body) {
            (0 | 1, _) => reply.fault = Fault::Vanishes(1 + chance.below(2)),
            (2 | 3, _) => reply.fault = Fault::Cut(chance.below(1000)),
            (4, _) => reply.fault = Fault::Stalls(chance.below(1000)),
            (5, _) => {
                let (good, bad) = chance.one_of(HEAD_FAULTS);
                reply.fault = Fault::Head(good, bad);
            }
            (6, _) => reply.fault = Fault::Framing(chance.one_of(FRAMING_FAULTS)),
            (7, _) => reply.fault = chance.one_of(&[Fault::Switches, Fault::Endless]),
            (8, Body::Chunked(chunks)) => chunks.spoil(chance),
            _ => {}
        }
        let len = reply.interim().len() + reply.head().len() + 40;
        reply.cuts = chance.some(4, |chance| chance.below(len));
        reply
    }

    pub fn interim(&self) -> String {
        let interim = match self.fault {
            Fault::Switches => vec![101],
            Fault::Endless => vec![103; 17],
            _ => self.interim.clone(),
        };
        // They may have 64 KiB together.
        let long = match self.fault {
            Fault::Endless => format!("x: {}\r\n", "a".repeat(4 << 10)),
            _ => String::new(),
        };
        // A length has no meaning there (RFC 9110 §15.2).
        let head = |status| format!("HTTP/1.1 {status} x\r\ncontent-length: 5\r\n{long}\r\n");
        interim.iter().map(head).collect()
    }

    pub fn head(&self) -> String {
        let Reply { version, status, field, connection, body, .. } = self;
        let framing = match body {
            Body::Length(length) => format!("Content-Length: {length}\r\n"),
            Body::Chunked(_) => "transfer-encoding:CHUNKED\r\n".into(),
            Body::UntilClose(_) => String::new(),
        };
        let (good, bad) = match self.fault {
            Fault::Head(good, bad) => (good, bad),
            Fault::Framing(bad) => ("x-framing: \r\n", bad),
            _ => ("", ""),
        };
        let head = format!("HTTP/{version} {status} \r\nx-framing: \r\n{field}{}{framing}\r\n", connection.0);
        head.replacen(good, bad, 1)
    }

    /// Whether it can have content, where the method is this one (RFC 9112 §6.3).
    pub fn has_body(&self, method: &str) -> bool {
        method != "HEAD" && ![204, 304].contains(&self.status)
    }

    /// Whether the connection persists, by what it says (RFC 9112 §9.3).
    pub fn persists(&self, method: &str) -> bool {
        let may_follow = match self.connection.1 {
            ConnectionOption::Close => false,
            ConnectionOption::KeepAlive => true,
            ConnectionOption::Absent => self.version != "1.0",
        };
        may_follow && !(matches!(self.body, Body::UntilClose(_)) && self.has_body(method))
    }

    /// The octets behind the head, unless there is no content because of the request or the status.
    pub fn body(&self) -> String {
        match &self.body {
            Body::Length(length) | Body::UntilClose(length) => content(*length),
            Body::Chunked(chunks) => chunks.wire(&content(chunks.len())),
        }
    }

    /// The content, and its trailer.
    pub fn content(&self) -> (String, &str) {
        match &self.body {
            Body::Length(length) | Body::UntilClose(length) => (content(*length), ""),
            Body::Chunked(chunks) => (content(chunks.len()), chunks.trailer.unwrap_or_default()),
        }
    }
}

const FIELDS: &[&str] = &[
    "",
    "",
    "x-!#$%&'*+.^_`|~: \t a b \t\r\n",
    "x: a\r\n\tfolded: line\r\n",
    "x:\r\nx:caf\u{e9}\t\u{fc}\r\n",
    "content_length: 5\r\nx-transfer-encoding: chunked\r\n",
    "upgrade: h2c\r\nconnection: upgrade\r\n",
];

const HEAD_FAULTS: &[(&str, &str)] = &[
    ("HTTP/1.", "HTTP/2."),
    ("HTTP/1.", "http/1."),
    ("HTTP/1.", "\r\nHTTP/1."),
    (" ", "  "),
    (" ", "\t"),
    (" ", " 2"),
    ("\r\n", "\n"),
    ("\r\n", "\r\r\n"),
    ("\r\n", "\r\n a: folded\r\n"),
    ("x-framing: \r\n", "x-framing : \r\n"),
    ("x-framing: \r\n", "x-framing: \0\r\n"),
    ("x-framing: \r\n", "x-framing: \n\r\n"),
    ("x-framing: \r\n", ": a\r\n"),
    ("x-framing: \r\n", "a\r\n"),
];

const FRAMING_FAULTS: &[&str] = &[
    "content-length: +1\r\n",
    "content-length: 1, 1\r\n",
    "content-length: 1\r\ncontent-length: 1\r\n",
    "content-length: 1\r\ntransfer-encoding: chunked\r\n",
    "transfer-encoding: chunked, chunked\r\n",
    "transfer-encoding: identity\r\n",
];
