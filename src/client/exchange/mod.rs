//! [`ClientExchange`]: both sides of one exchange. Its connection is beside it, in a `PooledConn`.

mod exchange;
mod response;

pub(crate) use exchange::{ClientExchange, ExchangeSpec, Progress, ResponseStage, Upload};
pub use response::ClientConnection;
