//! permessage-deflate: its negotiation (RFC 7692 §7.1), and the states that compress and decompress messages (§7.2).

use std::fmt::Write;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::memory::{Arena, LocalCache, PoolKind};
use crate::message::{Headers, members, trim};
use crate::websocket::frame::Error;
use crate::websocket::options::DeflateOptions;

/// The outcome of the negotiation, as seen from this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeflateParams {
    /// Whether the messages that are sent refer to those before them.
    pub(super) own_context_takeover: bool,
    /// Whether the messages that are received do.
    pub(super) peer_context_takeover: bool,
    /// The size of the window for the messages that are sent, as a power of two, up to [`WINDOW_BITS_MAX`]. Below
    /// [`WINDOW_BITS_MIN`], which zlib lacks, messages are sent as they are.
    pub(crate) window_bits: u8,
}

/// The parameters of an offer or of an answer (§7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parameters {
    server_no_context: bool,
    client_no_context: bool,
    server_bits: Option<u8>,
    /// Without a value in some offers.
    client_bits: Option<Option<u8>>,
}

impl Parameters {
    /// Parses a member of the field. `None` if it is another extension, or has a parameter that is unknown, repeated or
    /// malformed: such an offer is declined (§5.1).
    fn parse(member: &[u8]) -> Option<Parameters> {
        let mut parts = member.split(|octet| *octet == b';').map(trim);
        if parts.next() != Some(NAME.as_bytes()) {
            return None;
        }
        let mut parameters = Parameters::default();
        for part in parts {
            let (name, value) = match part.iter().position(|octet| *octet == b'=') {
                Some(at) => (trim(&part[..at]), Some(unquoted(trim(&part[at + 1..])))),
                None => (part, None),
            };
            let is_new = match (name, value) {
                (b"server_no_context_takeover", None) => {
                    !std::mem::replace(&mut parameters.server_no_context, true)
                }
                (b"client_no_context_takeover", None) => {
                    !std::mem::replace(&mut parameters.client_no_context, true)
                }
                (b"server_max_window_bits", Some(value)) => {
                    parameters.server_bits.replace(window_bits(value)?).is_none()
                }
                (b"client_max_window_bits", None) => parameters.client_bits.replace(None).is_none(),
                (b"client_max_window_bits", Some(value)) => {
                    parameters.client_bits.replace(Some(window_bits(value)?)).is_none()
                }
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(parameters)
    }
}

const NAME: &str = "permessage-deflate";

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// A number from 8 to 15, without a zero in front.
fn window_bits(value: &[u8]) -> Option<u8> {
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

/// Accepts the first offer of a client that can be met. Returns what it comes to, and the value of the field that
/// accepts it (§7.1).
pub(crate) fn accept_offer(headers: &Headers, options: DeflateOptions) -> Option<(DeflateParams, String)> {
    let mut offers = headers.all(EXTENSIONS).flat_map(members);
    offers.find_map(|offer| {
        let offer = Parameters::parse(offer)?;
        // zlib has no window of 2^8 bytes without a header of its own.
        let window_bits = offer.server_bits.unwrap_or(WINDOW_BITS_MAX);
        if window_bits < WINDOW_BITS_MIN {
            return None;
        }
        let params = DeflateParams {
            own_context_takeover: options.context_takeover && !offer.server_no_context,
            peer_context_takeover: options.context_takeover && !offer.client_no_context,
            window_bits,
        };
        let mut answer = NAME.to_owned();
        if !params.own_context_takeover {
            answer.push_str("; server_no_context_takeover");
        }
        if !params.peer_context_takeover {
            answer.push_str("; client_no_context_takeover");
        }
        if let Some(bits) = offer.server_bits {
            let _ = write!(answer, "; server_max_window_bits={bits}");
        }
        Some((params, answer))
    })
}

/// The offer of a client, which takes any window that the server asks for (§7.1.2.2).
pub(crate) fn offer(options: DeflateOptions) -> &'static str {
    match options.context_takeover {
        true => "permessage-deflate; client_max_window_bits",
        false => {
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"
        }
    }
}

/// Reads the answer of a server to [`offer`].
///
/// # Errors
///
/// Fails if the server has accepted something else than was offered (§7.1.2, RFC 6455 §4.1).
pub(crate) fn read_answer(
    headers: &Headers,
    options: Option<DeflateOptions>,
) -> Result<Option<DeflateParams>, InvalidAnswer> {
    let mut answers = headers.all(EXTENSIONS).flat_map(members);
    let Some(answer) = answers.next() else { return Ok(None) };
    let options = options.ok_or(InvalidAnswer)?;
    let answer = Parameters::parse(answer).ok_or(InvalidAnswer)?;
    let must_forget = !options.context_takeover;
    // In an answer, the parameter has a value.
    let window_bits = answer.client_bits.unwrap_or(Some(WINDOW_BITS_MAX)).ok_or(InvalidAnswer)?;
    if answers.next().is_some() || must_forget && !answer.server_no_context {
        return Err(InvalidAnswer);
    }
    Ok(Some(DeflateParams {
        own_context_takeover: options.context_takeover && !answer.client_no_context,
        peer_context_takeover: !answer.server_no_context,
        window_bits,
    }))
}

/// The server has accepted an extension that was not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidAnswer;

pub(crate) const EXTENSIONS: &str = "sec-websocket-extensions";

pub(crate) const WINDOW_BITS_MIN: u8 = 9;
pub(crate) const WINDOW_BITS_MAX: u8 = 15;

/// The end of each block that is flushed, which messages leave out (§7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The same, and an empty final block, which ends a stream only if the message has not stopped within a block.
const LAST_TAIL: [u8; 6] = [0, 0, 0xff, 0xff, 3, 0];

/// Compresses messages.
pub(super) struct Deflater {
    deflate: Compress,
    window_bits: u8,
    level: u32,
    context_takeover: bool,
}

impl Deflater {
    /// Takes a state from the thread's cache, or makes one.
    pub(super) fn take(params: DeflateParams, level: u32) -> Box<Deflater> {
        let window_bits = params.window_bits;
        let level = level.clamp(1, 9);
        let cached = DEFLATERS.try_with(|cache| {
            cache.take(|deflater| deflater.window_bits == window_bits && deflater.level == level)
        });
        let cached = cached.ok().flatten();
        let mut deflater = cached.unwrap_or_else(|| {
            let deflate = Compress::new_with_window_bits(Compression::new(level), false, window_bits);
            Box::new(Deflater { deflate, window_bits, level, context_takeover: false })
        });
        deflater.context_takeover = params.own_context_takeover;
        deflater
    }

    /// Gives the state back, unless the next message refers to this one.
    pub(super) fn give(mut self: Box<Deflater>) -> Option<Box<Deflater>> {
        if self.context_takeover {
            return Some(self);
        }
        self.deflate.reset();
        let _ = DEFLATERS.try_with(|cache| cache.give(self));
        None
    }

    /// Appends `content`, compressed, to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the compressor does, which it has no reason to.
    pub(super) fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let before = self.deflate.total_in();
        loop {
            let read = (self.deflate.total_in() - before) as usize;
            out.reserve((content.len() - read) / 2 + 64);
            let status = self.deflate.compress_vec(&content[read..], out, FlushCompress::Sync);
            status.map_err(|_| Error::Compressed)?;
            let is_read = self.deflate.total_in() - before == content.len() as u64;
            if is_read && out.len() < out.capacity() {
                break;
            }
        }
        debug_assert!(out.ends_with(&TAIL), "a flush ends with an empty block");
        out.truncate(out.len() - TAIL.len());
        Ok(())
    }
}

/// Decompresses messages.
pub(super) struct Inflater {
    inflate: Decompress,
    /// The message, or a part of it.
    pub(super) out: Arena,
    /// Whether the next message may refer to this one.
    context_takeover: bool,
    /// How much of [`TAIL`] or [`LAST_TAIL`] was decompressed at the end of the message.
    tail: usize,
    /// Whether a final block was the last that was read.
    has_ended: bool,
    /// How many bytes were read and written, which takes time.
    pub(super) done: usize,
}

impl Inflater {
    /// Takes a state from the thread's cache, or makes one.
    pub(super) fn take(context_takeover: bool) -> Box<Inflater> {
        let cached = INFLATERS.try_with(|cache| cache.take(|_| true)).ok().flatten();
        let mut inflater = cached.unwrap_or_else(|| {
            Box::new(Inflater {
                inflate: Decompress::new(false),
                out: Arena::default(),
                context_takeover,
                tail: 0,
                has_ended: false,
                done: 0,
            })
        });
        inflater.context_takeover = context_takeover;
        inflater
    }

    /// Gives the state back, because the next message does not refer to this one.
    pub(super) fn give(mut self: Box<Inflater>) {
        self.inflate.reset(false);
        self.begin();
        self.out.shrink(OUT_KEPT_MAX);
        let _ = INFLATERS.try_with(|cache| cache.give(self));
    }

    /// Begins another message.
    pub(super) fn begin(&mut self) {
        let Inflater { inflate: _, out, context_takeover: _, tail, has_ended, done } = self;
        out.clear();
        (*tail, *has_ended, *done) = (0, false, 0);
    }

    /// Decompresses `input`, until there are `most` bytes. Returns how much of `input` was read.
    pub(super) fn feed(&mut self, input: &[u8], most: usize) -> Result<usize, Error> {
        let mut read = 0;
        while self.out.len() < most {
            let left = most - self.out.len();
            let room = self.out.spare_within(ROOM_MIN, left);
            let limit = room.len().min(left);
            let room = &mut room[..limit];
            let (total_in, total_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(&input[read..], room, FlushDecompress::Sync);
            let status = status.map_err(|_| Error::Compressed)?;
            let count = (self.inflate.total_in() - total_in) as usize;
            let written = (self.inflate.total_out() - total_out) as usize;
            let is_drained = written < room.len();
            self.out.commit(written);
            self.done += count + written;
            read += count;
            self.has_ended &= count == 0;
            match status {
                // A message may contain a final block, after which another stream begins (§7.2.3.4).
                Status::StreamEnd => {
                    self.inflate.reset(false);
                    self.has_ended = true;
                }
                Status::Ok | Status::BufError
                    if count + written == 0 || is_drained && read == input.len() =>
                {
                    break;
                }
                Status::Ok | Status::BufError => {}
            }
        }
        Ok(read)
    }

    /// Decompresses the end that the message left out, until there are `most` bytes. Returns whether that was all of
    /// it.
    ///
    /// # Errors
    ///
    /// Fails if the message is cut short within a block, which would be filled up with the end. That shows only where
    /// the stream may end: a state that is kept for the next message would lose its window. A stored block that lacks its
    /// last four bytes is not told from one that has them.
    pub(super) fn finish(&mut self, most: usize) -> Result<bool, Error> {
        let tail = if self.context_takeover { &TAIL[..] } else { &LAST_TAIL };
        self.tail += self.feed(&tail[self.tail..], most)?;
        let is_whole = self.tail == tail.len() && self.out.len() < most;
        if is_whole && !self.context_takeover && !self.has_ended {
            return Err(Error::Compressed);
        }
        Ok(is_whole)
    }
}

thread_local! {
    static DEFLATERS: LocalCache<Box<Deflater>> = const {
        LocalCache::counted(PoolKind::Deflaters, |deflater| PoolKind::deflate_memory(deflater.window_bits))
    };
    static INFLATERS: LocalCache<Box<Inflater>> =
        const { LocalCache::counted(PoolKind::Inflaters, |inflater| PoolKind::INFLATE_MEMORY + inflater.out.capacity()) };
}

const ROOM_MIN: usize = 4 << 10;
const OUT_KEPT_MAX: usize = 64 << 10;
