//! [`Encode`]: what encoders have in common, a step at a time.

use super::CodingError;
use super::codec::{Flush, Step};

/// The state of an encoder.
pub(super) trait Encode: Send {
    /// Makes the next step. There is room.
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError>;

    /// Makes it equal a new one, but for the memory.
    fn reset(&mut self);
}
