//! Server-sent events (HTML §9.2): written by handlers, read by clients.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use corehttp::sse::Event;
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(async |ctx: &mut Context| {
//!         let mut events = ctx.events().await?;
//!         for count in 0.. {
//!             events.send(Event::new(&format!("tick {count}"))).await?;
//!             events.wait(tokio::time::sleep(Duration::from_secs(1))).await?;
//!         }
//!         Ok(events.finish().await?)
//!     })
//! }
//! ```
//!
//! A client reads them with an [`EventSource`], which connects again, or from one connection with an [`EventReader`].

// Floor 5: server-sent events (HTML §9.2), written and read.

mod event;
mod event_reader;
mod event_source;
mod events;

pub use event::Event;
pub use event_reader::EventReader;
pub use event_source::EventSource;
pub use events::Events;
