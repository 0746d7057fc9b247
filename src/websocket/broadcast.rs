//! [`Broadcast`]: one message for many WebSockets, on all cores.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{self, Poll};

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::watch;

use super::relay::{Place, Relays};
use super::shared_message::SharedMessage;
use super::writer::Writer;
use crate::runtime::boxed;
use crate::websocket::frame::{CloseCode, Error, Message};

/// A channel for many WebSockets of a server, on all of its cores.
///
/// A message is encoded once. For each of the seven sizes of the window it is compressed once at most. All members
/// share the bytes, and each core writes them to its own members. Only for members with
/// [`DeflateOptions::context_takeover`](crate::websocket::DeflateOptions::context_takeover), a message is compressed
/// anew.
///
/// The channel keeps the last messages. A member that is further behind has lost some. By choice, it skips them or is
/// closed.
///
/// # Examples
///
/// A chat, with a state that all cores share:
///
/// ```
/// use std::io;
/// use corehttp::Context;
/// use corehttp::websocket::{self, Broadcast, OnLag, WebSocket};
///
/// async fn chat(ctx: &mut Context, room: &Broadcast) -> corehttp::Result {
///     let mut socket = ctx.websocket(&websocket::Options::default()).await?;
///     let WebSocket { reader, writer, .. } = &mut socket;
///     let mut member = room.join(OnLag::Skip);
///     tokio::select! {
///         biased; // so that messages which were sent before the peer closes are forwarded
///         done = member.forward(writer) => done?,
///         done = pass_on(reader, room) => done?,
///     }
///     Ok(())
/// }
///
/// async fn pass_on(reader: &mut websocket::Reader, room: &Broadcast) -> io::Result<()> {
///     while let Some(message) = reader.receive().await? {
///         room.send(message);
///     }
///     Ok(())
/// }
///
/// let room = Broadcast::new(64);
/// let server = corehttp::Server::bind("127.0.0.1:8080");
/// # let _ = || -> corehttp::Result {
/// server.run(async move |ctx: &mut Context| chat(ctx, &room).await)
/// # };
/// ```
#[derive(Clone)]
pub struct Broadcast {
    sender: Sender<Arc<SharedMessage>>,
    /// Notifies the relays. Dropped after the sender, so that members who are woken by that find the broadcast closed.
    sent: watch::Sender<()>,
    relays: Arc<Relays>,
}

impl Broadcast {
    /// Creates a channel that keeps the last `capacity` messages for members behind. The number is rounded up to a
    /// power of two.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is zero.
    pub fn new(capacity: usize) -> Broadcast {
        let (sent, notified) = watch::channel(());
        Broadcast { sender: Sender::new(capacity), sent, relays: Relays::new(notified) }
    }

    /// Sends a message to all members. Returns their number.
    ///
    /// Does not wait, and takes no longer for many members. Each core wakes its own, a few at a time, with turns for
    /// other connections meanwhile.
    pub fn send<'m>(&self, message: impl Into<Message<'m>>) -> usize {
        let members = self.sender.send(Arc::new(SharedMessage::new(message.into()))).unwrap_or(0);
        self.sent.send_replace(());
        members
    }

    /// Adds a member, which gets all messages from now on. `slow` is for a member that does not keep up.
    pub fn join(&self, slow: OnLag) -> BroadcastMember {
        BroadcastMember { receiver: self.sender.subscribe(), relays: self.relays.clone(), slow }
    }

    /// Returns how many members there are.
    pub fn members(&self) -> usize {
        self.sender.receiver_count()
    }
}

impl fmt::Debug for Broadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcast").field("members", &self.members()).finish_non_exhaustive()
    }
}

/// The treatment of a member of a broadcast that does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLag {
    /// The member skips the messages that it has lost.
    Skip,
    /// The member is closed with code 1013, to connect anew.
    Close,
}

/// A member of a [`Broadcast`]. Made by [`Broadcast::join`].
pub struct BroadcastMember {
    receiver: Receiver<Arc<SharedMessage>>,
    relays: Arc<Relays>,
    slow: OnLag,
}

impl BroadcastMember {
    /// Sends the messages of the broadcast through `writer`, until the WebSocket is closed. Also ends once all clones
    /// of the broadcast are dropped. Messages that are there together leave in one write. If the future is dropped,
    /// each message is sent as a whole or not at all.
    ///
    /// # Errors
    ///
    /// Fails like [`Writer::send`], and with [`Error::Lagged`] if the member is closed for lost messages.
    pub async fn forward(&mut self, writer: &mut Writer) -> io::Result<()> {
        let place = self.relays.place();
        let mut received = self.receive(place.as_ref()).await;
        loop {
            // Nothing is sent after a close frame, which the peer is yet to answer.
            if writer.has_sent_close() {
                return writer.closed().await;
            }
            match received {
                Ok(message) => writer.feed_shared(&message).await?,
                Err(RecvError::Lagged(_)) if self.slow == OnLag::Skip => {}
                Err(RecvError::Lagged(lost)) => {
                    writer.close(CloseCode::TRY_AGAIN_LATER, "").await?;
                    return Err(Error::Lagged(lost).into());
                }
                Err(RecvError::Closed) => return writer.flush().await,
            }
            received = match self.poll_here() {
                Poll::Ready(received) => received,
                Poll::Pending => {
                    writer.flush().await?;
                    self.receive(place.as_ref()).await
                }
            };
        }
    }

    /// Waits for the next message, in `place` if there is one.
    async fn receive(&mut self, place: Option<&Place>) -> Result<Arc<SharedMessage>, RecvError> {
        match place {
            Some(place) => poll_fn(|cx| self.poll_receive(cx, place)).await,
            None => boxed(|| self.receiver.recv()).await,
        }
    }

    fn poll_receive(
        &mut self,
        cx: &mut task::Context<'_>,
        place: &Place,
    ) -> Poll<Result<Arc<SharedMessage>, RecvError>> {
        let received = self.poll_here();
        if received.is_ready() {
            return received;
        }
        place.register(cx.waker());
        // A message may have come before the waker was registered, and have woken the others only.
        self.poll_here()
    }

    /// Ready with the next message, if it is here.
    fn poll_here(&mut self) -> Poll<Result<Arc<SharedMessage>, RecvError>> {
        match self.receiver.try_recv() {
            Ok(message) => Poll::Ready(Ok(message)),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Lagged(lost)) => Poll::Ready(Err(RecvError::Lagged(lost))),
            Err(TryRecvError::Closed) => Poll::Ready(Err(RecvError::Closed)),
        }
    }
}

impl fmt::Debug for BroadcastMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastMember").field("slow", &self.slow).finish_non_exhaustive()
    }
}
