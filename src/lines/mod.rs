//! Floor 2: lines that a thread of their own writes, so that no core waits for a disk or a terminal.

mod buffers;
mod log;
mod target;

mod writer;

pub(crate) use log::Log;
pub(crate) use target::{LineTarget, notice};
pub(crate) use writer::LineWriter;
