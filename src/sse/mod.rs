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
//! A stream without an end is cut when the grace of the server's [stop](crate::Server::stop_on) is over. To end it before that,
//! wait for [`Context::stopping`](crate::Context::stopping) as well. The page connects again:
//!
//! ```
//! use std::pin::pin;
//!
//! use corehttp::Context;
//! use corehttp::sse::Event;
//! use tokio::sync::broadcast::Receiver;
//!
//! async fn follow(mut news: Receiver<String>, ctx: &mut Context) -> corehttp::Result {
//!     let mut stopping = pin!(ctx.stopping());
//!     let mut events = ctx.events().await?;
//!     loop {
//!         tokio::select! {
//!             next = events.wait(news.recv()) => match next? {
//!                 Ok(text) => events.send(Event::new(&text)).await?,
//!                 Err(_) => break, // nobody writes news any more, or this reader is far behind
//!             },
//!             () = &mut stopping => break,
//!         }
//!     }
//!     Ok(events.finish().await?)
//! }
//! # use std::time::Duration;
//! # use corehttp::{Client, Server, net::MemoryListener};
//! # let (writer, _) = tokio::sync::broadcast::channel(4);
//! # let listener = MemoryListener::new();
//! # let client = Client::builder().connect_to(&listener).build();
//! # let readers = writer.clone();
//! # let handler = async move |ctx: &mut Context| follow(readers.subscribe(), ctx).await;
//! # let server = Server::bind(listener).cores(1).start(handler)?;
//! # corehttp::block_on(async {
//! #     let mut response = corehttp::Response::new();
//! #     let mut body = client.open_response(&corehttp::Request::get("http://a/")?, &mut response).await?;
//! #     writer.send("one".to_owned())?;
//! #     assert_eq!(body.chunk().await?, Some(b"data: one\n\n".as_slice()));
//! #     let stop = server.stop(Duration::from_secs(60));
//! #     assert_eq!(body.chunk().await?, None);
//! #     Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client reads events with an [`EventSource`], which connects again, or from one connection with an [`EventReader`].

// Floor 5: server-sent events (HTML §9.2), written and read.

mod event;
mod event_reader;
mod event_source;
mod events;

pub use event::Event;
pub use event_reader::EventReader;
pub use event_source::EventSource;
pub use events::Events;
