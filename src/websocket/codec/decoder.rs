//! [`Decoder`]: messages and control frames of the bytes that have arrived (RFC 6455 §5.4 to §5.6, RFC 7692 §7.2.2).

use super::deflate::{DeflateParams, Inflater};
use super::input::Input;
use crate::websocket::frame::{
    CloseReason, Error, FrameHeader, Mask, MessageKind, OpCode, ProtocolFault, Side, Utf8Check,
};
use crate::websocket::options::MessageBounds;

/// Reads frames, in whatever pieces they come.
pub(crate) struct Decoder {
    side: Side,
    deflate: Option<DeflateParams>,
    bounds: MessageBounds,
    /// The frame of a message whose payload is being read.
    frame: Option<OpenFrame>,
    message: Option<OpenMessage>,
    /// Present while a message is decompressed, or if the next one may refer to the last.
    inflater: Option<Box<Inflater>>,
    /// Whether the message, or the part, that is read is that of the inflater.
    is_inflated: bool,
}

/// A frame whose payload is being read.
struct OpenFrame {
    left: u64,
    is_final: bool,
    mask: Option<Mask>,
    /// How much of the payload that is not read yet has lost its mask already.
    unmasked: usize,
}

/// A message that is being read.
struct OpenMessage {
    kind: MessageKind,
    is_compressed: bool,
    handed_out: HandedOut,
    /// Whether its last frame was read, and only what decompresses to more is left.
    is_finishing: bool,
    frames: u32,
    /// How long the payloads of its frames are, as far as is known, and the longest of them.
    len: u64,
    frame_len: u64,
    utf8: Utf8Check,
}

/// How much of a message that is being read was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandedOut {
    Nothing,
    Parts,
    /// Parts, and no more of it is wanted.
    Enough,
}

/// How messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Whole,
    Parts,
}

/// The outcome of reading on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing yet: more bytes are needed.
    More,
    /// Nothing yet, after a long decompression that is not at its end.
    Inflated,
    /// A message. The last piece of a text has not been checked.
    Message(MessageKind),
    /// A part of a message.
    Part {
        kind: MessageKind,
        is_last: bool,
    },
    /// A ping. So many bytes of the input are its payload, and are to be skipped.
    Ping(usize),
    Pong,
    Close(CloseReason),
}

impl Decoder {
    pub(crate) fn new(side: Side, bounds: MessageBounds, deflate: Option<DeflateParams>) -> Decoder {
        Decoder { side, deflate, bounds, frame: None, message: None, inflater: None, is_inflated: false }
    }

    /// The bytes of the message, or of the part, that was read last.
    pub(crate) fn content<'c>(&'c self, input: &'c Input) -> &'c [u8] {
        match &self.inflater {
            Some(inflater) if self.is_inflated => inflater.out.as_slice(),
            _ => input.message(),
        }
    }

    /// How many bytes a message may have.
    pub(crate) fn message_max(&self) -> usize {
        self.bounds.message_max
    }

    /// How many bytes of a message that is being read are decompressed.
    pub(crate) fn inflated_len(&self) -> usize {
        self.inflater.as_ref().map_or(0, |inflater| inflater.out.len())
    }

    /// Returns how many bytes were decompressed since the last call, read and written.
    pub(crate) fn take_inflated(&mut self) -> usize {
        self.inflater.as_mut().map_or(0, |inflater| std::mem::take(&mut inflater.done))
    }

    /// Has the rest of a message skipped of which a part was handed out.
    pub(crate) fn skip_rest(&mut self) {
        if let Some(message) = self.message.as_mut().filter(|message| message.handed_out == HandedOut::Parts)
        {
            message.handed_out = HandedOut::Enough;
        }
    }

    /// Whether a message has begun that was not read to its end.
    pub(crate) fn is_within_message(&self) -> bool {
        self.message.is_some()
    }

    /// Whether the rest of a message is skipped. It is read in parts.
    pub(crate) fn is_skipping(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.handed_out == HandedOut::Enough)
    }

    /// Forgets the message or the part that was handed out. A message that was not handed out stays.
    pub(crate) fn clear_content(&mut self, input: &mut Input) {
        if self.message.as_ref().is_some_and(|message| message.handed_out == HandedOut::Nothing) {
            return;
        }
        input.clear_message();
        if self.is_inflated {
            self.clear_inflated();
        }
    }

    /// Forgets what was not handed out as well, with its memory. Nothing is read afterwards.
    pub(crate) fn free_content(&mut self) {
        let Decoder { side: _, deflate: _, bounds: _, frame, message, inflater, is_inflated } = self;
        (*frame, *message, *inflater, *is_inflated) = (None, None, None, false);
    }

    fn clear_inflated(&mut self) {
        self.is_inflated = self.message.is_some();
        match &mut self.inflater {
            Some(inflater) if self.message.is_some() => inflater.out.clear(),
            Some(inflater) if self.deflate.is_some_and(|deflate| deflate.peer_context_takeover) => {
                inflater.begin()
            }
            _ => {
                if let Some(inflater) = self.inflater.take() {
                    inflater.give();
                }
            }
        }
    }

    /// Reads on, up to the next message, part, or control frame.
    ///
    /// # Errors
    ///
    /// Fails as soon as what is here cannot be the beginning of anything valid, or exceeds a bound.
    pub(crate) fn step(&mut self, input: &mut Input, reading: Reading) -> Result<Step, Error> {
        loop {
            if self.frame.is_some() || self.message.as_ref().is_some_and(|message| message.is_finishing) {
                match self.read_payload(input, reading)? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            }
            let Some((header, len)) = FrameHeader::parse(input.raw(), self.side, self.deflate.is_some())?
            else {
                return Ok(Step::More);
            };
            if header.opcode.is_control() {
                return read_control(header, len, input);
            }
            if reading == Reading::Whole
                && let Some(step) = self.read_whole(&header, len, input)
            {
                return Ok(step);
            }
            input.skip(len);
            self.begin_frame(header)?;
        }
    }

    /// Reads a frame that is a message by itself, is here as a whole, and within all bounds, as most are.
    fn read_whole(&mut self, header: &FrameHeader, head_len: usize, input: &mut Input) -> Option<Step> {
        let kind = MessageKind::from_opcode(header.opcode)?;
        let MessageBounds { message_max, frame_max, fragments_max } = self.bounds;
        let len = usize::try_from(header.len).ok().filter(|len| *len <= message_max.min(frame_max))?;
        let is_alone =
            header.is_final && !header.is_compressed && self.message.is_none() && fragments_max > 0;
        if !is_alone || input.raw().len() - head_len < len {
            return None;
        }
        input.skip(head_len);
        if let Some(mut mask) = header.mask {
            mask.apply(&mut input.raw()[..len]);
        }
        input.append_raw(len);
        self.is_inflated = false;
        Some(Step::Message(kind))
    }

    /// Begins a frame of a message.
    fn begin_frame(&mut self, header: FrameHeader) -> Result<(), Error> {
        let message = match (MessageKind::from_opcode(header.opcode), &mut self.message) {
            (None, None) => return Err(ProtocolFault::Continuation.into()),
            (Some(_), Some(_)) => return Err(ProtocolFault::Interleaved.into()),
            (None, Some(message)) => message,
            (Some(kind), open @ None) => open.insert(OpenMessage {
                kind,
                is_compressed: header.is_compressed,
                handed_out: HandedOut::Nothing,
                is_finishing: false,
                frames: 0,
                len: 0,
                frame_len: 0,
                utf8: Utf8Check::default(),
            }),
        };
        if message.is_compressed && self.inflater.is_none() {
            let context_takeover = self.deflate.is_some_and(|deflate| deflate.peer_context_takeover);
            self.inflater = Some(Inflater::take(context_takeover));
        }
        self.is_inflated = message.is_compressed;
        let FrameHeader { is_final, mask, len, .. } = header;
        message.count_frame(len);
        self.frame = Some(OpenFrame { left: len, is_final, mask, unmasked: 0 });
        Ok(())
    }

    /// Reads what is here of a payload. `None` if another frame is to follow at once.
    fn read_payload(&mut self, input: &mut Input, reading: Reading) -> Result<Option<Step>, Error> {
        let Some(message) = &mut self.message else {
            debug_assert!(false, "a frame belongs to a message");
            return Ok(Some(Step::More));
        };
        let inflated = self.inflater.as_ref().map_or(0, |inflater| inflater.out.len());
        let most = match reading {
            Reading::Whole => {
                message.check(&self.bounds)?;
                (inflated + PART_MAX).min(self.bounds.message_max.saturating_add(1))
            }
            Reading::Parts => PART_MAX,
        };
        if let Some(frame) = &mut self.frame {
            let is_last = match (&mut self.inflater, message.is_compressed) {
                (Some(inflater), true) => frame.inflate(input, inflater, message, most)?,
                _ => frame.read(input, message, reading)?,
            };
            let is_over = frame.left == 0;
            if is_over {
                self.frame = None;
                message.is_finishing = is_last;
            }
        }
        if message.is_finishing && message.finish(self.inflater.as_deref_mut(), most)? {
            let kind = message.kind;
            let utf8 = message.utf8;
            self.message = None;
            return match reading {
                Reading::Whole => Ok(Some(Step::Message(kind))),
                Reading::Parts if kind == MessageKind::Text && !utf8.is_whole() => Err(Error::Text),
                Reading::Parts => Ok(Some(Step::Part { kind, is_last: true })),
            };
        }
        match reading {
            Reading::Whole if self.has_inflated(most)? => return Ok(Some(Step::Inflated)),
            Reading::Whole => {}
            Reading::Parts if !self.content(input).is_empty() => {
                return Ok(self.message.as_mut().map(OpenMessage::hand_out_part));
            }
            Reading::Parts => {}
        }
        let goes_on = self.frame.is_none() && input.has_raw();
        Ok(if goes_on { None } else { Some(Step::More) })
    }

    /// Whether a message was decompressed to `most` bytes, and may go on.
    fn has_inflated(&self, most: usize) -> Result<bool, Error> {
        let len = match &self.inflater {
            Some(inflater) if self.is_inflated => inflater.out.len(),
            _ => return Ok(false),
        };
        match self.bounds.message_max {
            max if len > max => Err(Error::MessageTooLarge(max)),
            _ => Ok(len >= most),
        }
    }
}

impl OpenMessage {
    fn hand_out_part(&mut self) -> Step {
        if self.handed_out == HandedOut::Nothing {
            self.handed_out = HandedOut::Parts;
        }
        Step::Part { kind: self.kind, is_last: false }
    }

    /// Counts another frame of `len` bytes.
    fn count_frame(&mut self, len: u64) {
        self.frames = self.frames.saturating_add(1);
        self.len = self.len.saturating_add(len);
        self.frame_len = self.frame_len.max(len);
    }

    /// Checks the bounds of a message that is kept in memory.
    fn check(&self, bounds: &MessageBounds) -> Result<(), Error> {
        let MessageBounds { message_max, frame_max, fragments_max } = *bounds;
        if self.frames > fragments_max {
            return Err(Error::TooManyFragments(fragments_max));
        }
        if self.frame_len > frame_max as u64 {
            return Err(Error::FrameTooLarge(frame_max));
        }
        // A compressed message that is not smaller than its content is larger than it by a few bytes at most, so a
        // sender that compresses everything exceeds the bound a little early.
        if self.len > message_max as u64 {
            return Err(Error::MessageTooLarge(message_max));
        }
        Ok(())
    }

    /// Decompresses what the last frame left out. Returns whether the message is whole, which one that reaches `most`
    /// is not.
    fn finish(&mut self, inflater: Option<&mut Inflater>, most: usize) -> Result<bool, Error> {
        let Some(inflater) = inflater.filter(|_| self.is_compressed) else { return Ok(true) };
        let before = inflater.out.len();
        let is_whole = inflater.finish(most)?;
        self.check_text(&inflater.out.as_slice()[before..])?;
        Ok(is_whole)
    }

    fn check_text(&mut self, piece: &[u8]) -> Result<(), Error> {
        match self.kind {
            MessageKind::Text => self.utf8.feed(piece).map_err(|_| Error::Text),
            MessageKind::Binary => Ok(()),
        }
    }
}

impl OpenFrame {
    /// Appends what is here of the payload to the message. Returns whether that is the end of the message.
    fn read(
        &mut self,
        input: &mut Input,
        message: &mut OpenMessage,
        reading: Reading,
    ) -> Result<bool, Error> {
        let count = self.unmask(input);
        self.left -= count as u64;
        self.unmasked = 0;
        let is_last = self.is_final && self.left == 0;
        let piece = input.append_raw(count);
        // A whole text is checked once more when it becomes a `str`, so that check is left to do the rest.
        if !(is_last && reading == Reading::Whole) {
            message.check_text(piece)?;
        }
        Ok(is_last)
    }

    /// Decompresses what is here of the payload, to `most` bytes at most. Returns whether that is the end of the
    /// message.
    fn inflate(
        &mut self,
        input: &mut Input,
        inflater: &mut Inflater,
        message: &mut OpenMessage,
        most: usize,
    ) -> Result<bool, Error> {
        let count = self.unmask(input);
        let before = inflater.out.len();
        let read = inflater.feed(&input.raw()[..count], most)?;
        input.skip(read);
        self.left -= read as u64;
        self.unmasked = count - read;
        message.check_text(&inflater.out.as_slice()[before..])?;
        Ok(self.is_final && self.left == 0)
    }

    /// Removes the mask of what is here of the payload. Returns how much that is.
    fn unmask(&mut self, input: &mut Input) -> usize {
        let raw = input.raw();
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(raw.len());
        if let Some(mask) = &mut self.mask {
            mask.apply(&mut raw[self.unmasked..count]);
        }
        count
    }
}

/// Reads a control frame, once it is here as a whole.
fn read_control(header: FrameHeader, len: usize, input: &mut Input) -> Result<Step, Error> {
    let count = header.len as usize;
    if input.raw().len() < len + count {
        return Ok(Step::More);
    }
    input.skip(len);
    let payload = &mut input.raw()[..count];
    if let Some(mut mask) = header.mask {
        mask.apply(payload);
    }
    let step = match header.opcode {
        OpCode::Ping => return Ok(Step::Ping(count)),
        OpCode::Close => Step::Close(CloseReason::parse(payload)?),
        _ => Step::Pong,
    };
    input.skip(count);
    Ok(step)
}

/// How large a part of a compressed message becomes, and how much of one is decompressed in one step.
const PART_MAX: usize = 64 << 10;
