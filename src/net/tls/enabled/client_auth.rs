//! [`ClientAuth`]: whether the peers of a server must show certificates (RFC 8446 §4.3.2).

use std::fmt;
use std::sync::{Arc, RwLock};

use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::TlsRoots;
use super::settings::provider;
use crate::memory::{read_lock, write_lock};

/// Whether peers must show certificates. Clones share the roots that these must lead to.
#[derive(Clone, Debug)]
pub(super) enum ClientAuth {
    None,
    Optional(Arc<SharedRoots>),
    Required(Arc<SharedRoots>),
}

/// Roots that can be replaced while handshakes are in progress.
pub(super) struct SharedRoots(RwLock<TlsRoots>);

impl ClientAuth {
    /// The roots that certificates must lead to at present.
    pub(super) fn roots(&self) -> Option<TlsRoots> {
        match self {
            ClientAuth::None => None,
            ClientAuth::Optional(shared) | ClientAuth::Required(shared) => Some(shared.roots()),
        }
    }

    /// Replaces the roots. Has no effect if peers are not asked.
    pub(super) fn replace(&self, roots: TlsRoots) {
        match self {
            ClientAuth::None => {}
            ClientAuth::Optional(shared) | ClientAuth::Required(shared) => {
                *write_lock(&shared.0) = roots;
            }
        }
    }

    /// Makes the verifier of certificates that must lead to `roots`.
    pub(super) fn verifier(&self, roots: Option<&TlsRoots>) -> Arc<dyn ClientCertVerifier> {
        let verifier =
            |roots: &TlsRoots| WebPkiClientVerifier::builder_with_provider(roots.store.clone(), provider());
        let built = match (self, roots) {
            (ClientAuth::None, _) | (_, None) => return WebPkiClientVerifier::no_client_auth(),
            (ClientAuth::Optional(_), Some(roots)) => verifier(roots).allow_unauthenticated().build(),
            (ClientAuth::Required(_), Some(roots)) => verifier(roots).build(),
        };
        built.expect("roots are never empty, and there are no revocation lists that could be wrong")
    }
}

impl SharedRoots {
    pub(super) fn new(roots: TlsRoots) -> Arc<SharedRoots> {
        Arc::new(SharedRoots(RwLock::new(roots)))
    }

    fn roots(&self) -> TlsRoots {
        read_lock(&self.0).clone()
    }
}

impl fmt::Debug for SharedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.roots().fmt(f)
    }
}
