//! [`Peers`]: whether a server's peers have to say who they are (RFC 8446 §4.3.2).

use std::fmt;
use std::sync::{Arc, RwLock};

use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::TlsRoots;
use super::settings::provider;
use crate::memory::{read_lock, write_lock};

/// Whether peers have to say who they are. Clones share the roots that certificates have to lead to.
#[derive(Clone, Debug)]
pub(super) enum Peers {
    Unasked,
    Asked(Arc<Trust>),
    Required(Arc<Trust>),
}

/// Roots that may be replaced while handshakes go on.
pub(super) struct Trust(RwLock<TlsRoots>);

impl Peers {
    /// What certificates have to lead to from now on.
    pub(super) fn roots(&self) -> Option<TlsRoots> {
        match self {
            Peers::Unasked => None,
            Peers::Asked(trust) | Peers::Required(trust) => Some(trust.roots()),
        }
    }

    /// Certificates have to lead to others. It is nothing to those who are not asked.
    pub(super) fn replace(&self, roots: TlsRoots) {
        match self {
            Peers::Unasked => {}
            Peers::Asked(trust) | Peers::Required(trust) => {
                *write_lock(&trust.0) = roots;
            }
        }
    }

    /// What looks at the certificates of peers, if they are to lead to `roots`.
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
