//! [`Writer`]: sends messages.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{self, Poll};
use std::time::Duration;

use super::shared_message::SharedMessage;
use crate::websocket::frame::{CloseCode, Message, MessagePart};
use crate::websocket::link::{Half, Link, Role, ServerRole};

/// The half of a [`WebSocket`](crate::websocket::WebSocket) that sends messages.
pub struct Writer<R: Role = ServerRole> {
    pub(super) half: Half<R>,
}

impl<R: Role> Writer<R> {
    /// Sends a message: a `&str` as a text, a `&[u8]` as binary, or a [`Message`]. Waits until the operating system has
    /// taken all bytes to be sent. Does not wait for a message that is held back.
    ///
    /// A message of the handler is held back while other messages have arrived and were not received yet. It waits
    /// until the handler does, or for [`Options::buffer_max`](crate::websocket::Options::buffer_max) bytes. So the
    /// answers to many messages leave in one write. Messages of other tasks are sent at once: see [`Writer::feed`].
    ///
    /// If the future is dropped, the message is sent all the same, with the next call of the reader or the writer.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Also fails if the peer takes nothing for too long. Fails with an
    /// [`Error`](crate::websocket::Error) between the parts of another message, and after a close frame, such as that
    /// of a stop.
    ///
    /// With sends and receives together, as in a `select!`, a handler checks [`Writer::is_closed`] before each send.
    /// Once the writer is closed, the handler waits for `None` from
    /// [`Reader::receive`](crate::websocket::Reader::receive). An earlier end would close the connection before the
    /// peer could answer.
    ///
    /// Once a write has failed, nothing is sent any more. The reader still receives messages and a close frame of a
    /// closed peer.
    pub async fn send(&mut self, message: impl Into<Message<'_>>) -> io::Result<()> {
        let mut message = Some(message.into());
        poll_fn(|cx| {
            self.half.with(|link| {
                if let Some(message) = message.take() {
                    link.write_message(cx, message)?;
                }
                self.poll_send(link, cx)
            })
        })
        .await
    }

    /// Adds a message to those that wait to be sent. From
    /// [`Options::buffer_max`](crate::websocket::Options::buffer_max) bytes on, they are sent. They are also sent by
    /// [`Writer::flush`], the next [`Writer::send`], or a waiting reader.
    ///
    /// # Errors
    ///
    /// As [`Writer::send`].
    pub async fn feed(&mut self, message: impl Into<Message<'_>>) -> io::Result<()> {
        let message = message.into();
        self.feed_with(|link, cx| link.write_message(cx, message)).await
    }

    /// Sends a part of a message, as a frame of its own. The message need not be in memory as a whole. Parts are not
    /// compressed. No other message can be sent before the last part.
    ///
    /// # Errors
    ///
    /// Fails as [`Writer::send`] does. Also fails, without sending the part, for another kind than that of the parts
    /// before, and for a text that is not UTF-8.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use corehttp::websocket::{self, MessageKind, MessagePart};
    ///
    /// async fn send_rows(writer: &mut websocket::Writer, rows: &[&str]) -> io::Result<()> {
    ///     let part = MessagePart { kind: MessageKind::Text, bytes: b"", is_last: false };
    ///     for row in rows {
    ///         writer.send_part(MessagePart { bytes: row.as_bytes(), ..part }).await?;
    ///     }
    ///     writer.send_part(MessagePart { is_last: true, ..part }).await
    /// }
    /// ```
    pub async fn send_part(&mut self, part: MessagePart<'_>) -> io::Result<()> {
        self.half.with(|link| link.write_part(part))?;
        poll_fn(|cx| self.half.with(|link| self.poll_send(link, cx))).await
    }

    /// Sends a ping with `payload`, which the peer answers by a pong. See [`Writer::round_trip`]. A silent peer gets
    /// pings by itself: see [`Options::ping_interval`](crate::websocket::Options::ping_interval).
    ///
    /// # Errors
    ///
    /// As [`Writer::send`], or if the payload exceeds 125 bytes.
    pub async fn ping(&mut self, payload: &[u8]) -> io::Result<()> {
        self.half.with(|link| link.write_ping(payload))?;
        self.flush().await
    }

    /// Returns the time from the last answered ping to its pong. `None` without a pong. The pings are those of
    /// [`Writer::ping`], and those for a silent peer. Of several that wait for an answer, the first is measured. The
    /// pong is seen while the reader waits for messages.
    pub fn round_trip(&self) -> Option<Duration> {
        self.half.with(|link| link.heartbeat.round_trip())
    }

    /// Sends all messages that wait.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Also fails if the peer takes nothing for too long.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.half.with(|link| link.poll_send(cx, 0))).await
    }

    /// Sends a close frame, unless one was sent already. With [`CloseCode::NONE`] it has neither code nor reason.
    ///
    /// The WebSocket is closed once the peer has answered. The reader waits for that: see
    /// [`WebSocket::close`](crate::websocket::WebSocket::close).
    ///
    /// # Errors
    ///
    /// Fails as [`Writer::flush`] does. Fails with an [`Error`](crate::websocket::Error) for a code that must not be
    /// sent, for a reason without a code, and for a reason of more than 123 bytes.
    pub async fn close(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        let is_writable =
            self.half.with(|link| link.write_close(code, reason).map(|()| link.state().is_writable()))?;
        if is_writable { self.flush().await } else { Ok(()) }
    }

    /// Adds a message of a broadcast to those that wait to be sent.
    pub(super) async fn feed_shared(&mut self, message: &SharedMessage) -> io::Result<()> {
        self.feed_with(|link, cx| message.write(link, cx)).await
    }

    /// Adds the message that `write` appends to those that wait to be sent.
    async fn feed_with(
        &mut self,
        write: impl FnOnce(&mut Link<R>, &mut task::Context<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut write = Some(write);
        poll_fn(|cx| {
            self.half.with(|link| {
                if let Some(write) = write.take() {
                    write(link, cx)?;
                }
                link.poll_send(cx, link.bounds.buffer_max)
            })
        })
        .await
    }

    /// Waits until the WebSocket is closed, after a close frame that was sent.
    pub(super) async fn closed(&self) -> io::Result<()> {
        poll_fn(|cx| self.half.with(|link| link.poll_closed(cx))).await
    }

    /// Whether a close frame was sent.
    pub(super) fn has_sent_close(&self) -> bool {
        self.half.with(|link| link.state().has_sent_close())
    }

    /// Returns whether nothing can be sent any more, after a close frame, a failed write or the end of the connection.
    pub fn is_closed(&self) -> bool {
        self.half.with(|link| !link.state().is_open())
    }

    /// Sends what waits, unless the handler is about to receive more.
    fn poll_send(&self, link: &mut Link<R>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let is_held_back = self.half.has_unread.load(Relaxed) && link.is_handler(cx);
        let buffer_max = if is_held_back { link.bounds.buffer_max } else { 0 };
        link.poll_send(cx, buffer_max)
    }
}

impl<R: Role> fmt::Debug for Writer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketWriter").finish_non_exhaustive()
    }
}
