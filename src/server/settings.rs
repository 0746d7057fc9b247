//! [`ServerSettings`]: how a server behaves, the same on all its cores.

use std::sync::Arc;

use super::Refusal;
use crate::exchange::Bounds;
use crate::net::tls::TlsAcceptor;

/// How a server behaves, the same on all its cores.
#[derive(Clone, Default)]
pub(super) struct ServerSettings {
    pub(super) bounds: Bounds,
    pub(super) name: Option<Arc<str>>,
    pub(super) on_error: Option<OnError>,
    pub(super) acceptor: Option<TlsAcceptor>,
}

/// The function of [`Server::on_error`](super::Server::on_error).
pub(super) type OnError = Arc<dyn Fn(&Refusal<'_>) + Send + Sync>;
