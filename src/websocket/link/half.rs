//! [`Half`]: the share of a reader or a writer in a WebSocket, which is closed once both are dropped.

use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;

use super::link::Link;
use super::role::private::{RoleParts, SharedCell};
use crate::server::WebSocketCounter;

/// The connection, and the state that is read without borrowing it.
pub(crate) struct Shared<R: RoleParts> {
    pub(super) link: R::Cell<Link<R>>,
    /// Whether bytes that have arrived are not received yet. Messages that the handler sends meanwhile are held back, until
    /// it waits.
    pub(crate) has_unread: AtomicBool,
    /// Counts, at a server.
    pub(crate) counter: Option<WebSocketCounter>,
    /// Whether one half was dropped.
    is_halved: AtomicBool,
    /// Runs [`close_dropped`] somewhere, or drops the WebSocket.
    close_in_background: fn(Arc<Shared<R>>),
}

impl<R: RoleParts> Shared<R> {
    /// Lends the connection for one poll, and counts what goes over it.
    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut Link<R>) -> T) -> T {
        self.link.with_mut(|link| {
            let done = step(link);
            if let Some(counter) = &self.counter {
                link.count(counter);
            }
            done
        })
    }
}

/// One of the two halves that share a connection.
pub(crate) struct Half<R: RoleParts>(Arc<Shared<R>>);

impl<R: RoleParts> Half<R> {
    /// Returns both halves. `close_in_background` is called if both were dropped before the connection is closed.
    pub(crate) fn pair(
        link: Link<R>,
        counter: Option<WebSocketCounter>,
        close_in_background: fn(Arc<Shared<R>>),
    ) -> (Half<R>, Half<R>) {
        let link = R::Cell::new(link);
        let has_unread = AtomicBool::default();
        let is_halved = AtomicBool::default();
        let shared = Arc::new(Shared { link, counter, has_unread, is_halved, close_in_background });
        (Half(shared.clone()), Half(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<R>> {
        &self.0
    }
}

impl<R: RoleParts> Deref for Half<R> {
    type Target = Shared<R>;

    fn deref(&self) -> &Shared<R> {
        &self.0
    }
}

impl<R: RoleParts> Drop for Half<R> {
    /// Begins the close, if this is the last half (RFC 6455 §7.1.1). A socket that is closed while the peer still sends
    /// would be reset, which could take the last messages and the close frame away before the peer has read them.
    fn drop(&mut self) {
        if self.0.is_halved.swap(true, AcqRel) {
            let is_open = self.0.with(Link::begin_drop);
            if is_open {
                (self.0.close_in_background)(self.0.clone());
            }
        }
    }
}

/// Closes a WebSocket whose halves were dropped, in no more than the time for the close.
pub(crate) async fn close_dropped<R: RoleParts>(shared: Arc<Shared<R>>) {
    let paused = poll_fn(|cx| shared.with(|link| link.poll_pause(cx))).await;
    if paused.is_ok() && poll_fn(|cx| shared.with(|link| link.poll_finish(cx))).await.is_ok() {
        poll_fn(|cx| shared.with(|link| link.poll_linger(cx))).await;
    }
    shared.with(Link::close_now);
}
