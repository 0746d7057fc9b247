//! Floor 5: server-sent events (HTML §9.2), which a page hears as they happen.

mod event;

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

pub use event::{Event, InvalidEvent};

use crate::runtime;
use crate::server::{Context, Writer};

/// An answer that goes on: events for a page's `EventSource`, each sent at once.
///
/// Made by [`Context::events`]. A peer that is gone is an error of the next event, or of the next comment while
/// nothing happens.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Context, Event, Server};
///
/// async fn ticks(ctx: &mut Context) -> corehttp::Result {
///     let mut events = ctx.events().await?;
///     for count in 0.. {
///         events.send(Event::data(&format!("tick {count}"))).await?;
///         events.wait(tokio::time::sleep(Duration::from_secs(1))).await?;
///     }
///     Ok(events.finish().await?)
/// }
///
/// fn main() -> corehttp::Result {
///     Server::bind("127.0.0.1:8080").run(ticks)
/// }
/// ```
#[derive(Debug)]
pub struct Events<'a> {
    /// How long nothing may be sent while [`Events::wait`] waits, before a comment shows the proxies on the way that
    /// the connection is alive. Less than a second counts as one. Default: 15 s.
    pub keep_alive: Duration,
    out: Writer<'a>,
    /// The event that is being sent, and how much of it was.
    buffer: Vec<u8>,
    sent: usize,
}

impl Context {
    /// Sends the head of an event stream, `text/event-stream` and not to be stored, and lets the handler send events.
    /// Other fields of the response go with it.
    ///
    /// # Errors
    ///
    /// A connection that fails, or an answer that has been sent already.
    pub async fn events(&mut self) -> io::Result<Events<'_>> {
        let headers = &mut self.response.headers;
        headers.set("content-type", "text/event-stream").map_err(io::Error::other)?;
        headers.set("cache-control", "no-store").map_err(io::Error::other)?;
        Ok(Events { keep_alive: KEEP_ALIVE, out: self.stream().await?, buffer: Vec::new(), sent: 0 })
    }
}

impl Events<'_> {
    /// Sends `event` now. If the future is dropped half-way, the rest is sent before anything else.
    ///
    /// # Errors
    ///
    /// An [`InvalidEvent`], of which nothing is sent; a peer that is gone, or does not read.
    pub async fn send(&mut self, event: Event<'_>) -> io::Result<()> {
        self.begin().await?;
        event
            .encode(&mut self.buffer)
            .map_err(|invalid| io::Error::new(io::ErrorKind::InvalidInput, invalid))?;
        self.flush().await
    }

    /// Sends a comment now, which pages ignore. As with [`Events::send`], nobody will see half of it.
    ///
    /// # Errors
    ///
    /// A peer that is gone, or does not read.
    pub async fn comment(&mut self, text: &str) -> io::Result<()> {
        self.begin().await?;
        event::comment(&mut self.buffer, text);
        self.flush().await
    }

    /// Waits for `next`, and sends a comment whenever that takes longer than [`Events::keep_alive`].
    ///
    /// # Errors
    ///
    /// A peer that is gone, or does not read. What was waited for is dropped then.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> io::Result<T> {
        let mut next = pin!(next);
        loop {
            match runtime::timeout(self.keep_alive.max(KEEP_ALIVE_LEAST), &mut next).await {
                Ok(next) => return Ok(next),
                Err(_) => self.comment("").await?,
            }
        }
    }

    /// The id of the last event that the page received on an earlier connection, if this is a reconnection (HTML
    /// §9.2.4).
    pub fn last_id(&self) -> Option<&str> {
        self.out.request.headers.text("last-event-id")
    }

    /// Whether the server is about to stop. It waits for event streams no longer than for other answers: a stream that
    /// has not ended when the grace is over is cut, and the page reconnects.
    ///
    /// Where events are rare, wait for [`Context::stopping`] beside them.
    pub fn is_stopping(&self) -> bool {
        self.out.is_stopping()
    }

    /// Ends the stream. The page will reconnect, and stop doing so if it is then answered with 204 (HTML §9.2.3).
    ///
    /// # Errors
    ///
    /// A peer that is gone, or does not read.
    pub async fn finish(mut self) -> io::Result<()> {
        self.write().await?;
        self.out.finish().await
    }

    /// Makes room for another event, once all of the one before it was written.
    async fn begin(&mut self) -> io::Result<()> {
        self.write().await?;
        self.buffer.clear();
        self.sent = 0;
        Ok(())
    }

    /// Writes what is left of an event. Whoever gave it up had perhaps written some of it, and what follows must not be
    /// taken for the rest.
    async fn write(&mut self) -> io::Result<()> {
        while self.sent < self.buffer.len() {
            self.sent += self.out.write(&self.buffer[self.sent..]).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.write().await?;
        self.out.flush().await
    }
}

/// Proxies cut connections that say nothing for half a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const KEEP_ALIVE_LEAST: Duration = Duration::from_secs(1);
