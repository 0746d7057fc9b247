//! Exchanges in the hands of their callers: bodies piece by piece.

mod call;
mod call_exchange;
mod halves;

mod response_reader;

mod outcome_recorder;

pub use call::Call;
pub(crate) use call_exchange::CallExchange;
pub(in crate::client) use call_exchange::CallHead;
pub use halves::{CallReader, CallWriter};
pub(crate) use outcome_recorder::{BalancedOutcome, InFlightGuard};
#[cfg(feature = "tower")]
pub(crate) use response_reader::ReadState;
pub use response_reader::ResponseReader;
