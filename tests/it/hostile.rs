//! Whatever peers do, the server answers or refuses, and is well afterwards.

use std::cell::RefCell;

use bytes::Bytes;
use corehttp::{BodyPlan, Context, Handler, Method, Request, Result, with_plan};

use crate::support::answers::answers;
use crate::support::wired::{Then, Wired};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Conversations good and bad, to be spoiled.
const CORPUS: &[&str] = &[
    GET,
    "HEAD /a HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
    "GET /?q=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /ab HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET http://b:80/abc HTTP/1.1\r\nhost: a\r\nconnection: close, te\r\nte: trailers\r\n\r\n",
    "CONNECT b:443 HTTP/1.1\r\nhost: b:443\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
    "\r\nPOST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nhello",
    "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 31\r\n\r\nGET /hidden HTTP/1.1\r\nhost: a\r\n\r\n",
    "POST /ab HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n00\r\nx: y\r\n\r\n",
    "PUT /abc HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\n\r\r\n2\r\n\n\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nx : y\r\n z\r\n\r\n",
    "GET / HTTP/1.1\nhost: a\n\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// What is often read in two ways.
const SPICE: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\"",
    b"0",
    b"-1",
    b"+",
    b"0x",
    b"\x7f",
    b"\xff",
    b"\r\n\r\n",
    b"\r\n ",
    b"chunked",
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"HTTP/1.1",
    b"ffffffffffffffff",
    b"18446744073709551616",
    b"connection: close\r\n",
    b"0\r\n\r\n",
    GET.as_bytes(),
];

/// A source of numbers that are the same each time.
struct Dice(u64);

impl Dice {
    /// A number less than `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    /// One or two conversations, spoiled in a few places.
    fn conversation(&mut self) -> Vec<u8> {
        let count = 1 + self.roll(2);
        let mut wire = (0..count).flat_map(|_| self.pick(CORPUS).bytes()).collect();
        for _ in 0..self.roll(5) {
            self.spoil(&mut wire);
        }
        wire
    }

    fn spoil(&mut self, wire: &mut Vec<u8>) {
        let at = self.roll(wire.len() + 1);
        let end = (at + self.roll(9)).min(wire.len());
        match self.roll(6) {
            0 => wire[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << self.roll(8)),
            1 => drop(wire.splice(at..at, self.pick(SPICE).iter().copied())),
            2 => drop(wire.splice(at..end, self.pick(SPICE).iter().copied())),
            3 => drop(wire.drain(at..end)),
            4 => drop(wire.splice(at..at, wire[at..end].repeat(1 + self.roll(99)))),
            _ => wire.truncate(at.max(1)),
        }
    }

    /// `wire` in packets.
    fn cut<'a>(&mut self, mut wire: &'a [u8]) -> Vec<&'a [u8]> {
        let mut packets = Vec::new();
        while !wire.is_empty() {
            let (packet, rest) = wire.split_at(1 + self.roll(wire.len()));
            packets.push(packet);
            wire = rest;
        }
        packets
    }
}

thread_local! {
    /// What handlers on this thread were asked.
    static SEEN: RefCell<Vec<(String, Bytes)>> = RefCell::default();
}

/// Answers in one of several ways, by the length of the path.
async fn app(ctx: &mut Context) -> Result {
    let line = format!("{} {}", ctx.request.method(), ctx.request.path());
    let body = match plan(&ctx.request) {
        BodyPlan::Stream if ctx.request.path().len() == 2 => {
            let (mut read, mut body) = (Vec::new(), ctx.body_reader());
            while let Some(chunk) = body.chunk().await? {
                read.extend_from_slice(chunk);
            }
            read.into()
        }
        // Left unread.
        BodyPlan::Stream => Bytes::new(),
        _ => Bytes::copy_from_slice(ctx.request.body.bytes()),
    };
    SEEN.with_borrow_mut(|seen| seen.push((line, body)));
    if ctx.request.method() == Method::Head {
        ctx.response.headers.set("asked", "HEAD")?;
    }
    if ctx.request.path().len() == 4 {
        let mut out = ctx.stream().await?;
        out.write_all(b"fi").await?;
        out.flush().await?;
        out.write_all(b"ne").await?;
        return Ok(out.finish().await?);
    }
    ctx.response.text("fine");
    Ok(())
}

fn plan(request: &Request) -> BodyPlan {
    match request.path().len() {
        2 | 3 => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    }
}

/// What became of a conversation: what handlers saw, and whether something was refused then. Of two faults it depends
/// on the packets which one is seen first, and so with which status it is refused.
#[derive(Debug, PartialEq)]
struct Fate {
    seen: Vec<(String, Bytes)>,
    refused: bool,
}

/// All of the answers are well formed, every request that was seen has one, and nothing follows a refusal.
#[track_caller]
fn fate<H: Handler>(wired: &Wired<H>, packets: &[&[u8]], then: Then) -> Fate {
    let mut heard = wired.ask(packets, then);
    let last = heard.rsplit("HTTP/1.1 ").next().unwrap_or_default();
    if last.ends_with("\r\nconnection: close\r\n\r\n") && !last.starts_with("200 ") {
        // What is announced is not there: this was HEAD.
        let reason = last.split_once("\r\n").and_then(|line| line.0.split_once(' ')).unwrap().1.to_owned();
        heard += &reason;
    }
    let heard = answers(&heard);
    let heard = heard.iter().filter(|answer| answer.status >= 200);
    let (answered, refused): (Vec<_>, Vec<_>) = heard.partition(|answer| answer.status == 200);
    let seen = SEEN.take();
    assert_eq!(answered.len(), seen.len());
    // Nothing comes behind an answer that says that it is the last, and this one does.
    refused.iter().for_each(|refused| refused.check_refusal());
    Fate { seen, refused: !refused.is_empty() }
}

#[test]
fn spoiled_conversations_are_answered_or_refused_however_they_are_cut() {
    let (wired, mut dice) = (Wired::new(with_plan(plan, app)), Dice(0x5eed));
    for round in 0..ROUNDS {
        let wire = dice.conversation();
        let then = dice.pick(&[Then::Ends, Then::Waits]);
        let whole = fate(&wired, &[&wire], then);
        let cut = fate(&wired, &dice.cut(&wire), then);
        assert_eq!(cut, whole, "{round}: {}", wire.escape_ascii());
        let next = fate(&wired, &[GET.as_bytes()], Then::Ends);
        assert_eq!((next.seen.len(), next.refused), (1, false), "{round}: {}", wire.escape_ascii());
    }
}

const ROUNDS: usize = 300_000;
