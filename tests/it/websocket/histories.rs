//! Random histories of a WebSocket whose application gives up its calls at any await: each message arrives once, whole
//! and in order, in both directions, however the pipe between both ends cuts it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use corehttp::websocket::{self, CloseCode, DeflateOptions, Message, MessageKind, MessagePart, WebSocket};
use corehttp::{Context, Server};
use flate2::Decompress;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf, duplex, split};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout};

use super::compression::{OFFER, compressed, deflate, inflated};
use super::support::{BINARY, CLOSE, HEAD, PING, RSV1, TEXT, close, frame, unmasked};
use crate::support::chance::{Chance, check_histories};
use crate::support::paused;

#[test]
fn calls_that_are_given_up_lose_and_repeat_nothing() {
    check_histories("it websocket::histories", (60, 25), Step::draw, |steps| {
        let play = async { LocalSet::new().run_until(play(steps)).await };
        paused(play);
    });
}

#[derive(Clone, Debug)]
enum Step {
    /// How many bytes the pipe holds.
    Pipe(usize),
    /// The reader and the writer are in tasks of their own, and not both in the handler.
    Tasks,
    /// Both ends compress messages, and with `true` those that refer to earlier ones.
    Deflate(bool),
    /// The peer closes once it has sent all, and does not wait for the server to close.
    PeerCloses,
    Peer(Sent),
    Reader(Read, Patience),
    Writer(Write, Patience),
}

#[derive(Clone, Debug)]
enum Sent {
    Message { len: usize, cuts: Vec<usize>, pings: bool },
    Ping(usize),
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Message,
    Part,
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Message(usize),
    Feed(usize),
    Part(usize, bool),
    Ping(usize),
    Flush,
    Close,
}

/// When a call is given up.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// After so many polls.
    Polls(usize),
    /// Once nothing else can happen.
    Long,
}

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        let lens = [0, 1, 3, 9, 100, 130, 600, 5000, 20_000, 70_000, 150_000];
        let longest = if chance.once_in(3) { lens.len() } else { 6 };
        let len = chance.one_of(&lens[..longest]);
        let patience = match chance.below(6) {
            5 => Patience::Long,
            polls => Patience::Polls(polls),
        };
        match chance.below(24) {
            0 => Step::Pipe(chance.one_of(&[1, 7, 64, 4096, 1 << 20])),
            1 => Step::Tasks,
            2 => Step::Deflate(chance.once_in(2)),
            3 if chance.once_in(3) => Step::PeerCloses,
            3 => Step::Writer(Write::Flush, patience),
            4 => Step::Peer(Sent::Ping(len.min(125))),
            5..9 => {
                let cuts = chance.some(4, |chance| chance.below(len + 1));
                Step::Peer(Sent::Message { len, cuts, pings: chance.once_in(3) })
            }
            9..13 => Step::Reader(Read::Message, patience),
            13..16 => Step::Reader(Read::Part, patience),
            16..19 => Step::Writer(Write::Message(len), patience),
            19 => Step::Writer(Write::Feed(len), patience),
            20 | 21 => Step::Writer(Write::Part(len, chance.once_in(2)), patience),
            22 => Step::Writer(Write::Ping(len.min(125)), patience),
            _ if chance.once_in(6) => Step::Writer(Write::Close, patience),
            _ => Step::Reader(Read::Message, Patience::Long),
        }
    }
}

/// The content of a message or control frame: letters, so that it is a text, that differ from those of the one before.
fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + ((number * 7 + at + at / 26) % 26) as u8).collect()
}

/// Both kinds take turns.
fn kind(number: usize) -> MessageKind {
    if number.is_multiple_of(2) { MessageKind::Text } else { MessageKind::Binary }
}

async fn play(steps: &[Step]) {
    let find = |map: fn(&Step) -> Option<usize>| steps.iter().find_map(map);
    let room = find(|step| if let Step::Pipe(room) = step { Some(*room) } else { None }).unwrap_or(500);
    let deflate = find(|step| if let Step::Deflate(keeps) = step { Some(usize::from(*keeps)) } else { None });
    let deflate = deflate.map(|keeps| keeps == 1);
    let (near, far) = duplex(room);
    let (expected, start) = (Rc::<RefCell<Vec<Frame>>>::default(), Instant::now());
    let handler = {
        let (steps, expected) = (steps.to_vec(), expected.clone());
        let all = steps.clone();
        async move |ctx: &mut Context| application(ctx, all.clone(), deflate, expected.clone()).await
    };
    let service = Server::new().service(handler);
    let served = spawn_local(async move { service.serve_connection(far).await });
    let (frames, pings) = peer(near, steps, deflate).await;
    let _ = served.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "a task was not woken: {:?}", start.elapsed());
    let (pongs, sent): (Vec<Frame>, Vec<Frame>) =
        frames.into_iter().partition(|frame| matches!(frame, Frame::Pong(_)));
    let pongs: Vec<Vec<u8>> = pongs.into_iter().map(Frame::into_payload).collect();
    // While much waits to be sent, only the last ping is answered (RFC 6455 §5.5.3).
    let mut asked = pings.iter();
    assert!(pongs.iter().all(|pong| asked.any(|ping| ping == pong)), "pongs: {pongs:?} of {pings:?}");
    let expected = expected.take();
    assert_eq!(sent.len(), expected.len(), "what the peer gets: {sent:?}, instead of: {expected:?}");
    assert!(sent == expected, "what the peer gets is not what was sent");
}

/// A message or control frame.
#[derive(Debug, PartialEq)]
enum Frame {
    Message(MessageKind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

impl Frame {
    fn into_payload(self) -> Vec<u8> {
        match self {
            Frame::Message(_, payload) | Frame::Ping(payload) | Frame::Pong(payload) => payload,
        }
    }
}

/// The application at the server, which notes in `expected` what its peer is to get.
async fn application(
    ctx: &mut Context,
    steps: Vec<Step>,
    deflate: Option<bool>,
    expected: Rc<RefCell<Vec<Frame>>>,
) -> corehttp::Result {
    let deflate = deflate.map(|context_takeover| DeflateOptions {
        message_min: 50,
        context_takeover,
        ..DeflateOptions::default()
    });
    let settings = websocket::Options { deflate, buffer_max: 3000, ..websocket::Options::default() };
    let WebSocket { reader, writer, .. } = ctx.websocket(&settings).await?;
    let sent: Vec<usize> = steps
        .iter()
        .filter_map(|step| if let Step::Peer(Sent::Message { len, .. }) = step { Some(*len) } else { None })
        .collect();
    let mut reads = Reads { reader, sent, number: 0, at: 0 };
    let mut writes = Writes { writer, expected, number: 0, open: None };
    if !steps.iter().any(|step| matches!(step, Step::Tasks)) {
        for step in steps {
            match step {
                Step::Reader(read, patience) => drop(given_up(patience, reads.read(read)).await),
                Step::Writer(write, patience) => writes.write(write, patience).await,
                _ => {}
            }
        }
        tokio::join!(reads.finish(), writes.finish());
        return Ok(());
    }
    let (for_reader, for_writer) = (steps.clone(), steps);
    let reading = spawn_local(async move {
        for step in for_reader {
            if let Step::Reader(read, patience) = step {
                given_up(patience, reads.read(read)).await;
            }
        }
        reads.finish().await;
    });
    let writing = spawn_local(async move {
        for step in for_writer {
            if let Step::Writer(write, patience) = step {
                writes.write(write, patience).await;
            }
        }
        writes.finish().await;
    });
    reading.await.unwrap();
    writing.await.unwrap();
    Ok(())
}

/// Awaits `call`, and gives it up. Its first poll is always made.
async fn given_up<T>(patience: Patience, call: impl Future<Output = T>) -> Option<T> {
    match patience {
        Patience::Long => timeout(Duration::from_millis(1), call).await.ok(),
        Patience::Polls(mut left) => {
            let mut call = pin!(call);
            poll_fn(|cx| match call.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await
        }
    }
}

/// The reader, and the messages that it is to receive.
struct Reads {
    reader: websocket::Reader,
    /// How long the messages of the peer are.
    sent: Vec<usize>,
    /// Which message is received next, and how much of it was received in parts.
    number: usize,
    at: usize,
}

impl Reads {
    /// Receives once, and checks it. Returns whether there is more.
    async fn read(&mut self, read: Read) -> bool {
        let Reads { reader, sent, number, at } = self;
        match read {
            Read::Message => {
                // The rest of a message that was received in parts is skipped, even if this call is given up.
                *number += usize::from(*at > 0);
                *at = 0;
                let Some(message) = reader.receive().await.unwrap() else { return false };
                assert!(
                    message.as_bytes() == content(*number, sent[*number]),
                    "message {number}: {message:?}"
                );
                assert_eq!(message.kind(), kind(*number));
                *number += 1;
            }
            Read::Part => {
                let Some(part) = reader.receive_part().await.unwrap() else { return false };
                let whole = content(*number, sent[*number]);
                let end = *at + part.bytes.len();
                assert!(whole.get(*at..end) == Some(part.bytes), "a part of {number} at {at}: {part:?}");
                assert_eq!(part.kind, kind(*number));
                assert!(!part.bytes.is_empty() || part.is_last, "a part has something");
                *at = end;
                if part.is_last {
                    assert_eq!(end, whole.len());
                    (*number, *at) = (*number + 1, 0);
                }
            }
        }
        true
    }

    /// Receives what is left.
    async fn finish(&mut self) {
        while self.read(Read::Message).await {}
        assert_eq!(self.number, self.sent.len(), "all messages were received");
        assert!(self.reader.close_reason().is_some());
    }
}

/// The writer, and what it is expected to have sent.
struct Writes {
    writer: websocket::Writer,
    expected: Rc<RefCell<Vec<Frame>>>,
    number: usize,
    /// The parts of a message that were sent.
    open: Option<(MessageKind, Vec<u8>)>,
}

impl Writes {
    async fn write(&mut self, write: Write, patience: Patience) {
        let Writes { writer, expected, number, open } = self;
        let (kind, was_closed, is_open) = (kind(*number), writer.is_closed(), open.is_some());
        let bytes = match write {
            Write::Message(len) | Write::Feed(len) | Write::Part(len, _) | Write::Ping(len) => {
                content(*number, len)
            }
            Write::Flush | Write::Close => Vec::new(),
        };
        let message = match kind {
            MessageKind::Text => Message::Text(std::str::from_utf8(&bytes).unwrap()),
            MessageKind::Binary => Message::Binary(&bytes),
        };
        let part_kind = open.as_ref().map_or(kind, |(kind, _)| *kind);
        let done = match write {
            Write::Message(_) => given_up(patience, writer.send(message)).await,
            Write::Feed(_) => given_up(patience, writer.feed(message)).await,
            Write::Part(_, is_last) => {
                let part = MessagePart { kind: part_kind, bytes: &bytes, is_last };
                given_up(patience, writer.send_part(part)).await
            }
            Write::Ping(_) => given_up(patience, writer.ping(&bytes)).await,
            Write::Flush => given_up(patience, writer.flush()).await,
            Write::Close => given_up(patience, writer.close(CloseCode::NORMAL, "")).await,
        };
        *number += 1;
        let is_message = matches!(write, Write::Message(_) | Write::Feed(_));
        let is_refused = is_message && is_open || was_closed && !matches!(write, Write::Flush | Write::Close);
        if is_refused {
            assert!(matches!(done, Some(Err(_))), "{write:?} is refused: {done:?}");
            return;
        }
        // A call that was given up has written all the same.
        assert!(!matches!(done, Some(Err(_))), "{write:?} {done:?}");
        let note = |frame| expected.borrow_mut().push(frame);
        match write {
            Write::Message(_) | Write::Feed(_) => note(Frame::Message(kind, bytes)),
            Write::Ping(_) => note(Frame::Ping(bytes)),
            Write::Part(_, is_last) => {
                let (_, content) = open.get_or_insert_with(|| (kind, Vec::new()));
                content.extend(bytes);
                if is_last && let Some((kind, content)) = open.take() {
                    note(Frame::Message(kind, content));
                }
            }
            Write::Flush | Write::Close => {}
        }
    }

    /// Ends the message that is open, and closes.
    async fn finish(&mut self) {
        if self.open.is_some() && !self.writer.is_closed() {
            self.write(Write::Part(1, true), Patience::Long).await;
        }
        self.writer.close(CloseCode::NORMAL, "").await.unwrap();
    }
}

/// The peer, which sends its messages, reads all the time, and closes. Returns what it got, and its pings.
async fn peer(near: DuplexStream, steps: &[Step], deflate: Option<bool>) -> (Vec<Frame>, Vec<Vec<u8>>) {
    let (mut input, output) = split(near);
    let (closed, is_closed) = (Notify::new(), Cell::new(false));
    let sending = send_all(output, steps, deflate, async {
        while !is_closed.get() {
            closed.notified().await;
        }
    });
    let receiving = async {
        let mut received = Vec::new();
        while input.read_buf(&mut received).await.unwrap_or(0) > 0 {
            if received.ends_with(&unmasked(CLOSE, 1000u16.to_be_bytes())) {
                is_closed.set(true);
                closed.notify_one();
            }
        }
        let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        received.split_off(head)
    };
    let (pings, received) = tokio::join!(sending, receiving);
    (frames(&received, deflate), pings)
}

/// Sends what the peer has to send, and the close frame, `once_closed` or at once. Returns the pings.
async fn send_all(
    mut output: WriteHalf<DuplexStream>,
    steps: &[Step],
    deflate_with: Option<bool>,
    once_closed: impl Future<Output = ()>,
) -> Vec<Vec<u8>> {
    let offer = if deflate_with.is_some() { OFFER } else { "" };
    let (mut number, mut pings, mut state) = (0, Vec::new(), deflate());
    let mut wire = format!("{HEAD}{offer}\r\n").into_bytes();
    for step in steps {
        let Step::Peer(sent) = step else { continue };
        match sent {
            Sent::Ping(len) => {
                pings.push(content(pings.len(), *len));
                wire.extend(frame(PING, &pings[pings.len() - 1]));
            }
            Sent::Message { len, cuts, pings: between } => {
                let (mut payload, mut bits) = (content(number, *len), 0);
                if deflate_with.is_some() && number % 3 != 2 && *len > 0 {
                    (payload, bits) = (compressed(&mut state, &payload), RSV1);
                    if deflate_with == Some(false) {
                        state.reset();
                    }
                }
                let mut opcode = if kind(number) == MessageKind::Text { TEXT & 0x0f } else { BINARY & 0x0f };
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.min(&payload.len())).collect();
                cuts.sort_unstable();
                let mut from = 0;
                for cut in cuts {
                    wire.extend(frame(opcode | bits, &payload[from..cut]));
                    (from, opcode, bits) = (cut, 0, 0);
                    if *between {
                        pings.push(content(pings.len(), 3));
                        wire.extend(frame(PING, &pings[pings.len() - 1]));
                    }
                }
                wire.extend(frame(0x80 | opcode | bits, &payload[from..]));
                number += 1;
            }
        }
    }
    output.write_all(&wire).await.unwrap();
    if !steps.iter().any(|step| matches!(step, Step::PeerCloses)) {
        once_closed.await;
    }
    let _ = output.write_all(&close(1000, "")).await;
    pings
}

/// The frames that are here as a whole: the first octet and the payload of each.
fn raw_frames(mut received: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let [first, len, rest @ ..] = received {
        let (len, rest) = match (*len, rest) {
            (126, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            (127, [_, _, _, _, _, _, _, _, ..]) => {
                let (len, rest) = rest.split_at(8);
                (u64::from_be_bytes(len.try_into().unwrap()) as usize, rest)
            }
            (126 | 127, _) => break,
            (len, rest) => (usize::from(len), rest),
        };
        let Some((payload, rest)) = rest.split_at_checked(len) else { break };
        frames.push((*first, payload));
        received = rest;
    }
    frames
}

/// The messages and control frames that the peer got, before the close frame, which is the last.
fn frames(received: &[u8], deflate: Option<bool>) -> Vec<Frame> {
    let (mut frames, mut open, mut state) = (Vec::new(), None, Decompress::new(false));
    let mut raw = raw_frames(received);
    let total: usize = raw.iter().map(|(_, payload)| payload.len() + head_len(payload.len())).sum();
    assert_eq!(total, received.len(), "no frame is cut");
    assert_eq!(raw.pop().map(|(first, _)| first), Some(CLOSE), "the last frame closes");
    for (first, payload) in raw {
        match first & 0x0f {
            0x9 => frames.push(Frame::Ping(payload.to_vec())),
            0xa => frames.push(Frame::Pong(payload.to_vec())),
            opcode => {
                let (_, _, content) = open.get_or_insert_with(|| {
                    let kind = if opcode == TEXT & 0x0f { MessageKind::Text } else { MessageKind::Binary };
                    (kind, first & RSV1 != 0, Vec::new())
                });
                content.extend_from_slice(payload);
                if first & 0x80 != 0
                    && let Some((kind, is_compressed, content)) = open.take()
                {
                    let content = if is_compressed { inflated(&mut state, &content) } else { content };
                    if deflate == Some(false) {
                        state.reset(false);
                    }
                    frames.push(Frame::Message(kind, content));
                }
            }
        }
    }
    frames
}

fn head_len(len: usize) -> usize {
    match len {
        0..126 => 2,
        126..0x1_0000 => 4,
        _ => 10,
    }
}
