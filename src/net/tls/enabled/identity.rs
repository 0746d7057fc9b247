//! [`TlsIdentity`]: who one side says it is, and the key that proves it (RFC 8446 §4.4.2).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys};
use webpki::EndEntityCert;

use super::TlsConfigError;
use super::settings::provider;

/// A certificate with its chain, and the private key that belongs to it.
///
/// A server's serves the names that are in the certificate. Clones share it.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::TlsConfigError> {
/// use corehttp::TlsIdentity;
///
/// let identity = TlsIdentity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) key: Arc<CertifiedKey>,
}

impl TlsIdentity {
    /// From PEM (RFC 7468): the certificate first, then those that lead to a root; and the key, as PKCS #8, PKCS #1 or
    /// SEC 1. Both may be in one text.
    ///
    /// # Errors
    ///
    /// Text that is no PEM, a certificate or key that is missing or cannot be used, a key that is another's.
    pub fn from_pem(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<TlsIdentity, TlsConfigError> {
        let chain = CertificateDer::pem_slice_iter(chain.as_ref()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_ref()).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsConfigError::NoKey,
            error => error.into(),
        })?;
        TlsIdentity::new(chain, key)
    }

    /// From two files of PEM, or twice the same one. See [`TlsIdentity::from_pem`].
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or as [`TlsIdentity::from_pem`].
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<TlsIdentity, TlsConfigError> {
        TlsIdentity::from_pem(TlsConfigError::read(chain.as_ref())?, TlsConfigError::read(key.as_ref())?)
    }

    /// From DER: the certificates as X.509, the key as PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    ///
    /// A certificate or key that is missing or cannot be used, a key that is another's.
    pub fn from_der(
        chain: impl IntoIterator<Item = Vec<u8>>,
        key: Vec<u8>,
    ) -> Result<TlsIdentity, TlsConfigError> {
        let key = PrivateKeyDer::try_from(key).map_err(|_| TlsConfigError::NoKey)?;
        TlsIdentity::new(chain.into_iter().map(CertificateDer::from).collect(), key)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<TlsIdentity, TlsConfigError> {
        let first = chain.first().ok_or(TlsConfigError::NoCertificate)?;
        EndEntityCert::try_from(first).map_err(|error| TlsConfigError::Certificate(error.into()))?;
        let key = CertifiedKey::from_der(chain, key, &provider());
        let key = key.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsConfigError::Key("it belongs to another certificate".into())
            }
            error => TlsConfigError::Key(error.into()),
        })?;
        Ok(TlsIdentity { key: Arc::new(key) })
    }

    /// The host names that the certificate is for, in lower case; `*.` stands for one label.
    pub fn names(&self) -> Vec<String> {
        let certificate = self.key.cert.first().and_then(|first| EndEntityCert::try_from(first).ok());
        let names = certificate.iter().flat_map(|certificate| certificate.valid_dns_names());
        names.map(str::to_ascii_lowercase).collect()
    }
}

impl fmt::Debug for TlsIdentity {
    /// Never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("names", &self.names()).finish_non_exhaustive()
    }
}
