//! [`Decode`]: what decoders have in common, a step at a time.

use super::CodingError;

/// What becomes of content that was put in and has not come out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// It may wait for more.
    Later,
    /// All of it is to come out, for somebody waits for it.
    Now,
    /// All of it is to come out, and nothing follows.
    End,
}

/// What one step has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// So much was read of the front of the input.
    pub(super) read: usize,
    /// So much was written to the front of the room.
    pub(super) written: usize,
    /// Encoding: what the [`Flush`] asked for is done. Decoding: the content may end here.
    pub(super) is_whole: bool,
}

/// The state of a decoder.
pub(super) trait Decode: Send {
    /// Makes the next step. There is room for [`ROOM_MIN`] bytes. Without input, what is held back comes out.
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError>;

    /// Makes it equal a new one, but for the memory, of which it keeps what usual content needs.
    fn reset(&mut self);
}

/// What a decoder is offered at least.
pub(super) const ROOM_MIN: usize = 4 << 10;
