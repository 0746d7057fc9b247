//! [`Acceptor`]: shakes hands with peers that connect (RFC 8446 §2).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::FallibleAccept;

use super::TlsStream;
use crate::net::Transport;
use crate::net::tls::TlsError;

/// Shakes hands with peers that connect.
#[derive(Clone)]
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    pub(super) fn new(config: ServerConfig) -> Acceptor {
        Acceptor { config: Arc::new(config) }
    }

    /// Begins to shake hands over `transport`.
    pub(crate) fn accept(&self, transport: Transport) -> Handshake {
        let accept = TlsAcceptor::from(self.config.clone()).accept(transport);
        Handshake(accept.into_fallible())
    }
}

/// A handshake that goes on.
pub(crate) struct Handshake(FallibleAccept<Transport>);

impl Handshake {
    /// Ready with a secure transport, or with the bare one, on which the peer was told what is wrong. Not to be polled
    /// again then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Transport, (TlsError, Transport)>> {
        Pin::new(&mut self.0).poll(cx).map(|shaken| match shaken {
            Ok(stream) => Ok(Transport::Tls(Box::new(TlsStream(stream.into())))),
            Err((error, transport)) => Err((TlsError::of(error), transport)),
        })
    }
}
