//! [`Roots`]: the trusted certificate authorities of one side (RFC 5280 §6.1.1); [`Identity`]: a certificate with its
//! private key (RFC 8446 §4.4.2); [`CertResolver`]: selects an identity by the host that a peer names (RFC 6066 §3).

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use memchr::memmem;
use rustls_native_certs::load_native_certs;
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

use super::ConfigError;
use super::config_cache::{Parts, Replaceable};
use super::session::Cryptography;
use super::validity::Validity;
use crate::descriptors::{CLOSING_TIME, RETRIES_MAX, makes_room_after};

/// The trusted certificate authorities of one side, at least one.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::tls::ConfigError> {
/// use corehttp::tls;
///
/// // The public authorities, and our own.
/// let roots = tls::Roots::from_webpki().and(tls::Roots::from_file("/etc/tls/our-ca.pem")?);
/// # Ok(())
/// # }
/// ```
///
/// # Self-signed certificates
///
/// A self-signed certificate is its own root. A side that trusts it accepts it. But it must not be marked as an
/// authority, the default of `openssl req -x509`. An authority signs for others, and is refused as the certificate of a
/// server or a client. The following command makes a certificate for tests that both sides accept:
///
/// ```text
/// openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
///     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
///     -keyout key.pem -out cert.pem
/// ```
#[derive(Clone)]
#[must_use]
pub struct Roots {
    /// Never empty.
    pub(super) store: Arc<RootCertStore>,
}

impl Roots {
    /// Returns the authorities of Mozilla at the release of the crate `webpki-roots`, the same on all machines.
    pub fn from_webpki() -> Roots {
        Roots { store: Arc::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()) }
    }

    /// Loads the trusted authorities of this machine, including its administrator's own.
    ///
    /// Files are read, which may take some milliseconds. Malformed certificates are ignored.
    ///
    /// # Errors
    ///
    /// Fails if none is left.
    pub fn from_platform() -> Result<Roots, ConfigError> {
        let mut found = load_native_certs();
        // A file for which there is no descriptor is left out.
        for _ in 0..RETRIES_MAX {
            if !found.errors.iter().any(|error| makes_room_after(error)) {
                break;
            }
            thread::sleep(CLOSING_TIME);
            found = load_native_certs();
        }
        let mut store = RootCertStore::empty();
        match store.add_parsable_certificates(found.certs) {
            (0, _) => Err(ConfigError::Platform(found.errors.into_iter().next().map(|error| error.into()))),
            (_, _) => Ok(Roots { store: Arc::new(store) }),
        }
    }

    /// Reads authorities from PEM, which may contain several.
    ///
    /// # Errors
    ///
    /// Fails for text other than PEM, without a certificate, or with an unusable one.
    pub fn from_pem(text: impl AsRef<[u8]>) -> Result<Roots, ConfigError> {
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(text.as_ref()) {
            store.add(root?).map_err(|error| ConfigError::Certificate(error.into()))?;
        }
        if store.is_empty() {
            return Err(ConfigError::NoCertificate.in_text(text.as_ref()));
        }
        Ok(Roots { store: Arc::new(store) })
    }

    /// Reads authorities from a PEM file.
    ///
    /// # Errors
    ///
    /// Fails like [`Roots::from_pem`], and for a file that cannot be read. The error names the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Roots, ConfigError> {
        let path = path.as_ref();
        Roots::from_pem(ConfigError::read(path)?).map_err(|error| error.in_file(path))
    }

    /// Returns these authorities and `others`.
    pub fn and(mut self, others: Roots) -> Roots {
        Arc::make_mut(&mut self.store).extend(others.store.roots.iter().cloned());
        self
    }

    /// Whether these are a clone of `others`. The contents are not compared.
    pub(super) fn is_same(&self, others: &Roots) -> bool {
        Arc::ptr_eq(&self.store, &others.store)
    }
}

impl Default for Roots {
    /// [`Roots::from_webpki`].
    fn default() -> Roots {
        Roots::from_webpki()
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roots", self.store.len())
    }
}

impl Parts for Option<Roots> {
    fn are_same(&self, others: &Option<Roots>) -> bool {
        match (self, others) {
            (None, None) => true,
            (Some(mine), Some(others)) => mine.is_same(others),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// A certificate with its chain and its private key.
///
/// A server uses it for the names in the certificate. Clones are cheap, and share their contents.
///
/// An identity can have an expired certificate, to read its [dates](Identity::not_after). A server does not start with
/// it: see [`ServerTls::check_dates`](crate::tls::ServerTls::check_dates).
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::tls::ConfigError> {
/// use corehttp::tls;
///
/// // Where certbot puts them:
/// let folder = std::path::Path::new("/etc/letsencrypt/live/example.com");
/// let identity = tls::Identity::from_files(folder.join("fullchain.pem"), folder.join("privkey.pem"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    validity: Validity,
}

impl Identity {
    /// Reads an identity from PEM (RFC 7468). The certificate comes first, then those that lead to a root. The key is
    /// PKCS #8, PKCS #1 or SEC 1. Both may be in one text.
    ///
    /// # Errors
    ///
    /// Fails for text other than PEM, for a missing or unusable certificate or key, and for a key that does not match.
    pub fn from_pem(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Identity, ConfigError> {
        Identity::new(certificates(chain.as_ref())?, private_key(key.as_ref())?)
    }

    /// Reads an identity from two PEM files, which may be the same one. See [`Identity::from_pem`].
    ///
    /// # Errors
    ///
    /// Fails like [`Identity::from_pem`], and for a file that cannot be read. The error names the file.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Identity, ConfigError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let certificates = certificates(&ConfigError::read(chain)?).map_err(|error| error.in_file(chain))?;
        let private_key = private_key(&ConfigError::read(key)?).map_err(|error| error.in_file(key))?;
        Identity::new(certificates, private_key).map_err(|error| match error {
            ConfigError::Key(_) => error.in_file(key),
            _ => error.in_file(chain),
        })
    }

    /// Reads an identity from DER: the certificates as X.509, the key as PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    ///
    /// Fails for a missing or unusable certificate or key, and for a key that does not match.
    pub fn from_der(chain: impl IntoIterator<Item = Vec<u8>>, key: Vec<u8>) -> Result<Identity, ConfigError> {
        let key = PrivateKeyDer::try_from(key).map_err(|_| ConfigError::NoKey)?;
        Identity::new(chain.into_iter().map(CertificateDer::from).collect(), key)
    }

    /// Takes a certificate and a key of [`rustls`](crate::tls::rustls), for a key in hardware or of another provider.
    /// Keys on P-521, for example, are missing in ring.
    ///
    /// # Errors
    ///
    /// Fails if the certificate is missing, unusable, or that of another key.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use corehttp::tls;
    /// use corehttp::tls::rustls::crypto::ring::default_provider;
    /// use corehttp::tls::rustls::pki_types::pem::PemObject;
    /// use corehttp::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    /// use corehttp::tls::rustls::sign::CertifiedKey;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let chain = CertificateDer::pem_file_iter("/etc/tls/fullchain.pem")?.collect::<Result<_, _>>()?;
    /// let key = PrivateKeyDer::from_pem_file("/etc/tls/privkey.pem")?;
    /// let provider = default_provider(); // or that of another crate
    /// let identity = tls::Identity::from_certified_key(CertifiedKey::from_der(chain, key, &provider)?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_certified_key(key: impl Into<Arc<CertifiedKey>>) -> Result<Identity, ConfigError> {
        let key = key.into();
        let validity = check_certificate(&key.cert)?;
        match key.keys_match() {
            // Not every key can show its public half.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Identity { key, validity })
            }
            Err(_) if is_of_later(&key) => {
                let reason =
                    "it is not the first of its chain: write it before the certificates of authorities";
                Err(ConfigError::Certificate(reason.into()))
            }
            Err(error) => Err(key_error(error)),
        }
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Identity, ConfigError> {
        let provider = Cryptography::default().provider();
        let signing_key = provider.key_provider.load_private_key(key).map_err(|_| {
            ConfigError::Key(
                "it is damaged, or not of P-256, P-384, Ed25519, or RSA of at least 2,048 bits".into(),
            )
        })?;
        Identity::from_certified_key(CertifiedKey::new(chain, signing_key))
    }

    /// Whether this is a clone of `other`. The contents are not compared.
    pub(super) fn is_same(&self, other: &Identity) -> bool {
        Arc::ptr_eq(&self.key, &other.key)
    }

    /// Returns the host names of the certificate in lower case. `*.` stands for one label.
    pub fn names(&self) -> Vec<String> {
        let certificate = self.key.cert.first().and_then(|first| EndEntityCert::try_from(first).ok());
        let names = certificate.iter().flat_map(|certificate| certificate.valid_dns_names());
        names.map(str::to_ascii_lowercase).collect()
    }

    /// Returns when the certificate begins to be valid (RFC 5280 §4.1.2.5).
    pub fn not_before(&self) -> SystemTime {
        self.validity.not_before
    }

    /// Returns the last second in which the certificate is valid (RFC 5280 §4.1.2.5). The certificates that lead from
    /// it to a root may expire earlier.
    ///
    /// # Examples
    ///
    /// An alarm, some days before:
    ///
    /// ```no_run
    /// use std::time::{Duration, SystemTime};
    /// use corehttp::tls;
    ///
    /// # fn main() -> Result<(), corehttp::tls::ConfigError> {
    /// let identity = tls::Identity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem")?;
    /// let left = identity.not_after().duration_since(SystemTime::now()).unwrap_or_default();
    /// if left < Duration::from_secs(14 * 86_400) {
    ///     eprintln!("{identity:?} expires in {} days", left.as_secs() / 86_400);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("expiry", "expiration", "valid_until"))]
    pub fn not_after(&self) -> SystemTime {
        self.validity.not_after
    }

    /// Checks that the certificate is valid at this time.
    fn check_dates(&self, now: SystemTime) -> Result<(), ConfigError> {
        let Validity { not_before, not_after } = self.validity;
        if now > not_after {
            return Err(ConfigError::Expired { names: self.names(), not_after });
        }
        if now < not_before {
            return Err(ConfigError::NotYetValid { names: self.names(), not_before });
        }
        Ok(())
    }
}

fn check_certificate(chain: &[CertificateDer<'_>]) -> Result<Validity, ConfigError> {
    let first = chain.first().ok_or(ConfigError::NoCertificate)?;
    EndEntityCert::try_from(first).map_err(|error| ConfigError::Certificate(error.into()))?;
    Validity::from_der(first).ok_or_else(|| ConfigError::Certificate("its dates cannot be read".into()))
}

/// Whether the key is that of a later certificate in its chain.
fn is_of_later(key: &CertifiedKey) -> bool {
    let mut later = key.cert.iter().skip(1);
    later.any(|one| CertifiedKey::new(vec![one.clone()], key.key.clone()).keys_match().is_ok())
}

fn key_error(error: rustls::Error) -> ConfigError {
    ConfigError::Key(match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "it belongs to another certificate".into()
        }
        error => error.into(),
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(ConfigError::NoCertificate.in_text(pem)) } else { Ok(found) }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => ConfigError::NoKey.in_text(pem),
        _ if memmem::find(pem, b"\nProc-Type: 4,ENCRYPTED").is_some() => ConfigError::encrypted_key(),
        error => error.into(),
    })
}

impl fmt::Debug for Identity {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("names", &self.names()).finish_non_exhaustive()
    }
}

/// The identities of a server, which can be replaced while handshakes are in progress.
pub(super) struct CertResolver {
    table: Replaceable<Arc<CertTable>>,
    /// Why the latest replacement was refused, if one was.
    refused: watch::Sender<Option<Arc<str>>>,
}

/// The identities at one time.
#[derive(Clone)]
pub(super) struct CertTable {
    /// The identity for peers that name no host, or a host without a certificate.
    default: Identity,
    /// The keys for such peers: that of the default, and those of others for the same names.
    default_keys: Vec<Arc<CertifiedKey>>,
    others: Vec<Identity>,
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl CertResolver {
    pub(super) fn new(table: CertTable) -> CertResolver {
        CertResolver { table: Replaceable::new(Arc::new(table)), refused: watch::Sender::default() }
    }

    pub(super) fn set(&self, table: CertTable) {
        self.table.set(Arc::new(table));
        self.refused.send_replace(None);
    }

    /// Adds an identity to those of the table.
    pub(super) fn add(&self, identity: Identity) {
        self.table.update(|table| Arc::make_mut(table).add(identity));
    }

    /// Has all servers report that a replacement was refused.
    pub(super) fn refuse(&self, error: &ConfigError) {
        self.refused.send_replace(Some(format!("{error:#}").into()));
    }

    /// Why the latest replacement was refused, if it was; and that of later ones.
    pub(super) fn refused(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.refused.subscribe()
    }

    pub(super) fn table(&self) -> Arc<CertTable> {
        self.table.get()
    }
}

impl Clone for CertResolver {
    /// A resolver with a table of its own, to which [`Arc::make_mut`] adds.
    fn clone(&self) -> CertResolver {
        CertResolver { table: Replaceable::new(self.table()), refused: watch::Sender::default() }
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
    pub(super) fn new(default: Identity, others: impl IntoIterator<Item = Identity>) -> CertTable {
        let default_keys = vec![default.key.clone()];
        let by_name = default.names().into_iter().map(|name| (name, default_keys.clone())).collect();
        let mut table = CertTable { default, default_keys, others: Vec::new(), by_name };
        others.into_iter().for_each(|other| table.add(other));
        table
    }

    /// Adds an identity, which is shown where those before it cannot be.
    fn add(&mut self, other: Identity) {
        let mut is_of_default = false;
        for name in other.names() {
            let keys = self.by_name.entry(name).or_default();
            is_of_default |= keys.first().is_some_and(|first| Arc::ptr_eq(first, &self.default.key));
            keys.push(other.key.clone());
        }
        if is_of_default {
            self.default_keys.push(other.key.clone());
        }
        self.others.push(other);
    }

    /// Checks that all certificates are valid at this time.
    pub(super) fn check_dates(&self, now: SystemTime) -> Result<(), ConfigError> {
        self.identities().try_for_each(|identity| identity.check_dates(now))
    }

    /// The default, and the others.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Identity> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// The first identity for `name` with a key that the peer can use, or else the first for `name`. Without one, the same
    /// among the defaults.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Arc<CertifiedKey> {
        let named = Vec::from_iter(name.into_iter().flat_map(|name| self.named(name)));
        let keys = if named.is_empty() { self.default_keys.iter().collect() } else { named };
        let usable = keys.iter().find(|key| key.key.choose_scheme(schemes).is_some());
        Arc::clone(usable.or(keys.first()).copied().unwrap_or(&self.default.key))
    }

    /// The identities for exactly this host, and then those with a wildcard for its domain (RFC 9525 §6.3).
    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let any = name.split_once('.').and_then(|(_, domain)| self.by_name.get(&format!("*.{domain}")));
        [self.by_name.get(&name), any].into_iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
        SignatureAlgorithm,
    };

    use super::*;

    fn identity(name: &str, algorithm: &'static SignatureAlgorithm) -> Identity {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        Identity::from_pem(params.self_signed(&key).unwrap().pem(), key.serialize_pem()).unwrap()
    }

    /// The certificate for exactly this host comes first, and a wildcard last, which must still be shown to a peer that
    /// can use no other.
    #[test]
    fn a_host_shows_the_first_of_its_identities_that_the_peer_can_use() {
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
        let dotted = table.choose(Some("a.b.example."), &[second]);
        assert!(dotted.key.choose_scheme(&[second]).is_some());
    }

    /// The clients of old cannot name a host, and may know no elliptic curves.
    #[test]
    fn a_peer_without_a_name_is_shown_the_first_default_that_it_can_use() {
        let others = vec![identity("b.test", &PKCS_ED25519), identity("a.test", &PKCS_ECDSA_P384_SHA384)];
        let table = CertTable::new(identity("a.test", &PKCS_ECDSA_P256_SHA256), others);
        let (first, second) =
            (SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ECDSA_NISTP384_SHA384);
        for (schemes, expected) in [
            (&[second, first][..], first),
            (&[second], second),
            // That is of another host.
            (&[SignatureScheme::ED25519], first),
        ] {
            for name in [None, Some("c.test")] {
                let chosen = table.choose(name, schemes);
                assert!(chosen.key.choose_scheme(&[expected]).is_some(), "{schemes:?} {name:?}");
            }
        }
    }
}
