//! How a WebSocket takes the connection over (RFC 6455 §4.2.2).

use std::convert::Infallible;
use std::io;

use tokio::sync::oneshot;

use super::context::Context;
use super::head_filter::SentKind;
use crate::message::Status;
use crate::net::{Conn, ReadBuffer};
use crate::server::upgraded::UpgradedHandle;

impl Context {
    /// Switches to `protocol`, which the request asks for: sends a head of 101, once middleware has seen it, and hands
    /// the connection over, with the bytes that have arrived already. The connection counts until the sender is
    /// dropped.
    pub(crate) async fn switch_to(
        &mut self,
        protocol: &str,
    ) -> io::Result<(Conn, ReadBuffer, oneshot::Sender<Infallible>)> {
        let Context { response, transform, head_filters, exchange, .. } = self;
        exchange.check_upgrade()?;
        let kind = SentKind::Upgrade(Status::SWITCHING_PROTOCOLS);
        head_filters.pass(response, transform, kind).await?;
        let (conn, early) = exchange.switch(response, Some(protocol)).await?;
        let (guard, handle) = UpgradedHandle::new(conn.peer(), None);
        exchange.upgraded = Some(Box::new(handle));
        Ok((conn, early, guard))
    }
}
