//! `deflate`: DEFLATE (RFC 1951) in the zlib format (RFC 1950), and the encoder that gzip shares with it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::coding::CodingError;
use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;

/// An encoder for `deflate` or `gzip`.
pub(super) struct DeflateEncoder {
    deflate: Compress,
    make: fn(Compression) -> Compress,
    level: Compression,
    /// Whether content has begun, and not ended.
    is_open: bool,
}

impl DeflateEncoder {
    pub(super) fn zlib(level: u32) -> DeflateEncoder {
        DeflateEncoder::new(|level| Compress::new_with_window_bits(level, true, WINDOW_BITS), level)
    }

    pub(super) fn gzip(level: u32) -> DeflateEncoder {
        DeflateEncoder::new(|level| Compress::new_gzip(level, WINDOW_BITS), level)
    }

    fn new(make: fn(Compression) -> Compress, level: u32) -> DeflateEncoder {
        let level = Compression::new(level.min(9));
        DeflateEncoder { deflate: make(level), make, level, is_open: false }
    }
}

/// 32 KiB, the largest window of DEFLATE.
const WINDOW_BITS: u8 = 15;

impl Encode for DeflateEncoder {
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError> {
        let (total_in, total_out) = (self.deflate.total_in(), self.deflate.total_out());
        let how = match flush {
            Flush::Later => FlushCompress::None,
            Flush::Now => FlushCompress::Sync,
            Flush::End => FlushCompress::Finish,
        };
        self.is_open = true;
        let status = self.deflate.compress(input, room, how).map_err(|_| CodingError::Encoder)?;
        self.is_open = status != Status::StreamEnd;
        let read = (self.deflate.total_in() - total_in) as usize;
        let written = (self.deflate.total_out() - total_out) as usize;
        let is_whole = match flush {
            // If the room was filled, it may have been too small.
            Flush::Later | Flush::Now => read == input.len() && written < room.len(),
            Flush::End => status == Status::StreamEnd,
        };
        Ok(Step { read, written, is_whole })
    }

    fn reset(&mut self) {
        // When zlib-rs is reset, it forgets that a block is open, so what was given up halfway is of no use.
        match self.is_open {
            true => self.deflate = (self.make)(self.level),
            false => self.deflate.reset(),
        }
        self.is_open = false;
    }
}

/// A decoder for `deflate`. Also accepts content without the zlib format, which some senders omit (RFC 9110 §8.4.1.2).
pub(super) struct DeflateDecoder {
    inflate: Decompress,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    /// The first octet, which alone does not tell whether this is a zlib header.
    First(u8),
    Data,
    End,
}

impl DeflateDecoder {
    pub(super) fn new() -> DeflateDecoder {
        DeflateDecoder { inflate: Decompress::new(true), at: At::Start }
    }

    fn inflate(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        let step = inflate(&mut self.inflate, input, room)?;
        if step.is_whole {
            self.at = At::End;
        }
        Ok(step)
    }
}

impl Decode for DeflateDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        match (self.at, input) {
            (At::Start, [first, ..]) => {
                self.at = At::First(*first);
                Ok(Step { read: 1, ..Step::default() })
            }
            (At::First(first), [second, ..]) => {
                self.at = At::Data;
                self.inflate.reset(is_zlib(first, *second));
                let step = self.inflate(&[first, *second], room)?;
                // There was room for anything that two octets can decode to, so what is left of them comes after the
                // end.
                if step.read == 2 { Ok(Step { read: 1, ..step }) } else { Err(CodingError::Corrupt) }
            }
            (At::Data, _) => self.inflate(input, room),
            (At::End, []) => Ok(Step { is_whole: true, ..Step::default() }),
            (At::End, _) => Err(CodingError::Corrupt),
            (At::Start | At::First(_), []) => Ok(Step::default()),
        }
    }

    fn reset(&mut self) {
        self.at = At::Start;
    }
}

/// Whether content that begins with these octets has a zlib header (RFC 1950 §2.2).
fn is_zlib(first: u8, second: u8) -> bool {
    let (method, window) = (first & 0x0f, first >> 4);
    method == 8 && window <= 7 && (u16::from(first) << 8 | u16::from(second)) % 31 == 0
}

/// One step of inflating.
pub(super) fn inflate(inflate: &mut Decompress, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
    let (total_in, total_out) = (inflate.total_in(), inflate.total_out());
    let inflated = inflate.decompress(input, room, FlushDecompress::None);
    let status = inflated.map_err(|_| CodingError::Corrupt)?;
    Ok(Step {
        read: (inflate.total_in() - total_in) as usize,
        written: (inflate.total_out() - total_out) as usize,
        is_whole: status == Status::StreamEnd,
    })
}
