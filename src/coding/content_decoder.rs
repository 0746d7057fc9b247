//! [`ContentDecoder`]: one content with any number of codings, decoded as it arrives, in bounded memory (RFC 9110 §8.4).

use std::fmt;

use super::codec::{DECODER_ROOM_MIN, Decode, Step};
use super::{Coding, CodingError, codecs};
use crate::memory::{Arena, LocalCache, PoolKind};
use crate::message::{FieldName, Headers};

/// The decoders of one content, one for each coding that was applied to it. When the chain is dropped, its decoders are
/// cached on the thread.
///
/// The caller passes pieces of the content to [`DecoderChain::pull`] until nothing more comes out, and finally calls
/// [`DecoderChain::end`]. Without any decoders, content comes out as it is.
#[derive(Default)]
pub(crate) struct DecoderChain {
    /// The decoders in the order in which codings are undone: the coding that was applied last is the first.
    decoders: Vec<BufferedDecoder>,
    /// How many bytes may come out of all of them, for errors.
    limit: usize,
}

/// One decoder, and the part of its input that it has not read.
struct BufferedDecoder {
    coding: Coding,
    state: Box<dyn Decode>,
    /// The input, of which `read` bytes have been read.
    input: Arena,
    read: usize,
    /// How many bytes may still come out, and how many have.
    left: usize,
    written: usize,
    /// How many bytes the decoder has read beyond twice the bytes that it has written; 0 if it has written more.
    idle: usize,
    /// Whether the content may end here. Also true before the content begins, since content may be empty.
    is_whole: bool,
}

impl DecoderChain {
    /// Makes the decoders for content with these headers, of which at most `limit` bytes may come out. `None` if it is
    /// not coded.
    ///
    /// # Errors
    ///
    /// Fails for a coding that this build does not support, and for more codings than are ever used.
    pub(crate) fn from_headers(headers: &Headers, limit: usize) -> Result<Option<DecoderChain>, CodingError> {
        let mut decoders = Vec::<BufferedDecoder>::new();
        for name in headers.codings() {
            if decoders.len() == CODINGS_MAX {
                return Err(CodingError::TooMany);
            }
            let coding = Coding::parse(name).ok_or(CodingError::Unknown)?;
            // A window in another window has no use, and a few octets could claim the memory of both.
            let is_second =
                coding.has_large_window() && decoders.iter().any(|decoder| decoder.coding.has_large_window());
            if is_second {
                return Err(CodingError::TooMany);
            }
            // Coded content may be a little larger than decoded content.
            let left = if decoders.is_empty() { limit } else { limit.saturating_add(limit / 8 + SLACK) };
            decoders.push(BufferedDecoder::new(coding, left)?);
        }
        decoders.reverse();
        Ok((!decoders.is_empty()).then_some(DecoderChain { decoders, limit }))
    }

    /// Has content end with the first octets after the end of `gzip` that do not begin another member of it.
    pub(crate) fn ignore_junk(&mut self) {
        self.decoders.iter_mut().for_each(|decoder| decoder.state.ignore_junk());
    }

    /// Decodes some of the front of `input`, advances it, and appends the result to `out`: up to 16 KiB, and nothing if
    /// more input is needed.
    ///
    /// # Errors
    ///
    /// Fails if the content is corrupt, or larger than allowed. Nothing more can then be decoded.
    pub(crate) fn pull(&mut self, input: &mut &[u8], out: &mut Arena) -> Result<usize, CodingError> {
        pull(&mut self.decoders, input, out, self.limit)
    }

    /// How many bytes of memory the decoders have once `next` was decoded. Windows are filled by as much as has come out, or all
    /// at once.
    pub(crate) fn memory_len(&self, next: &[u8]) -> usize {
        let lens = self.decoders.iter().enumerate().map(|(index, decoder)| {
            let unread = &decoder.input.as_slice()[decoder.read..];
            let next = if index == 0 && unread.is_empty() { next } else { unread };
            let filled = (decoder.written + DECODED_PER_STEP).min(decoder.coding.window_max());
            decoder.coding.state_len() + decoder.state.window_len(next).max(filled)
        });
        lens.sum()
    }

    /// How many bytes of memory the decoders have at most for content of `len` bytes.
    pub(crate) fn memory_max(&self, len: usize) -> usize {
        let codings = self.decoders.iter().map(|decoder| decoder.coding);
        codings.map(|coding| coding.state_len() + coding.window_max().min(len)).sum()
    }

    /// Checks that the content may end here.
    ///
    /// # Errors
    ///
    /// Fails if the content was cut short.
    pub(crate) fn end(&self) -> Result<(), CodingError> {
        match self.decoders.iter().all(|decoder| decoder.is_whole && decoder.read == decoder.input.len()) {
            true => Ok(()),
            false => Err(CodingError::Incomplete),
        }
    }
}

/// Fields that describe the coded content, and are wrong once it is decoded (RFC 9110 §8, RFC 9530).
pub(crate) const CODED_CONTENT_FIELDS: [FieldName<'static>; 6] = [
    FieldName::CONTENT_ENCODING,
    FieldName::CONTENT_LENGTH,
    FieldName::new("content-md5"),
    FieldName::new("digest"),
    FieldName::new("content-digest"),
    FieldName::new("repr-digest"),
];

/// Makes a strong `etag` weak, since other octets are sent than those which it stands for (RFC 9110 §8.8.3.3).
pub(crate) fn weaken_etag(headers: &mut Headers, scratch: &mut Vec<u8>) {
    let Some(tag @ [b'"', ..]) = headers.get_bytes("etag") else { return };
    scratch.clear();
    scratch.extend_from_slice(b"W/");
    scratch.extend_from_slice(tag);
    headers.put(FieldName::new("etag"), scratch);
}

/// Content with more codings is an attack.
const CODINGS_MAX: usize = 4;

/// The headers and trailers of a coding add this much at most to small content.
const SLACK: usize = 1 << 10;

/// How much input may decode to nothing in a decoder that follows another: nested content that decodes to nothing,
/// again and again, would keep a core busy for seconds. In the first decoder this may be as much as may still come out.
const IDLE_MAX: usize = 256 << 10;

/// How many bytes are decoded at once.
pub(crate) const DECODED_PER_STEP: usize = 16 << 10;

const _: () = assert!(DECODED_PER_STEP >= DECODER_ROOM_MIN, "decoders have the room they need");

/// Pulls output from the last of `decoders`, which gets its input from the ones before it, and from `source`. At most
/// `limit` bytes may come out of all of them.
fn pull(
    decoders: &mut [BufferedDecoder],
    source: &mut &[u8],
    out: &mut Arena,
    limit: usize,
) -> Result<usize, CodingError> {
    let Some((last, before)) = decoders.split_last_mut() else {
        let (piece, rest) = source.split_at(source.len().min(DECODED_PER_STEP));
        out.extend(piece);
        *source = rest;
        return Ok(piece.len());
    };
    loop {
        let mut is_dry = false;
        if last.read == last.input.len() {
            last.input.clear();
            last.read = 0;
            is_dry = pull(before, source, &mut last.input, limit)? == 0;
        }
        let step = last.step(out, limit)?;
        last.idle = (last.idle + step.read).saturating_sub(2 * step.written);
        // Content that is not nested takes no more time than the peer takes to send it, but it must end, too.
        let idle_max = if before.is_empty() { IDLE_MAX.max(last.left) } else { IDLE_MAX };
        if last.idle > idle_max {
            return Err(CodingError::TooLarge(limit));
        }
        if step.written > 0 || (is_dry && step.read == 0) {
            return Ok(step.written);
        }
    }
}

impl BufferedDecoder {
    fn new(coding: Coding, left: usize) -> Result<BufferedDecoder, CodingError> {
        if !coding.is_available() {
            return Err(CodingError::Unknown);
        }
        let kept = CACHE.with(|cache| cache.take(|(of, ..)| *of == coding));
        let (_, mut state, input) = match kept {
            Some(kept) => kept,
            None => (coding, codecs::decoder(coding).ok_or(CodingError::Unknown)?, Arena::default()),
        };
        state.set_content_max(left);
        Ok(BufferedDecoder { coding, state, input, read: 0, left, written: 0, idle: 0, is_whole: true })
    }

    fn step(&mut self, out: &mut Arena, limit: usize) -> Result<Step, CodingError> {
        let unread = &self.input.as_slice()[self.read..];
        if self.is_whole && unread.is_empty() {
            return Ok(Step::default());
        }
        let step = self.state.step(unread, &mut out.spare(DECODED_PER_STEP)[..DECODED_PER_STEP]);
        let step = step.map_err(|error| match error {
            CodingError::TooLarge(_) => CodingError::TooLarge(limit),
            error => error,
        })?;
        if step.read == 0 && step.written == 0 && !unread.is_empty() {
            return Err(CodingError::Corrupt);
        }
        debug_assert!(
            step.read <= unread.len() && step.written <= DECODED_PER_STEP,
            "a step stays in its slices"
        );
        self.read += step.read;
        self.is_whole = step.is_whole;
        self.left = self.left.checked_sub(step.written).ok_or(CodingError::TooLarge(limit))?;
        self.written += step.written;
        out.commit(step.written);
        Ok(step)
    }
}

/// A cached decoder: its coding, its state, and the memory of its input.
type CachedDecoder = (Coding, Box<dyn Decode>, Arena);

thread_local! {
    static CACHE: LocalCache<CachedDecoder> = const {
        LocalCache::counted(PoolKind::Decoders, |(_, state, input)| state.memory() + input.capacity())
    };
}

impl Drop for DecoderChain {
    fn drop(&mut self) {
        for BufferedDecoder { coding, mut state, mut input, .. } in self.decoders.drain(..) {
            state.reset();
            input.clear();
            // On a thread that is ending, the cache is gone.
            let _ = CACHE.try_with(|cache| cache.give((coding, state, input)));
        }
    }
}

impl fmt::Debug for DecoderChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.decoders.iter().map(|decoder| decoder.coding)).finish()
    }
}

/// The decoder of one content that arrives in pieces. The decoded content is read in other pieces.
pub(crate) struct ContentDecoder {
    decoders: DecoderChain,
    /// The output of the last step of the decoders.
    piece: Arena,
    /// The part of the output that is the current piece.
    start: usize,
    end: usize,
    /// How much of the current input has been decoded.
    decoded: usize,
    /// How many bytes may come out in all, and how many may still come out.
    limit: usize,
    left: usize,
    /// Why the content cannot be decoded any further.
    failed: Option<CodingError>,
}

impl ContentDecoder {
    /// Decodes with `decoders`, up to `limit` bytes.
    pub(crate) fn new(decoders: DecoderChain, limit: usize) -> ContentDecoder {
        let piece = Arena::default();
        ContentDecoder { decoders, piece, start: 0, end: 0, decoded: 0, limit, left: limit, failed: None }
    }

    /// Decodes on, and returns the length of the next piece, which is valid until the next call. 0 means that all of `input`
    /// was decoded: the next call needs new input, unless [`ContentDecoder::end`] finds the content complete.
    ///
    /// # Errors
    ///
    /// Fails if the content is corrupt, or larger than allowed; all further calls fail too.
    pub(crate) fn pull(&mut self, input: &[u8]) -> Result<usize, CodingError> {
        // The current piece has been read.
        self.start = self.end;
        if self.start == self.piece.len() {
            self.failed = self.refill(input).err();
        }
        self.end = self.piece.len();
        self.failed.map_or(Ok(self.end - self.start), Err)
    }

    /// The current piece.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece.as_slice()[self.start..self.end]
    }

    /// How many bytes of memory the decoders have once `input` was decoded: see [`DecoderChain::memory_len`].
    pub(crate) fn memory_len(&self, input: &[u8]) -> usize {
        self.decoders.memory_len(input.get(self.decoded..).unwrap_or_default())
    }

    /// Truncates the current piece to its first `count` bytes. The others become the next piece.
    pub(crate) fn truncate_piece(&mut self, count: usize) {
        debug_assert!(self.start + count <= self.end, "a piece only gets shorter");
        self.end = self.start + count;
    }

    /// Checks that the content may end here.
    ///
    /// # Errors
    ///
    /// Fails if the content was cut short.
    pub(crate) fn end(&self) -> Result<(), CodingError> {
        self.failed.map_or_else(|| self.decoders.end(), Err)
    }

    fn refill(&mut self, input: &[u8]) -> Result<(), CodingError> {
        self.piece.clear();
        self.start = 0;
        self.failed.map_or(Ok(()), Err)?;
        // Input stays the same until it is decoded, unless its connection was closed in between.
        let mut rest = input.get(self.decoded..).ok_or(CodingError::Incomplete)?;
        let made = self.decoders.pull(&mut rest, &mut self.piece);
        self.decoded = input.len() - rest.len();
        let left =
            made.and_then(|count| self.left.checked_sub(count).ok_or(CodingError::TooLarge(self.limit)));
        match left {
            Ok(_) if self.piece.is_empty() => self.decoded = 0,
            Ok(left) => self.left = left,
            Err(_) => self.piece.clear(),
        }
        left.map(drop)
    }
}
