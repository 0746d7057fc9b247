//! A client that blocks its thread: for scripts, build tools and programs without a runtime.
//!
//! ```no_run
//! use corehttp::blocking::Client;
//!
//! fn main() -> corehttp::Result {
//!     let client = Client::new()?;
//!     let response = client.get("http://example.com/items").header("accept", "text/plain").send()?.error_for_status()?;
//!     println!("{}", response.text()?);
//!     Ok(())
//! }
//! ```
//!
//! Such a client is a [`corehttp::Client`](crate::Client) in a runtime of its own, on one thread. Its connections last from one
//! request to the next. All settings of [`ClientBuilder`](crate::ClientBuilder) hold. `.send()` takes the place of `.await`.
//!
//! In a runtime, each request fails with [`ClientCause::InRuntime`](crate::client::ClientCause::InRuntime): the thread would
//! serve nothing else meanwhile. `async` code awaits a [`corehttp::Client`](crate::Client) instead. In
//! `tokio::task::spawn_blocking`, whose threads belong to a runtime too, such a client is waited for by
//! `Handle::current().block_on(client.get(url).into_future())`.
//!
//! For other futures than requests, there is [`block_on`](crate::block_on).

mod client;
mod request_builder;
mod response_reader;

pub use client::Client;
pub use request_builder::{Blocking, RequestBuilder};
pub use response_reader::ResponseReader;
