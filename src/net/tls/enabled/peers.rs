//! [`Peers`]: whether the peers of a server must show certificates (RFC 8446 §4.3.2).

use std::fmt;
use std::sync::{Arc, RwLock};

use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::TlsRoots;
use super::settings::provider;
use crate::memory::{read_lock, write_lock};

/// Whether peers must show certificates. Clones share the roots that these must lead to.
#[derive(Clone, Debug)]
pub(super) enum Peers {
    Unasked,
    Asked(Arc<Trust>),
    Required(Arc<Trust>),
}

/// Roots that can be replaced while handshakes are in progress.
pub(super) struct Trust(RwLock<TlsRoots>);

impl Peers {
    /// The roots that certificates must lead to at present.
    pub(super) fn roots(&self) -> Option<TlsRoots> {
        match self {
            Peers::Unasked => None,
            Peers::Asked(trust) | Peers::Required(trust) => Some(trust.roots()),
        }
    }

    /// Replaces the roots. Has no effect if peers are not asked.
    pub(super) fn replace(&self, roots: TlsRoots) {
        match self {
            Peers::Unasked => {}
            Peers::Asked(trust) | Peers::Required(trust) => {
                *write_lock(&trust.0) = roots;
            }
        }
    }

    /// Makes the verifier of certificates that must lead to `roots`.
    pub(super) fn verifier(&self, roots: Option<&TlsRoots>) -> Arc<dyn ClientCertVerifier> {
        let verifier =
            |roots: &TlsRoots| WebPkiClientVerifier::builder_with_provider(roots.store.clone(), provider());
        let built = match (self, roots) {
            (Peers::Unasked, _) | (_, None) => return WebPkiClientVerifier::no_client_auth(),
            (Peers::Asked(_), Some(roots)) => verifier(roots).allow_unauthenticated().build(),
            (Peers::Required(_), Some(roots)) => verifier(roots).build(),
        };
        built.expect("roots are never empty, and there are no revocation lists that could be wrong")
    }
}

impl Trust {
    pub(super) fn new(roots: TlsRoots) -> Arc<Trust> {
        Arc::new(Trust(RwLock::new(roots)))
    }

    fn roots(&self) -> TlsRoots {
        read_lock(&self.0).clone()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.roots().fmt(f)
    }
}
