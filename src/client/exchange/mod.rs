//! [`ClientExchange`]: both sides of one exchange. Its connection is beside it, in a `PooledConn`.

mod exchange;
mod outgoing_request;
mod response;

pub(crate) use exchange::{ClientExchange, ExchangeSpec, Progress, ResponseStage, Upload};
pub(crate) use outgoing_request::{CREDENTIALS, ExpectField, OutgoingRequest, RedirectTaint, check};
pub use response::ClientConnection;
