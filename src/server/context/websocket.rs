//! How a WebSocket takes the connection over (RFC 6455 §4.2.2).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::task;

use tokio::sync::oneshot;

use super::context::Context;
use crate::message::Headers;
use crate::net::{Conn, ReadBuffer};
use crate::server::socket_observer::SocketObserver;

/// A connection that a WebSocket has taken over.
pub(crate) struct SwitchedConn {
    pub(crate) conn: Conn,
    /// The bytes that have arrived already.
    pub(crate) early: ReadBuffer,
    pub(crate) observer: SocketObserver,
    /// Dropped last, since the connection counts as open until then.
    pub(crate) guard: oneshot::Sender<Infallible>,
}

impl Context {
    /// Switches to `protocol`, which the request asks for: sends a head of 101, once middleware has seen it, and hands
    /// the connection over.
    ///
    /// The handler may use the connection for days, so the context keeps no memory but that of the request.
    pub(crate) async fn switch_to(&mut self, protocol: &str) -> io::Result<SwitchedConn> {
        let (conn, early, guard) = self.switch_conn(protocol).await?;
        let Context { response, exchange, .. } = self;
        let mut reported = None;
        exchange.observe(|observation, _| reported = Some(observation.socket.insert(Arc::default()).clone()));
        let observer = SocketObserver::new(exchange.conn.core().stats.clone(), reported);
        response.headers = Headers::new();
        exchange.incoming.take();
        exchange.transformed = Vec::new();
        Ok(SwitchedConn { conn, early, observer, guard })
    }

    /// Has `on_pause` called whenever this handler waits.
    pub(crate) fn set_on_pause(&self, on_pause: impl Fn(&mut task::Context<'_>) + 'static) {
        *self.exchange.conn.on_pause().borrow_mut() = Some(Box::new(on_pause));
    }
}
