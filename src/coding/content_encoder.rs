//! [`ContentEncoder`]: encodes content piece by piece.

use std::fmt;

use super::codec::Flush;
use super::encode::Encode;
use super::{Coding, CodingError, codecs};
use crate::memory::LocalCache;

/// An encoder in use. When it is dropped, its state, which is large, is kept on its thread to be used again.
pub(crate) struct ContentEncoder {
    params: (Coding, u32),
    /// `None` once it was dropped.
    state: Option<Box<dyn Encode>>,
}

impl ContentEncoder {
    /// Makes an encoder with this level, if the coding has one. A level that is too high becomes the highest one.
    pub(crate) fn new(coding: Coding, level: u32) -> Option<ContentEncoder> {
        let params = (coding, level);
        let kept = CACHE.with(|cache| cache.take(|(of, _)| *of == params));
        let state = kept.map(|(_, state)| state).or_else(|| codecs::encoder(coding, level))?;
        Some(ContentEncoder { params, state: Some(state) })
    }

    /// Encodes `input`, and appends the output to `out`.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory, in codings that report this.
    pub(crate) fn encode(
        &mut self,
        input: &[u8],
        flush: Flush,
        out: &mut Vec<u8>,
    ) -> Result<(), CodingError> {
        encode(&mut **self.state.as_mut().ok_or(CodingError::Encoder)?, input, flush, out)
    }

    /// How many are kept on this thread, which are taken.
    #[cfg(test)]
    pub(crate) fn kept() -> usize {
        std::iter::from_fn(|| CACHE.with(|cache| cache.take(|_| true))).count()
    }
}

/// Encodes all of `content`, and keeps nothing. For the threads that block: they are many, and each does this now and
/// then.
///
/// # Errors
///
/// As [`ContentEncoder::encode`].
pub(crate) fn encode_once(coding: Coding, level: u32, content: &[u8]) -> Result<Vec<u8>, CodingError> {
    let mut state = codecs::encoder(coding, level).ok_or(CodingError::Encoder)?;
    let mut out = Vec::new();
    encode(&mut *state, content, Flush::End, &mut out).map(|()| out)
}

fn encode(
    state: &mut dyn Encode,
    mut input: &[u8],
    flush: Flush,
    out: &mut Vec<u8>,
) -> Result<(), CodingError> {
    loop {
        let (before, room) = (out.len(), input.len().clamp(ROOM_MIN, ROOM_MAX));
        out.resize(before + room, 0);
        let step = state.step(input, &mut out[before..], flush);
        out.truncate(before + step.map_or(0, |step| step.written));
        let step = step?;
        input = &input[step.read..];
        match step.is_whole {
            true => return Ok(()),
            false if step.read == 0 && step.written == 0 => return Err(CodingError::Encoder),
            false => {}
        }
    }
}

/// Less room would not suffice for the end of a flush.
const ROOM_MIN: usize = 256;
const ROOM_MAX: usize = 16 << 10;

/// An encoder that waits to be used again: its coding and level, and its state.
type CachedEncoder = ((Coding, u32), Box<dyn Encode>);

thread_local! {
    static CACHE: LocalCache<CachedEncoder> = const { LocalCache::new() };
}

impl Drop for ContentEncoder {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        state.reset();
        // On a thread that is ending, nothing is kept.
        let _ = CACHE.try_with(|cache| cache.give((self.params, state)));
    }
}

impl fmt::Debug for ContentEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentEncoder").field("params", &self.params).finish_non_exhaustive()
    }
}
