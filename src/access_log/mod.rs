//! Floor 5: access logs, a line for each exchange, written by a thread of its own.

mod access_log;
mod format;
mod writer;

pub use access_log::AccessLog;
pub use format::Format;
