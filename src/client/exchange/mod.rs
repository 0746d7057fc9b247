//! One exchange of a client, and its response.

mod exchange;
mod response;

pub(super) use exchange::{ClientExchange, ExchangeSpec, Progress, ResponseStage, Upload};
pub use response::ClientConnection;
