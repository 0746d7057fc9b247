//! [`Events`]: a response that is a stream of events.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::event::{Event, comment};
use crate::runtime;
use crate::server::{BodyWriter, Context};

/// A response that is a stream of events, each sent at once, for the `EventSource` of a web page.
///
/// Made by [`Context::events`]. Once the peer is gone, sending fails. As a rule, the event or keep-alive comment after the next
/// one fails. A handler that waits is [dropped](crate::Server::half_close) at once.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Context, Server};
/// use corehttp::sse::Event;
///
/// async fn ticks(ctx: &mut Context) -> corehttp::Result {
///     let mut events = ctx.events().await?;
///     for count in 0.. {
///         events.send(Event::new(&format!("tick {count}"))).await?;
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
    /// The time after which [`Events::wait`] sends a comment. At least one second. Default: 15 s. The comment shows proxies
    /// that the connection is alive.
    pub keep_alive: Duration,
    out: BodyWriter<'a>,
    /// The event that is being sent, and how much of it has been.
    buffer: Vec<u8>,
    sent: usize,
}

impl Context {
    /// Begins a stream of events, with the content type `text/event-stream` and `cache-control: no-store`. Other fields
    /// of the response are sent too.
    ///
    /// nginx and some other proxies would gather the events of a server behind them. The field `x-accel-buffering: no` prevents
    /// that. A value that the handler has set stays. From here on, [`Timeouts::handler`](crate::Timeouts::handler) does not
    /// count.
    ///
    /// # Errors
    ///
    /// As [`Context::body_writer`].
    pub async fn events(&mut self) -> io::Result<Events<'_>> {
        let headers = &mut self.response.headers;
        headers.set("content-type", "text/event-stream").map_err(io::Error::other)?;
        headers.set("cache-control", "no-store").map_err(io::Error::other)?;
        if !headers.contains("x-accel-buffering") {
            headers.set("x-accel-buffering", "no").map_err(io::Error::other)?;
        }
        Ok(Events { keep_alive: KEEP_ALIVE, out: self.body_writer().await?, buffer: Vec::new(), sent: 0 })
    }
}

impl Events<'_> {
    /// Sends `event` at once. If the future is dropped halfway, the rest is sent before anything else.
    ///
    /// # Errors
    ///
    /// Fails if the peer is gone or does not read. Fails with [`MessageError`](crate::error::MessageError) if the event is
    /// invalid. Nothing of it is sent then.
    pub async fn send(&mut self, event: Event<'_>) -> io::Result<()> {
        self.clear_sent().await?;
        event
            .encode(&mut self.buffer)
            .map_err(|invalid| io::Error::new(io::ErrorKind::InvalidInput, invalid))?;
        self.flush().await
    }

    /// Sends a comment at once, which pages ignore. Like an event, it is never sent in part only.
    ///
    /// # Errors
    ///
    /// Fails if the peer is gone or does not read.
    pub async fn send_comment(&mut self, text: &str) -> io::Result<()> {
        self.clear_sent().await?;
        comment(&mut self.buffer, text);
        self.flush().await
    }

    /// Waits for `next`, with a comment after each [`Events::keep_alive`] of waiting.
    ///
    /// # Errors
    ///
    /// Fails if the peer is gone or does not read. `next` is then dropped.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> io::Result<T> {
        let mut next = pin!(next);
        loop {
            match runtime::timeout(self.keep_alive.max(KEEP_ALIVE_MIN), &mut next).await {
                Ok(next) => return Ok(next),
                Err(_) => self.send_comment("").await?,
            }
        }
    }

    /// Waits until the peer has closed the connection or its sending half, like
    /// [`Context::peer_closed`](crate::Context::peer_closed). By default, the server drops a waiting handler at that moment.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// use corehttp::sse::Event;
    /// use tokio::sync::mpsc::Receiver;
    /// # async fn note_reader_gone() {}
    ///
    /// async fn follow(ctx: &mut Context, mut news: Receiver<String>) -> corehttp::Result {
    ///     ctx.set_uncancelled();
    ///     let mut events = ctx.events().await?;
    ///     loop {
    ///         tokio::select! {
    ///             news = news.recv() => match news {
    ///                 Some(text) => events.send(Event::new(&text)).await?,
    ///                 None => return Ok(events.finish().await?),
    ///             },
    ///             () = events.peer_closed() => return Ok(note_reader_gone().await),
    ///             () = tokio::time::sleep(events.keep_alive) => events.send_comment("").await?,
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn peer_closed(&self) {
        self.out.peer_closed().await;
    }

    /// Returns the id of the last event on an earlier connection, if the page has reconnected (HTML §9.2.4).
    pub fn last_id(&self) -> Option<&str> {
        self.out.request.headers.get("last-event-id")
    }

    /// Returns whether the server stops, like [`BodyWriter::is_stopping`]. A stream is cut at the end of the grace, like any
    /// other response, and the page reconnects.
    ///
    /// If events are rare, wait for [`Context::stopping`] alongside them, as in the second program of the
    /// [module](crate::sse).
    pub fn is_stopping(&self) -> bool {
        self.out.is_stopping()
    }

    /// Ends the stream. The page will reconnect. To stop it, answer that request with 204 (HTML §9.2.3).
    ///
    /// # Errors
    ///
    /// Fails if the peer is gone or does not read.
    pub async fn finish(mut self) -> io::Result<()> {
        self.write_pending().await?;
        self.out.finish().await
    }

    /// Clears the buffer for another event, once all of the last one was written.
    async fn clear_sent(&mut self) -> io::Result<()> {
        self.write_pending().await?;
        debug_assert_eq!(self.sent, self.buffer.len(), "the last event was sent whole");
        self.buffer.clear();
        self.sent = 0;
        Ok(())
    }

    /// Writes the rest of the buffered event. A cancelled `send` may have written a part of the event, and the client
    /// must not take the next event for its rest.
    async fn write_pending(&mut self) -> io::Result<()> {
        while self.sent < self.buffer.len() {
            self.sent += self.out.write(&self.buffer[self.sent..]).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.write_pending().await?;
        self.out.flush().await
    }
}

/// Proxies cut connections that are silent for half a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Without a pause, comments would keep the connection busy.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);
