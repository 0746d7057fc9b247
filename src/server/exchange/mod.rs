//! One exchange on a connection, as the loop of the connection sees it.

mod exchange;
mod exchange_info;

mod shared_conn;
mod upgraded;

pub(super) use exchange::{CloseMode, Exchange, NextStep, ResponseContent};
pub(super) use exchange_info::UnreadBody;
pub(super) use shared_conn::SharedConn;
pub use upgraded::Upgraded;
pub(crate) use upgraded::UpgradedGuard;
pub(super) use upgraded::UpgradedHandle;
