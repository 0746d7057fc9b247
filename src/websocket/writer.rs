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
    /// taken all bytes that wait to be sent, those of this message included, unless the message is held back.
    ///
    /// While other messages have arrived and were not received yet, a message of the handler waits until the handler
    /// does, or until there are [`Options::buffer_max`](crate::websocket::Options::buffer_max) bytes, so that
    /// the answers to many messages leave in one write. Messages of other tasks are sent at once: see
    /// [`Writer::feed`].
    ///
    /// If the future is dropped, the message is sent all the same, with the next call of the reader or the writer.
    ///
    /// # Errors
    ///
    /// Fails if the connection does, or the peer takes nothing for too long; and with an
    /// [`Error`](crate::websocket::Error) between the parts of another message, and after a close frame, such as
    /// that of a stop. A handler that sends while it waits for messages, as in a `select!`, checks
    /// [`Writer::is_closed`] before, and waits on until [`Reader::receive`](crate::websocket::Reader::receive)
    /// returns `None`: if it ended, the connection would be closed before the peer could answer.
    ///
    /// Once a write has failed, nothing is sent any more. A peer that has closed may have sent messages and a close frame
    /// before, which the reader still receives.
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

    /// Adds a message to those that wait to be sent, without sending them, unless there are
    /// [`Options::buffer_max`](crate::websocket::Options::buffer_max) bytes. They are sent by
    /// [`Writer::flush`], with the next [`Writer::send`], or when the reader waits.
    ///
    /// # Errors
    ///
    /// As [`Writer::send`].
    pub async fn feed(&mut self, message: impl Into<Message<'_>>) -> io::Result<()> {
        let message = message.into();
        self.feed_with(|link, cx| link.write_message(cx, message)).await
    }

    /// Sends a part of a message, as a frame of its own, so that the message need not be in memory as a whole. Parts are
    /// not compressed. No other message can be sent before the last part.
    ///
    /// # Errors
    ///
    /// As [`Writer::send`]; also if the kind is another than that of the parts before, or if a text is not
    /// UTF-8. Nothing of the part is sent then.
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

    /// Sends a ping with `payload`, which the peer answers by a pong: see [`Writer::round_trip`]. A peer that is
    /// silent gets pings by itself, see [`Options::ping_interval`](crate::websocket::Options::ping_interval).
    ///
    /// # Errors
    ///
    /// As [`Writer::send`], or if the payload exceeds 125 bytes.
    pub async fn ping(&mut self, payload: &[u8]) -> io::Result<()> {
        self.half.with(|link| link.write_ping(payload))?;
        self.flush().await
    }

    /// Returns how long the last ping took that the peer has answered; `None` if there is none. The pings are those of
    /// [`Writer::ping`], and those that a silent peer is sent. Of several that wait for an answer, the first is
    /// measured. Their pongs are seen while the reader waits for messages, which it does not hand out.
    pub fn round_trip(&self) -> Option<Duration> {
        self.half.with(|link| link.heartbeat.round_trip())
    }

    /// Sends all messages that wait.
    ///
    /// # Errors
    ///
    /// Fails if the connection does, or the peer takes nothing for too long.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.half.with(|link| link.poll_send(cx, 0))).await
    }

    /// Sends a close frame, unless one was sent already. With [`CloseCode::NONE`] it has neither code nor reason.
    ///
    /// The WebSocket is closed once the peer has answered it, which
    /// the reader waits for: see [`WebSocket::close`](crate::websocket::WebSocket::close).
    ///
    /// # Errors
    ///
    /// As [`Writer::flush`]; and with an [`Error`](crate::websocket::Error) if the code must not be
    /// sent, if there is a reason without a code, or if the reason exceeds 123 bytes.
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

    /// Returns whether nothing can be sent any more: a close frame was sent, a write has failed, or the connection has
    /// ended.
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
