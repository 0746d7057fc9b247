//! [`OutgoingRequest`]: the request of an exchange; [`ClientExchange`]: both sides of it. Its connection is beside it, in a
//! `PooledConn`.

mod exchange;
mod outgoing_request;
mod response;

pub(crate) use exchange::{ClientExchange, Interim, ResponseStage, Upload};
pub(crate) use outgoing_request::{CREDENTIALS, ExpectField, OutgoingRequest, RedirectTaint};
pub use response::ClientConnection;
