//! [`Context::upgrade`], [`Context::accept_tunnel`] and [`Context::take_over`]: the connection passes to the handler
//! (RFC 9110 §7.8, §9.3.6). Also the steps before a head of the handler's own.

use std::io;

use super::context::Context;
use super::head_filter::SentKind;
use crate::message::{FieldName, Status, Version, is_token};
use crate::net::{Conn, ReadBuffer};
use crate::server::exchange::{Upgraded, UpgradedGuard, UpgradedHandle};
use crate::server::report::{ConnectionReport, CutBy};
use crate::server::{RespondError, Result};

impl Context {
    /// Switches to `protocol` with a 101 (RFC 9110 §7.8), and hands the connection over. The 101 has the response's
    /// fields. The connection is for the handler, or for another task on the same core.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Fails with a [`RespondError`] if:
    ///
    /// - the request does not ask to be upgraded to `protocol`
    /// - the request's body was not read
    /// - `protocol` is malformed
    /// - a response has already been sent
    ///
    /// Passed on with `?`, the first error is answered with 426 and an `upgrade` field for the protocol.
    ///
    /// # Examples
    ///
    /// With the feature `websocket`, `Context::websocket` speaks WebSocket. Another crate for it, or for another protocol,
    /// takes the connection as a stream. This is the way of tokio-tungstenite, whose read buffer has 128 KiB by default:
    ///
    /// ```ignore
    /// async fn socket(ctx: &mut Context) -> corehttp::Result<WebSocketStream<Upgraded>> {
    ///     let Context { request, response, .. } = ctx;
    ///     // Checked here as well: the version, 13, and the origin, since pages of others send cookies, too.
    ///     let key = request.headers.get_bytes("sec-websocket-key").ok_or(Status::BAD_REQUEST)?;
    ///     response.headers.set("sec-websocket-accept", derive_accept_key(key))?;
    ///     let upgraded = ctx.upgrade("websocket").await?;
    ///     let config = WebSocketConfig::default().read_buffer_size(4 << 10).max_message_size(Some(1 << 20));
    ///     Ok(WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await)
    /// }
    /// ```
    #[doc(alias = "hijack")]
    pub async fn upgrade(&mut self, protocol: &str) -> io::Result<Upgraded> {
        self.check_upgrade_to(protocol)?;
        let (conn, early) = self.upgrade_conn(Status::SWITCHING_PROTOCOLS, Some(protocol)).await?;
        Ok(self.exchange.make_upgraded(conn, early))
    }

    /// Checks that the request asks to be upgraded to `protocol`.
    pub(crate) fn check_upgrade_to(&mut self, protocol: &str) -> io::Result<()> {
        self.check_unsent()?;
        if !protocol.splitn(2, '/').all(|part| is_token(part.as_bytes())) {
            return Err(RespondError::from_protocol(protocol).into());
        }
        let headers = &self.request.headers;
        let is_requested = self.exchange.info.request_info.version == Version::Http11
            && headers.contains_token("connection", "upgrade")
            && headers.contains_token("upgrade", protocol);
        if !is_requested {
            // A response of 426 must name the protocol (RFC 9110 §15.5.22).
            self.response.headers.put(FieldName::UPGRADE, protocol.as_bytes());
            return Err(RespondError::Upgrade(protocol.into()).into());
        }
        self.response.headers.remove(FieldName::UPGRADE.as_str());
        Ok(())
    }

    /// Accepts a CONNECT request with a 200 (RFC 9110 §9.3.6), and hands the connection over. The 200 has the
    /// response's fields.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Fails with a [`RespondError`] if:
    ///
    /// - the request is not a CONNECT, or has content (answered with 400 if passed on with `?`)
    /// - a response has already been sent
    pub async fn accept_tunnel(&mut self) -> io::Result<Upgraded> {
        self.check_unsent()?;
        // Another reader of the same bytes might take that content for the first bytes of the tunnel.
        if !self.exchange.info.request_info.is_connect || !self.exchange.is_end_stream() {
            return Err(RespondError::Tunnel.into());
        }
        let (conn, early) = self.upgrade_conn(Status::OK, None).await?;
        Ok(self.exchange.make_upgraded(conn, early))
    }

    /// Takes the connection over without a response. Reads begin with the unread rest of the request, as it came.
    /// Dropped at once, the connection is closed in silence, as by nginx's status 444.
    ///
    /// Responses to earlier requests of the connection are sent before. In reports the exchange has no status, and was
    /// [cut](crate::server::CutBy::Handler) by the handler.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Fails with a [`RespondError`] after a response or without a connection.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Server};
    ///
    /// async fn handle(ctx: &mut Context) -> corehttp::Result {
    ///     if ctx.request.path().ends_with(".php") {
    ///         drop(ctx.take_over().await?); // a scanner learns nothing
    ///         return Ok(());
    ///     }
    ///     ctx.response.set_text("Hello, World!");
    ///     Ok(())
    /// }
    /// # let _ = Server::new().service(handle);
    /// ```
    #[doc(alias("hijack", "444", "abort", "drop"))]
    pub async fn take_over(&mut self) -> io::Result<Upgraded> {
        self.check_unsent()?;
        let exchange = &mut self.exchange;
        if exchange.info.is_captured {
            return Err(RespondError::Detached.into());
        }
        // If the handler is cancelled from here on, the peer gets no response either.
        exchange.outgoing.begin_tunnel();
        exchange.flush().await?;
        exchange.observe(|observation| observation.cut = Some(CutBy::Handler));
        let (conn, early) = exchange.take_conn()?;
        exchange.change_bounds(|bounds| bounds.timeouts.handler = None);
        Ok(exchange.make_upgraded(conn, early))
    }

    /// Switches to `protocol`, which the request asks for, and takes the connection out as it is, to speak the protocol
    /// within this crate. The caller drops the guard after the connection.
    pub(crate) async fn upgrade_with_guard(
        &mut self,
        protocol: &str,
    ) -> io::Result<(Conn, ReadBuffer, UpgradedGuard)> {
        let (conn, early) = self.upgrade_conn(Status::SWITCHING_PROTOCOLS, Some(protocol)).await?;
        let (guard, mut handle) = UpgradedHandle::new(conn.peer(), None);
        handle.report = ConnectionReport::new(&conn, self.exchange.info.exchange_count);
        self.exchange.upgraded = Some(Box::new(handle));
        // The connection may stay for days, and has left the large buffers with the exchange.
        self.exchange.io_state = None;
        Ok((conn, early, guard))
    }

    /// Sends a head with this status, once middleware has seen it, and takes the connection out, with the bytes that
    /// have arrived. The caller sets the handle of the upgraded connection.
    async fn upgrade_conn(
        &mut self,
        status: Status,
        protocol: Option<&str>,
    ) -> io::Result<(Conn, ReadBuffer)> {
        self.exchange.check_upgrade()?;
        self.pass_head(SentKind::Upgrade(status)).await?;
        let conn = self.exchange.upgrade_conn(&mut self.response, protocol).await?;
        self.exchange.change_bounds(|bounds| bounds.timeouts.handler = None);
        Ok(conn)
    }

    /// Passes the head of a response through the filters, and saves the state of the exchange, before the handler sends
    /// it.
    pub(super) async fn pass_head(&mut self, kind: SentKind) -> io::Result<()> {
        let Context { response, transform, head_filters, .. } = self;
        head_filters.pass(response, transform, kind).await?;
        match self.has_responded() {
            // The caller fails, since there is no other response.
            true => Ok(()),
            false => self.save_state().await.map_err(io::Error::other),
        }
    }

    /// Saves the state of the exchange, such as its session.
    pub(crate) async fn save_state(&mut self) -> Result {
        let Some(saver) = self.head_filters.saver.clone() else { return Ok(()) };
        let is_unsent = !self.has_responded();
        let Context { response, extensions, .. } = self;
        saver.save(is_unsent.then_some(response), extensions).await
    }
}
