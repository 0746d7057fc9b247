//! [`Encoder`]: codes content, however it comes in pieces.

use std::fmt;

use super::codec::Flush;
use super::encode::Encode;
use super::{Coding, CodingError, codecs};
use crate::memory::Stash;

/// An encoder in use. When it is dropped it waits on its thread to be used again: its state is large.
pub(crate) struct Encoder {
    make: (Coding, u32),
    /// None once it was dropped.
    state: Option<Box<dyn Encode>>,
}

impl Encoder {
    /// An encoder of that level, if there is one for the coding. A level beyond what the coding has is its highest.
    pub(crate) fn new(coding: Coding, level: u32) -> Option<Encoder> {
        let make = (coding, level);
        let kept = SPARE.with(|spare| spare.take(|(of, _)| *of == make));
        let state = kept.map(|(_, state)| state).or_else(|| codecs::encoder(coding, level))?;
        Some(Encoder { make, state: Some(state) })
    }

    /// Takes `input` in, and appends to `out` what comes of it.
    ///
    /// # Errors
    ///
    /// Want of memory, in a coding that says so.
    pub(crate) fn encode(
        &mut self,
        mut input: &[u8],
        flush: Flush,
        out: &mut Vec<u8>,
    ) -> Result<(), CodingError> {
        let state = self.state.as_mut().ok_or(CodingError::Encoder)?;
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
}

/// Less would not do for what a flush ends with.
const ROOM_MIN: usize = 256;
const ROOM_MAX: usize = 16 << 10;

/// What an encoder is made for, and its state.
type Spare = ((Coding, u32), Box<dyn Encode>);

thread_local! {
    static SPARE: Stash<Spare> = const { Stash::new() };
}

impl Drop for Encoder {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        state.reset();
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| spare.give((self.make, state)));
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("make", &self.make).finish_non_exhaustive()
    }
}
