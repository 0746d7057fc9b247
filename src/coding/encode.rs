//! [`Encode`]: the interface of encoders, one step at a time. A leaf of its own, since only feature `compress` encodes.

use super::CodingError;
use super::codec::{Flush, Step};

/// The state of an encoder.
pub(super) trait Encode: Send {
    /// Makes the next step. `room` is not empty.
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError>;

    /// Makes the encoder equal to a new one, but keeps the memory.
    fn reset(&mut self);

    /// How many bytes of memory it takes, to within a few KB.
    fn memory(&self) -> usize;
}
