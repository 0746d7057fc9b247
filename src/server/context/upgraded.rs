//! [`Upgraded`]: a connection that speaks another protocol from here on (RFC 9110 §7.8, §9.3.6).

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll};

use tokio::sync::oneshot;

use super::Context;
use crate::message::{FieldName, Status, Version, is_token};
use crate::net::{Conn, Peer, ReadBuffer, Rewind, Stream, TableTimer, delegate_stream};
use crate::server::InvalidResponse;
use crate::wire::encode;

/// A connection that was handed over: bytes in both directions, and no longer HTTP.
///
/// Made by [`Context::upgrade`] and [`Context::accept_tunnel`]. Reading begins with what the peer has already sent. There are
/// no timeouts except those that you set.
///
/// Flush what you have written before you wait for the peer: over TLS, the end of it may still be held back.
///
/// Dropping it closes the connection. Until then it counts as one of the server's connections, even if it outlives the
/// handler. The client's side of such a connection is a [`ClientUpgraded`](crate::ClientUpgraded), which is [`Send`].
pub struct Upgraded {
    stream: Rewind<Pin<Box<dyn Stream>>>,
    /// The last field, since the connection must be closed before it is no longer counted.
    _dropped: oneshot::Sender<Infallible>,
}

/// Ways to take the connection over.
impl Context {
    /// Switches to `protocol` (RFC 9110 §7.8): answers 101 with the response's fields, and hands the connection over,
    /// for use in the handler or elsewhere on the same core.
    ///
    /// # Errors
    ///
    /// Fails if the connection does, or with an [`InvalidResponse`] if the request does not ask to be upgraded to
    /// `protocol`, if its body was not read, if `protocol` is malformed, or if an answer has already been sent. If the
    /// handler passes the error on with `?`, a request that does not ask for the upgrade is answered with 426 and an
    /// `upgrade` field that names the protocol.
    #[doc(alias = "hijack")]
    pub async fn upgrade(&mut self, protocol: &str) -> io::Result<Upgraded> {
        self.check_unsent()?;
        if !protocol.splitn(2, '/').all(|part| is_token(part.as_bytes())) {
            return Err(InvalidResponse::of_protocol(protocol).into());
        }
        let headers = &self.request.headers;
        let asked = self.info.request_info.version == Version::Http11
            && headers.contains_token("connection", "upgrade")
            && headers.contains_token("upgrade", protocol);
        if !asked {
            // An answer of 426 must name the protocol (RFC 9110 §15.5.22).
            self.response.headers.put(FieldName::UPGRADE, protocol.as_bytes());
            return Err(InvalidResponse::Upgrade(protocol.into()).into());
        }
        self.response.headers.remove(FieldName::UPGRADE.as_str());
        self.hand_over(Some(protocol)).await
    }

    /// Accepts a CONNECT request (RFC 9110 §9.3.6): answers 200 with the response's fields, and hands the connection
    /// over.
    ///
    /// # Errors
    ///
    /// Fails if the connection does, or with an [`InvalidResponse`] if the request is not a CONNECT or has content, which
    /// a CONNECT must not have (either is answered with 400 if the error is passed on with `?`), or if an answer has
    /// already been sent.
    pub async fn accept_tunnel(&mut self) -> io::Result<Upgraded> {
        self.check_unsent()?;
        // Another reader of the same bytes might take that content for the first bytes of the tunnel.
        if !self.info.request_info.is_connect || !self.incoming.get_mut().is_read() {
            return Err(InvalidResponse::Tunnel.into());
        }
        self.hand_over(None).await
    }

    async fn hand_over(&mut self, protocol: Option<&str>) -> io::Result<Upgraded> {
        match (self.info.detached, self.incoming.get_mut().is_read()) {
            (true, _) => return Err(InvalidResponse::Detached.into()),
            (false, false) => return Err(InvalidResponse::Unread.into()),
            (false, true) => {}
        }
        let headers = &self.response.headers;
        self.write(|out| match protocol {
            Some(_) => encode::interim(out, Status::SWITCHING_PROTOCOLS, headers, protocol),
            None => self.shared.clock.with_common_fields(|common| encode::tunnel(out, headers, common)),
        })?;
        // An access log around the handler notes the status that was sent.
        self.response.status = protocol.map_or(Status::OK, |_| Status::SWITCHING_PROTOCOLS);
        // If the handler is cancelled from here on, the peer would take whatever follows for bytes of the other
        // protocol.
        self.outgoing.begin_tunnel();
        self.flush().await?;
        let mut conn = self.conn.borrow_mut().take().ok_or(io::ErrorKind::NotConnected)?;
        self.shared.count_traffic(&mut conn);
        self.swap_io_state(&mut conn);
        let incoming = self.incoming.get_mut();
        incoming.forget_message();
        let (upgraded, handle) = Upgraded::new(conn, incoming.input.take_unread());
        self.upgraded = Some(Box::new(handle));
        Ok(upgraded)
    }
}

impl Upgraded {
    fn new(conn: Conn, early: ReadBuffer) -> (Upgraded, UpgradedHandle) {
        let (transport, timer) = conn.into_parts();
        let (sender, dropped) = oneshot::channel();
        let upgraded = Upgraded { stream: Rewind::new(transport, early), _dropped: sender };
        (upgraded, UpgradedHandle { dropped, timer })
    }
}

delegate_stream!(Upgraded, stream);

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

/// The place that a handed-over connection still takes among those of its core.
pub(in crate::server) struct UpgradedHandle {
    dropped: oneshot::Receiver<Infallible>,
    timer: TableTimer,
}

impl UpgradedHandle {
    /// Who is at the other end of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.timer.peer()
    }

    /// Ready when the [`Upgraded`] has been dropped.
    pub(in crate::server) fn poll_dropped(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        Pin::new(&mut self.dropped).poll(cx).map(|_| ())
    }
}
