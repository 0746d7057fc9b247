//! Exchanges in the hands of their callers: bodies piece by piece, and connections after an upgrade.

mod call;
mod call_exchange;
mod halves;

mod response_reader;
mod upgraded;

mod outcome_recorder;

pub use call::Call;
pub(crate) use call_exchange::CallExchange;
pub use halves::{CallReader, CallWriter};
pub(super) use outcome_recorder::{InFlightGuard, OutcomeRecorder};
#[cfg(feature = "tower")]
pub(super) use response_reader::ReadState;
pub use response_reader::ResponseReader;
pub use upgraded::ClientUpgraded;
