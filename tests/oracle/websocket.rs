//! [`FrameReader`]: reads what one peer of a WebSocket says, frame by frame (RFC 6455 §5, RFC 7692 §6).

use std::str::from_utf8;

use super::reader::Next;

/// Reads the octets that `sender` has sent.
#[derive(Clone, Debug)]
pub struct FrameReader<'a> {
    rest: &'a [u8],
    sender: Sender,
    /// Whether messages may be compressed.
    compresses: bool,
    message: Option<Message>,
}

/// The peer whose frames are read. A client masks its frames, and a server does not (RFC 6455 §5.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sender {
    Client,
    Server,
}

/// A message, or a control frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Message(Message),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// The code and the reason; 1005 and nothing, if the frame is empty (RFC 6455 §7.1.5).
    Close(u16, String),
}

/// A message as far as it is here, and how it was sent. A compressed one has its content compressed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub is_text: bool,
    pub is_compressed: bool,
    pub content: Vec<u8>,
    pub frames: usize,
    /// How long its frames are by their heads: the longest, and all of them.
    pub longest: u64,
    pub announced: u64,
}

/// The head of a frame.
struct Head {
    is_final: bool,
    is_compressed: bool,
    opcode: u8,
    len: u64,
    mask: [u8; 4],
}

/// A rule that a frame breaks; `None` if its head is not whole.
type Stop = Option<&'static str>;

impl<'a> FrameReader<'a> {
    pub fn new(wire: &'a [u8], sender: Sender, compresses: bool) -> FrameReader<'a> {
        FrameReader { rest: wire, sender, compresses, message: None }
    }

    /// Reads up to the next message or control frame. Fragments of one message may have control frames between them.
    pub fn event(&mut self) -> Next<Event> {
        loop {
            if self.rest.is_empty() && self.message.is_none() {
                return Next::Nothing;
            }
            let head = match self.head() {
                Ok(head) => head,
                Err(Some(rule)) => return self.refuse(rule),
                Err(None) => return Next::Partial(self.open()),
            };
            let read = match head.opcode {
                0x0..=0x2 => self.fragment(&head),
                _ => self.control(&head),
            };
            if let Some(next) = read {
                return next;
            }
        }
    }

    /// The message of which some frames are here, and others are to follow.
    pub fn open(&self) -> Option<Event> {
        self.message.clone().map(Event::Message)
    }

    fn refuse(&self, rule: &'static str) -> Next<Event> {
        Next::Refused(self.open(), rule)
    }

    /// RFC 6455 §5.2.
    fn head(&mut self) -> Result<Head, Stop> {
        let first = *self.rest.first().ok_or(None)?;
        let (is_final, is_compressed, opcode) = (first & 0x80 != 0, first & 0x40 != 0, first & 0x0f);
        let is_control = opcode >= 0x8;
        ensure(matches!(opcode, 0x0..=0x2 | 0x8..=0xa), "6455 §5.2: an opcode is one that is defined")?;
        ensure(first & 0x30 == 0, "6455 §5.2: RSV2 and RSV3 are 0")?;
        let may_compress = self.compresses && matches!(opcode, 0x1 | 0x2);
        ensure(!is_compressed || may_compress, "7692 §6: RSV1 is of the first frame of a message")?;
        ensure(is_final || !is_control, "6455 §5.5: a control frame is not fragmented")?;
        let second = *self.rest.get(1).ok_or(None)?;
        let is_masked = second & 0x80 != 0;
        ensure(is_masked == (self.sender == Sender::Client), "6455 §5.1: a client masks, a server does not")?;
        ensure(!is_control || second & 0x7f < 126, "6455 §5.5: a control frame has 125 octets at most")?;
        let (len, least, start) = match second & 0x7f {
            126 => (self.number(2).ok_or(None)?, 126, 4),
            127 => {
                let is_small = self.rest.get(2).is_none_or(|octet| octet & 0x80 == 0);
                ensure(is_small, "6455 §5.2: a length has 63 bits")?;
                (self.number(8).ok_or(None)?, 1 << 16, 10)
            }
            len => (u64::from(len), 0, 2),
        };
        ensure(len >= least, "6455 §5.2: a length has its shortest form")?;
        let mask = match is_masked {
            true => *self.rest.get(start..).and_then(<[u8]>::first_chunk).ok_or(None)?,
            false => [0; 4],
        };
        self.rest = &self.rest[start + if is_masked { 4 } else { 0 }..];
        Ok(Head { is_final, is_compressed, opcode, len, mask })
    }

    /// The number of so many octets after the first two.
    fn number(&self, octets: usize) -> Option<u64> {
        let digits = self.rest.get(2..2 + octets)?;
        Some(digits.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
    }

    /// A frame of a message (RFC 6455 §5.4). `None` if others follow.
    fn fragment(&mut self, head: &Head) -> Option<Next<Event>> {
        let is_text = match (head.opcode, &self.message) {
            (0x0, None) => return Some(self.refuse("6455 §5.4: a continuation goes on with a message")),
            (0x0, Some(message)) => message.is_text,
            (_, Some(_)) => return Some(self.refuse("6455 §5.4: no message begins within another")),
            (opcode, None) => opcode == 0x1,
        };
        let payload = self.payload(head);
        let is_whole = payload.len() as u64 == head.len;
        let begun = Message { is_text, is_compressed: head.is_compressed, ..Message::default() };
        let mut message = self.message.take().unwrap_or(begun);
        message.content.extend(payload);
        message.frames += 1;
        message.longest = message.longest.max(head.len);
        message.announced = message.announced.saturating_add(head.len);
        let is_over = is_whole && head.is_final;
        if is_text && !message.is_compressed && !may_be_text(&message.content, is_over) {
            return Some(Next::Refused(Some(Event::Message(message)), TEXT));
        }
        match (is_over, is_whole) {
            (true, _) => Some(Next::Whole(Event::Message(message))),
            (false, true) => {
                self.message = Some(message);
                None
            }
            (false, false) => Some(Next::Partial(Some(Event::Message(message)))),
        }
    }

    /// A control frame (RFC 6455 §5.5).
    fn control(&mut self, head: &Head) -> Option<Next<Event>> {
        let payload = self.payload(head);
        if (payload.len() as u64) < head.len {
            return Some(Next::Partial(self.open()));
        }
        Some(match (head.opcode, &*payload) {
            (0x9, _) => Next::Whole(Event::Ping(payload)),
            (0xa, _) => Next::Whole(Event::Pong(payload)),
            (_, []) => Next::Whole(Event::Close(1005, String::new())),
            (_, [_]) => self.refuse("6455 §5.5.1: a code has two octets"),
            (_, [high, low, text @ ..]) => {
                let code = u16::from_be_bytes([*high, *low]);
                match (code, from_utf8(text)) {
                    (0..1000 | 1004..=1006 | 1015..3000 | 5000.., _) => {
                        self.refuse("6455 §7.4: a code is one that may be sent")
                    }
                    (_, Err(_)) => self.refuse(REASON),
                    (_, Ok(text)) => Next::Whole(Event::Close(code, text.into())),
                }
            }
        })
    }

    /// As much as there is of the payload, without its mask (RFC 6455 §5.3).
    fn payload(&mut self, head: &Head) -> Vec<u8> {
        let there = usize::try_from(head.len).unwrap_or(usize::MAX).min(self.rest.len());
        let (payload, rest) = self.rest.split_at(there);
        self.rest = rest;
        payload.iter().zip(head.mask.iter().cycle()).map(|(octet, key)| octet ^ key).collect()
    }
}

/// The rules that are about content.
const TEXT: &str = "6455 §8.1: a text is UTF-8";
const REASON: &str = "6455 §5.5.1: a reason is UTF-8";

/// Whether a rule is about content, and not about frames.
pub fn is_about_content(rule: &str) -> bool {
    matches!(rule, TEXT | REASON)
}

fn ensure(holds: bool, rule: &'static str) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Some(rule)) }
}

/// Whether `text` is UTF-8, or at least the beginning of it.
pub fn may_be_text(text: &[u8], is_whole: bool) -> bool {
    from_utf8(text)
        .map_err(|error| error.error_len().is_none())
        .map_or_else(|is_cut| is_cut && !is_whole, |_| true)
}

/// The lengths of the frames in `wire`, whatever else is wrong with them, and whether one of them is a close frame. The
/// last one may not be whole.
pub fn frame_ends(wire: &[u8]) -> (Vec<usize>, Option<usize>) {
    let (mut at, mut ends, mut close) = (0, Vec::new(), None);
    while let Some([first, second]) = wire[at..].first_chunk() {
        let octets = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(digits) = wire.get(at + 2..at + 2 + octets) else { break };
        let number = digits.iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet));
        let len = if octets == 0 { u64::from(second & 0x7f) } else { number };
        let mask = if second & 0x80 != 0 { 4 } else { 0 };
        if first & 0x0f == 0x8 {
            close.get_or_insert(at);
        }
        let end = len.saturating_add(mask).saturating_add((at + 2 + octets) as u64);
        let Some(end) = usize::try_from(end).ok().filter(|end| *end <= wire.len()) else { break };
        ends.push(end);
        at = end;
    }
    (ends, close)
}
