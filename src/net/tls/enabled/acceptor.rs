//! [`Acceptor`]: does TLS handshakes with peers that connect (RFC 8446 §2).

use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::FallibleAccept;

use super::carrier::Carrier;
use super::{ServerTls, TlsRoots, TlsStream};
use crate::memory::{read_lock, write_lock};
use crate::net::tls::TlsError;

/// Does TLS handshakes with peers that connect.
#[derive(Clone)]
pub(crate) struct Acceptor {
    tls: ServerTls,
    made: Arc<RwLock<Made>>,
}

/// A configuration of rustls, and the roots that it was made with.
struct Made {
    config: Arc<ServerConfig>,
    roots: Option<TlsRoots>,
}

impl ServerTls {
    /// Makes the acceptor with these settings.
    pub(crate) fn acceptor(&self) -> Acceptor {
        let made = Arc::new(RwLock::new(Made::new(self, self.roots())));
        Acceptor { tls: self.clone(), made }
    }
}

impl Acceptor {
    /// Begins a handshake over `carrier`.
    pub(crate) fn accept<C: AsyncRead + AsyncWrite + Unpin>(&self, carrier: C) -> Handshake<C> {
        let accept = TlsAcceptor::from(self.config()).accept(Carrier::new(carrier));
        Handshake(accept.into_fallible())
    }

    /// The current configuration. It is made anew, including its tickets, when the roots have changed: a resumed
    /// session shows no certificate again, and the one that it showed may lead to the old roots.
    fn config(&self) -> Arc<ServerConfig> {
        let roots = self.tls.roots();
        let made = read_lock(&self.made);
        if made.is_of(roots.as_ref()) {
            return made.config.clone();
        }
        drop(made);
        let mut made = write_lock(&self.made);
        // They may have been replaced again while this waited.
        let roots = self.tls.roots();
        if !made.is_of(roots.as_ref()) {
            *made = Made::new(&self.tls, roots);
        }
        made.config.clone()
    }
}

impl Made {
    fn new(tls: &ServerTls, roots: Option<TlsRoots>) -> Made {
        Made { config: Arc::new(tls.config(roots.as_ref())), roots }
    }

    /// Whether it was made with a clone of these roots. Their contents are not compared.
    fn is_of(&self, roots: Option<&TlsRoots>) -> bool {
        match (&self.roots, roots) {
            (None, None) => true,
            (Some(mine), Some(roots)) => Arc::ptr_eq(&mine.store, &roots.store),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// A handshake in progress.
pub(crate) struct Handshake<C>(FallibleAccept<Carrier<C>>);

impl<C: AsyncRead + AsyncWrite + Unpin> Handshake<C> {
    /// Ready with a secure stream, or with the bare carrier, on which the peer was told what is wrong, unless it speaks
    /// plain HTTP. Must not be polled again after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<TlsStream<C>, (TlsError, C)>> {
        Pin::new(&mut self.0).poll(cx).map(|shaken| match shaken {
            Ok(stream) => Ok(TlsStream(stream.into())),
            Err((error, carrier)) => Err((carrier.blame(TlsError::of(error)), carrier.inner)),
        })
    }
}
