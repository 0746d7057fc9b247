//! [`Decode`]: the interface of decoders, one step at a time.

use super::CodingError;

/// Whether content that was taken in must come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// It may be held back until there is more.
    Later,
    /// All of it must come out, since the peer waits for it.
    Now,
    /// All of it must come out, and nothing follows.
    End,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// How many bytes were read from the front of the input.
    pub(super) read: usize,
    /// How many bytes were written to the front of the room.
    pub(super) written: usize,
    /// When encoding: whether the [`Flush`] is complete. When decoding: whether the content may end here.
    pub(super) is_whole: bool,
}

/// The state of a decoder.
pub(super) trait Decode: Send {
    /// Makes the next step. There is room for [`ROOM_MIN`] bytes. Without input, what was held back comes out.
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError>;

    /// Makes it equal to a new one, but keeps the memory that usual content needs.
    fn reset(&mut self);
}

/// The least room that a decoder is offered.
pub(super) const ROOM_MIN: usize = 4 << 10;
