//! [`Encoder`]: writes messages and control frames (RFC 6455 §5, RFC 7692 §7.2.1).

use std::cell::RefCell;
use std::io;

use super::deflate::{DeflateParams, Deflater, WINDOW_BITS_MIN};
use crate::memory::free_beyond;
use crate::websocket::frame::{
    CONTROL_MAX, Error, FrameHeader, Mask, Message, MessageKind, MessagePart, OpCode, Side, Utf8Check,
};
use crate::websocket::options::DeflateOptions;

/// Writes frames.
pub(crate) struct Encoder {
    side: Side,
    deflate: Option<(DeflateParams, DeflateOptions)>,
    /// Present if the next message refers to the last.
    deflater: Option<Box<Deflater>>,
    /// The message that is sent in parts.
    open: Option<(MessageKind, Utf8Check)>,
}

impl Encoder {
    pub(crate) fn new(side: Side, deflate: Option<(DeflateParams, DeflateOptions)>) -> Encoder {
        let deflate = deflate.filter(|(params, _)| params.window_bits >= WINDOW_BITS_MIN);
        Encoder { side, deflate, deflater: None, open: None }
    }

    /// Whether a message may be sent, and not only the next part of one.
    pub(crate) fn check_whole(&self) -> io::Result<()> {
        if self.open.is_some() { Err(Error::Interleaved.into()) } else { Ok(()) }
    }

    /// Appends a message to `out`.
    ///
    /// # Errors
    ///
    /// Fails between the parts of another message, and if the system provides no randomness for a mask.
    pub(crate) fn message(&mut self, message: Message<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        self.check_whole()?;
        match self.deflate_for(message.as_bytes().len()).copied() {
            Some(deflate) => self.compressed(message, deflate, out),
            None => self.frame(message.kind().opcode(), Flags::WHOLE, message.as_bytes(), out),
        }
    }

    /// Appends the head of a message to `out`, if its payload is then sent as it is. Returns false if the message has
    /// to be encoded as a whole.
    pub(crate) fn head_alone(&mut self, message: Message<'_>, out: &mut Vec<u8>) -> io::Result<bool> {
        self.check_whole()?;
        let len = message.as_bytes().len();
        if self.side == Side::Client || self.deflate_for(len).is_some() {
            return Ok(false);
        }
        header(message.kind().opcode(), Flags::WHOLE, None, len as u64).encode(out);
        Ok(true)
    }

    /// How a message of `len` bytes is compressed; `None` if it is sent as it is.
    fn deflate_for(&self, len: usize) -> Option<&(DeflateParams, DeflateOptions)> {
        self.deflate.as_ref().filter(|(_, options)| len >= options.message_min.max(1))
    }

    /// Whether a message of `len` bytes is compressed.
    pub(crate) fn compresses(&self, len: usize) -> bool {
        self.deflate_for(len).is_some()
    }

    /// The form in which a message of `len` bytes of a broadcast is written.
    pub(crate) fn shares(&self, len: usize) -> SharedForm {
        let Some(&deflate) = self.deflate_for(len) else { return SharedForm::Plain };
        if deflate.0.own_context_takeover { SharedForm::Own } else { SharedForm::Deflated(deflate) }
    }

    fn compressed(
        &mut self,
        message: Message<'_>,
        (params, options): (DeflateParams, DeflateOptions),
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut deflater = self.deflater.take().unwrap_or_else(|| Deflater::take(params, options.level));
        let written = with_scratch(|scratch| {
            deflater.compress(message.as_bytes(), scratch)?;
            // Content that does not shrink is sent as it is, unless the compressor has to refer to it later.
            let (flags, payload) =
                match scratch.len() < message.as_bytes().len() || params.own_context_takeover {
                    true => (Flags { is_compressed: true, ..Flags::WHOLE }, &scratch[..]),
                    false => (Flags::WHOLE, message.as_bytes()),
                };
            self.frame(message.kind().opcode(), flags, payload, out)
        });
        self.deflater = deflater.give();
        written
    }

    /// Appends a part of a message to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the kind is not that of the parts before it, or if a text is not UTF-8.
    pub(crate) fn part(&mut self, part: MessagePart<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let MessagePart { kind, bytes, is_last } = part;
        let (opcode, mut utf8) = match self.open {
            Some((open, utf8)) if open == kind => (OpCode::Continuation, utf8),
            Some(_) => return Err(Error::Interleaved.into()),
            None => (kind.opcode(), Utf8Check::default()),
        };
        if kind == MessageKind::Text {
            let fed = utf8.feed(bytes);
            if fed.is_err() || is_last && !utf8.is_whole() {
                return Err(Error::PartText.into());
            }
        }
        self.frame(opcode, Flags { is_final: is_last, is_compressed: false }, bytes, out)?;
        self.open = if is_last { None } else { Some((kind, utf8)) };
        Ok(())
    }

    /// Appends a control frame to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the payload is too long.
    pub(crate) fn control(&mut self, opcode: OpCode, payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        debug_assert!(opcode.is_control(), "messages are no control frames");
        match payload.len() {
            0..=CONTROL_MAX => self.frame(opcode, Flags::WHOLE, payload, out),
            _ => Err(Error::LongPayload.into()),
        }
    }

    fn frame(&self, opcode: OpCode, flags: Flags, payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mask = match self.side {
            Side::Server => None,
            Side::Client => Some(new_mask()?),
        };
        header(opcode, flags, mask, payload.len() as u64).encode(out);
        let start = out.len();
        out.extend_from_slice(payload);
        if let Some(mut mask) = mask {
            mask.apply(&mut out[start..]);
        }
        Ok(())
    }
}

/// Appends a message of a server to `out`, compressed if there is a way, without reference to other messages.
///
/// # Errors
///
/// Fails if the compressor does.
pub(crate) fn encode_alone(
    message: Message<'_>,
    deflate: Option<(DeflateParams, DeflateOptions)>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    Encoder::new(Side::Server, deflate).message(message, out)
}

/// The form in which a message of a broadcast is written.
pub(crate) enum SharedForm {
    Plain,
    /// Compressed without reference to other messages.
    Deflated((DeflateParams, DeflateOptions)),
    /// Not shared: compressed with reference to the messages before it.
    Own,
}

#[derive(Clone, Copy)]
struct Flags {
    is_final: bool,
    is_compressed: bool,
}

impl Flags {
    const WHOLE: Flags = Flags { is_final: true, is_compressed: false };
}

fn header(opcode: OpCode, flags: Flags, mask: Option<Mask>, len: u64) -> FrameHeader {
    let Flags { is_final, is_compressed } = flags;
    FrameHeader { opcode, is_final, is_compressed, mask, len }
}

/// Lends memory in which a message is compressed before its length is known.
fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut scratch = SCRATCH.take();
    let done = work(&mut scratch);
    scratch.clear();
    free_beyond(&mut scratch, SCRATCH_KEPT_MAX);
    SCRATCH.set(scratch);
    done
}

/// Returns a mask that a page that sends the message cannot foresee (RFC 6455 §10.3).
fn new_mask() -> io::Result<Mask> {
    MASKS.with_borrow_mut(|masks| {
        if masks.left == 0 {
            let filled = getrandom::fill(masks.keys.as_flattened_mut());
            filled.map_err(|_| io::Error::other("the system provides no randomness"))?;
            masks.left = MASKS_AT_ONCE;
        }
        masks.left -= 1;
        Ok(Mask::new(masks.keys[masks.left]))
    })
}

/// Random keys, of which a thread gets many by one call of the system.
struct Masks {
    keys: [[u8; 4]; MASKS_AT_ONCE],
    left: usize,
}

const MASKS_AT_ONCE: usize = 64;
const SCRATCH_KEPT_MAX: usize = 64 << 10;

thread_local! {
    static MASKS: RefCell<Masks> = const { RefCell::new(Masks { keys: [[0; 4]; MASKS_AT_ONCE], left: 0 }) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
