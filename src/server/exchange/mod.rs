//! One exchange on a connection, as the loop of the connection sees it: both sides, from `crate::exchange`, with what is
//! known of the request.

mod body_plan;
mod exchange;
mod exchange_info;

mod shared_conn;
mod upgraded;

pub use body_plan::BodyPlan;
pub(crate) use exchange::Exchange;
pub(crate) use exchange_info::{CloseMode, NextStep, ReportedEnd, ResponseContent, UnreadBody};
pub(crate) use shared_conn::{OnPending, SharedConn};
pub use upgraded::Upgraded;
pub(crate) use upgraded::UpgradedGuard;
pub(crate) use upgraded::UpgradedHandle;
