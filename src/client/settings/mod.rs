//! What is set when a client is built.

mod builder;
mod settings;
#[cfg(feature = "tls")]
mod tls;

pub use builder::ClientBuilder;
pub use settings::ClientTimeouts;
pub(super) use settings::{PoolBounds, Settings};
