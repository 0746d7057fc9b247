//! `br`: brotli (RFC 7932).

use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::caching_alloc::CachingAlloc;
use crate::coding::CodingError;
use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;

/// An encoder for `br`.
pub(super) struct BrEncoder {
    state: BrotliEncoderStateStruct<CachingAlloc>,
    alloc: CachingAlloc,
    level: u32,
}

impl BrEncoder {
    pub(super) fn new(level: u32) -> BrEncoder {
        let (alloc, level) = (CachingAlloc::new(ENCODER_KEPT_MAX), level.min(11));
        BrEncoder { state: encoder_state(&alloc, level), alloc, level }
    }
}

fn encoder_state(alloc: &CachingAlloc, level: u32) -> BrotliEncoderStateStruct<CachingAlloc> {
    let mut state = BrotliEncoderStateStruct::new(alloc.clone());
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, level);
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, WINDOW_BITS);
    state
}

/// 512 KiB. A larger window costs each stream that much memory, and gains little on content that is made for each
/// answer.
const WINDOW_BITS: u32 = 19;

/// The tables for levels that are suitable for answers are smaller.
const ENCODER_KEPT_MAX: usize = 4 << 20;

impl Encode for BrEncoder {
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError> {
        let operation = match flush {
            Flush::Later => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Flush::Now => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Flush::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut unread, mut read, mut unwritten, mut written) = (input.len(), 0, room.len(), 0);
        let went_well = self.state.compress_stream(
            operation,
            &mut unread,
            input,
            &mut read,
            &mut unwritten,
            room,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !went_well {
            return Err(CodingError::Encoder);
        }
        let is_whole = match flush {
            Flush::Later | Flush::Now => unread == 0 && !self.state.has_more_output(),
            Flush::End => self.state.is_finished(),
        };
        Ok(Step { read, written, is_whole })
    }

    fn reset(&mut self) {
        self.state = encoder_state(&self.alloc, self.level);
    }
}

/// A decoder for `br`.
pub(super) struct BrDecoder {
    state: BrotliState<CachingAlloc, CachingAlloc, CachingAlloc>,
    alloc: CachingAlloc,
    is_whole: bool,
}

impl BrDecoder {
    pub(super) fn new() -> BrDecoder {
        let alloc = CachingAlloc::new(DECODER_KEPT_MAX);
        BrDecoder { state: decoder_state(&alloc), alloc, is_whole: false }
    }
}

/// A window of more than 16 MiB, which is not part of RFC 7932, is refused.
fn decoder_state(alloc: &CachingAlloc) -> BrotliState<CachingAlloc, CachingAlloc, CachingAlloc> {
    BrotliState::new_strict(alloc.clone(), alloc.clone(), alloc.clone())
}

/// The memory of large windows, which few senders use, is not kept.
const DECODER_KEPT_MAX: usize = 1 << 20;

impl Decode for BrDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        if self.is_whole {
            let nothing = Step { is_whole: true, ..Step::default() };
            return if input.is_empty() { Ok(nothing) } else { Err(CodingError::Corrupt) };
        }
        let (mut unread, mut read, mut unwritten, mut written) = (input.len(), 0, room.len(), 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut read,
            input,
            &mut unwritten,
            &mut written,
            room,
            &mut 0,
            &mut self.state,
        );
        self.is_whole = match result {
            BrotliResult::ResultSuccess => true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
            BrotliResult::ResultFailure => return Err(CodingError::Corrupt),
        };
        Ok(Step { read, written, is_whole: self.is_whole })
    }

    fn reset(&mut self) {
        self.state = decoder_state(&self.alloc);
        self.is_whole = false;
    }
}
