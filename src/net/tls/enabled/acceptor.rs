//! [`TlsAcceptor`]: does TLS handshakes with peers that connect (RFC 8446 §2).

use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::FallibleAccept;

use super::carrier::Carrier;
use super::{ServerTls, TlsRoots, TlsStream};
use crate::memory::{read_lock, write_lock};
use crate::net::tls::TlsError;

/// Does TLS handshakes with peers that connect.
#[derive(Clone)]
pub(crate) struct TlsAcceptor {
    tls: ServerTls,
    cached: Arc<RwLock<CachedConfig>>,
}

/// A configuration of rustls, and the roots that it was made with.
struct CachedConfig {
    config: Arc<ServerConfig>,
    roots: Option<TlsRoots>,
}

impl ServerTls {
    /// Makes the acceptor with these settings.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let cached = Arc::new(RwLock::new(CachedConfig::new(self, self.roots())));
        TlsAcceptor { tls: self.clone(), cached }
    }
}

impl TlsAcceptor {
    /// Begins a handshake over `carrier`.
    pub(crate) fn accept<C: AsyncRead + AsyncWrite + Unpin>(&self, carrier: C) -> Handshake<C> {
        let accept = tokio_rustls::TlsAcceptor::from(self.config()).accept(Carrier::new(carrier));
        Handshake(accept.into_fallible())
    }

    /// The current configuration. It is made anew, including its tickets, when the roots have changed: a resumed
    /// session shows no certificate again, and the one that it showed may lead to the old roots.
    fn config(&self) -> Arc<ServerConfig> {
        let roots = self.tls.roots();
        let cached = read_lock(&self.cached);
        if cached.has_roots(roots.as_ref()) {
            return cached.config.clone();
        }
        drop(cached);
        let mut cached = write_lock(&self.cached);
        // They may have been replaced again while this waited.
        let roots = self.tls.roots();
        if !cached.has_roots(roots.as_ref()) {
            *cached = CachedConfig::new(&self.tls, roots);
        }
        cached.config.clone()
    }
}

impl CachedConfig {
    fn new(tls: &ServerTls, roots: Option<TlsRoots>) -> CachedConfig {
        CachedConfig { config: Arc::new(tls.config(roots.as_ref())), roots }
    }

    /// Whether it was made with a clone of these roots. Their contents are not compared.
    fn has_roots(&self, roots: Option<&TlsRoots>) -> bool {
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
