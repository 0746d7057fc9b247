//! `zstd` (RFC 8878), by the library that defines it.

use std::io;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::{CCtx, CParameter, ResetDirective, get_dict_id_from_frame, get_error_name};

use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;
use crate::coding::{Coding, CodingError};

/// The value of `accept-encoding`.
pub(super) const ACCEPTED: &str = "br, zstd, gzip, deflate";

pub(super) const IS_AVAILABLE: bool = true;

pub(super) fn decoder() -> Option<Box<dyn Decode>> {
    Some(Box::new(ZstdDecoder::new()))
}

pub(super) fn encoder(level: u32) -> Option<Box<dyn Encode>> {
    let range = zstd::compression_level_range();
    let level = i32::try_from(level).unwrap_or(i32::MAX).clamp(1, *range.end());
    let mut encoder = CCtx::try_create()?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::ChecksumFlag(true),
        CParameter::WindowLog(ENCODER_WINDOW_LOG),
    ] {
        encoder.set_parameter(parameter).ok()?;
    }
    Some(Box::new(ZstdEncoder { encoder }))
}

/// 1 MiB. A larger window costs each stream that much memory.
const ENCODER_WINDOW_LOG: u32 = 20;

struct ZstdEncoder {
    encoder: CCtx<'static>,
}

impl Encode for ZstdEncoder {
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError> {
        let (mut input, mut room) = (InBuffer::around(input), OutBuffer::around(room));
        let failed = |_| CodingError::Encoder;
        // After an end that did not fit into the room, `run` would begin another frame.
        if !input.src.is_empty() {
            self.encoder.compress_stream(&mut room, &mut input).map_err(failed)?;
        }
        let is_taken = input.pos() == input.src.len();
        let is_whole = match flush {
            _ if !is_taken || room.pos() == room.capacity() => false,
            Flush::Later => true,
            Flush::Now => self.encoder.flush_stream(&mut room).map_err(failed)? == 0,
            Flush::End => self.encoder.end_stream(&mut room).map_err(failed)? == 0,
        };
        Ok(Step { read: input.pos(), written: room.pos(), is_whole })
    }

    fn reset(&mut self) {
        // Only the session is reset, which cannot fail; parameters stay.
        let _ = self.encoder.reset(ResetDirective::SessionOnly);
    }

    fn memory(&self) -> usize {
        self.encoder.sizeof()
    }
}

struct ZstdDecoder {
    /// Made with the first step, since many contents may wait for memory until then.
    decoder: Option<Decoder<'static>>,
    frame: Frame,
    is_whole: bool,
    /// Whether the last output left no room, so that there may be more of it.
    is_full: bool,
}

impl ZstdDecoder {
    fn new() -> ZstdDecoder {
        ZstdDecoder {
            decoder: None,
            frame: Frame { header: Vec::new(), is_first: true },
            is_whole: true,
            is_full: false,
        }
    }
}

impl Decode for ZstdDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        // The library returns an error after many calls without progress, but such a caller only waits for input.
        if input.is_empty() && (self.is_whole || !self.is_full) {
            return Ok(Step { is_whole: self.is_whole, ..Step::default() });
        }
        if self.is_whole {
            self.frame.header.clear();
        }
        let header = &input[..input.len().min(HEADER_LEN_MAX - self.frame.header.len())];
        if self.decoder.is_none() {
            self.decoder = new_decoder();
        }
        let decoder = self.decoder.as_mut().ok_or(CodingError::Encoder)?;
        let run = decoder.run_on_buffers(input, room);
        let read = run.as_ref().map_or(header.len(), |status| status.bytes_read.min(header.len()));
        self.frame.header.extend_from_slice(&header[..read]);
        let status = run.map_err(|error| self.frame.fault(&error))?;
        self.is_whole = status.remaining == 0;
        self.frame.is_first &= !self.is_whole;
        self.is_full = status.bytes_written == room.len();
        Ok(Step { read: status.bytes_read, written: status.bytes_written, is_whole: self.is_whole })
    }

    fn reset(&mut self) {
        // Resetting the session would keep the window, whose size the last peer has chosen.
        *self = ZstdDecoder::new();
    }

    fn memory(&self) -> usize {
        DECODER_MEMORY
    }
}

/// The frame that is decoded.
struct Frame {
    /// Its first octets, which have the id of its dictionary.
    header: Vec<u8>,
    /// Whether none has ended before it.
    is_first: bool,
}

impl Frame {
    /// The fault of content that cannot be decoded. The library hands its errors over as their names, and an error is the
    /// negative of its code.
    fn fault(&self, error: &io::Error) -> CodingError {
        let name = error.to_string();
        let is = |code: usize| name == get_error_name(0usize.wrapping_sub(code));
        match get_dict_id_from_frame(&self.header) {
            Some(id) if is(DICTIONARY_WRONG) => CodingError::Dictionary(id.get()),
            _ if is(PREFIX_UNKNOWN) && self.is_first => CodingError::NotCoded(Coding::Zstd),
            _ if is(WINDOW_TOO_LARGE) => CodingError::Window(Coding::Zstd),
            _ => CodingError::Corrupt,
        }
    }
}

/// The codes of errors, as in `zstd_errors.h`: they are stable.
const PREFIX_UNKNOWN: usize = 10;
const WINDOW_TOO_LARGE: usize = 16;
const DICTIONARY_WRONG: usize = 32;

/// The most octets of a frame up to the end of its header (RFC 8878 §3.1.1).
const HEADER_LEN_MAX: usize = 18;

/// How much memory a decoder takes before it has seen content.
const DECODER_MEMORY: usize = 94 << 10;

fn new_decoder() -> Option<Decoder<'static>> {
    let mut decoder = Decoder::new().ok()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
    Some(decoder)
}

/// 8 MiB: the most that a sender may require of a recipient (RFC 9659 §3).
const WINDOW_LOG_MAX: u32 = 23;

const _: () = assert!(ENCODER_WINDOW_LOG <= WINDOW_LOG_MAX, "we can read what we write");

#[cfg(test)]
mod tests {
    use std::iter;

    use zstd::zstd_safe::find_frame_compressed_size;

    use super::{Decode, ZstdDecoder};
    use crate::coding::{Coding, CodingError, ContentEncoder, Flush};

    /// A larger window would let a peer determine how much memory is allocated.
    #[test]
    fn no_window_is_larger_than_8_mib_rfc9659_3() {
        let decode = |window_log: u8| {
            let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3, 0b1001, 0, 0, b'x'];
            ZstdDecoder::new().step(&frame, &mut [0; 9]).map(|step| step.is_whole)
        };
        assert_eq!(decode(23), Ok(true));
        assert_eq!(decode(24), Err(CodingError::Window(Coding::Zstd)));
    }

    /// If the end of a frame does not fit into the room, no further, empty frame may follow. Some decoders refuse content
    /// after a frame.
    #[test]
    fn content_is_one_frame_rfc8878_3_1() {
        let mut seed = 1u32;
        let hardly_shrinks = iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        });
        let content: Vec<u8> = hardly_shrinks.take(100_000).collect();
        for len in [0, 1, 240, 243, 256, 1000, 16_384, 16_385, content.len()] {
            for flush in [Flush::Later, Flush::Now, Flush::End] {
                let mut encoder = ContentEncoder::new(Coding::Zstd, 3).unwrap();
                let mut out = Vec::new();
                encoder.encode(&content[..len], flush, &mut out).unwrap();
                if flush != Flush::End {
                    encoder.encode(&[], Flush::End, &mut out).unwrap();
                }
                assert_eq!(find_frame_compressed_size(&out), Ok(out.len()), "{len} bytes, {flush:?}");
            }
        }
    }
}
