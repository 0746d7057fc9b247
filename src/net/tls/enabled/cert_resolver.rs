//! [`CertResolver`]: the identities of a server, and which of them a peer is shown (RFC 6066 §3).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock};

use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::TlsIdentity;
use crate::memory::{read_lock, write_lock};

/// The identities of a server, which can be replaced while handshakes are in progress.
pub(super) struct CertResolver {
    /// Locked only to be copied or exchanged, and never while waiting for a peer.
    table: RwLock<Arc<CertTable>>,
}

/// The identities at one time.
pub(super) struct CertTable {
    /// For peers that name no host, or one that no certificate is for.
    default: TlsIdentity,
    others: Vec<TlsIdentity>,
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl CertResolver {
    pub(super) fn new(table: CertTable) -> CertResolver {
        CertResolver { table: RwLock::new(Arc::new(table)) }
    }

    pub(super) fn set(&self, table: CertTable) {
        *write_lock(&self.table) = Arc::new(table);
    }

    pub(super) fn table(&self) -> Arc<CertTable> {
        read_lock(&self.table).clone()
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.table().choose(hello.server_name(), hello.signature_schemes()))
    }
}

impl fmt::Debug for CertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        f.debug_list().entry(&table.default).entries(&table.others).finish()
    }
}

impl CertTable {
    pub(super) fn new(default: TlsIdentity, others: Vec<TlsIdentity>) -> CertTable {
        let mut by_name = HashMap::<String, Vec<Arc<CertifiedKey>>>::new();
        for identity in std::iter::once(&default).chain(&others) {
            for name in identity.names() {
                by_name.entry(name).or_default().push(identity.key.clone());
            }
        }
        CertTable { default, others, by_name }
    }

    /// Returns these identities and one more.
    pub(super) fn and(&self, identity: TlsIdentity) -> CertTable {
        let others = self.others.iter().cloned().chain([identity]);
        CertTable::new(self.default.clone(), others.collect())
    }

    /// The first identity that is for `name` and has a key that the peer can use, or else the best alternative.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Arc<CertifiedKey> {
        let named = || name.into_iter().flat_map(|name| self.named(name));
        let usable = named().find(|key| key.key.choose_scheme(schemes).is_some());
        usable.or_else(|| named().next()).unwrap_or(&self.default.key).clone()
    }

    /// The identities for exactly this host, and then those for any host in its domain (RFC 9525 §6.3).
    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let any = name.split_once('.').and_then(|(_, domain)| self.by_name.get(&format!("*.{domain}")));
        [self.by_name.get(&name), any].into_iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;

    /// The certificate for exactly this host comes first, and one for any host in its domain last. That one was once not
    /// shown to a peer that could use no other.
    #[test]
    fn a_host_shows_the_first_of_its_identities_that_the_peer_can_use() {
        let identity = |name: &str, algorithm| {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            TlsIdentity::from_pem(params.self_signed(&key).unwrap().pem(), key.serialize_pem()).unwrap()
        };
        let others = vec![
            identity("*.b.example", &PKCS_ECDSA_P384_SHA384),
            identity("a.b.example", &PKCS_ECDSA_P256_SHA256),
            identity("a.b.example", &PKCS_ED25519),
        ];
        let table = CertTable::new(identity("b.test", &PKCS_ECDSA_P256_SHA256), others);
        let (first, second) = (SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519);
        let last = SignatureScheme::ECDSA_NISTP384_SHA384;
        for (schemes, expected) in [
            (&[last, first, second][..], first),
            (&[second, first], first),
            (&[last, second], second),
            (&[last], last),
            (&[SignatureScheme::RSA_PSS_SHA256], first),
        ] {
            let chosen = table.choose(Some("A.b.example"), schemes);
            assert!(chosen.key.choose_scheme(&[expected]).is_some(), "{schemes:?}");
        }
    }
}
