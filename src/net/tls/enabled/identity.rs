//! [`TlsIdentity`]: a certificate, and the key that proves it (RFC 8446 §4.4.2).

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
/// A server uses it for the names in the certificate. Clones are cheap, and share their contents.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::TlsConfigError> {
/// use corehttp::TlsIdentity;
///
/// // Where certbot puts them:
/// let folder = std::path::Path::new("/etc/letsencrypt/live/example.com");
/// let identity = TlsIdentity::from_files(folder.join("fullchain.pem"), folder.join("privkey.pem"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) key: Arc<CertifiedKey>,
}

impl TlsIdentity {
    /// Reads an identity from PEM (RFC 7468): the certificate first, then those that lead to a root; and the key, as
    /// PKCS #8, PKCS #1 or SEC 1. Both may be in one text.
    ///
    /// # Errors
    ///
    /// Fails if the text is not PEM, if the certificate or the key is missing or cannot be used, or if they do not
    /// belong together.
    pub fn from_pem(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<TlsIdentity, TlsConfigError> {
        TlsIdentity::new(certificates(chain.as_ref())?, private_key(key.as_ref())?)
    }

    /// Reads an identity from two PEM files, which may be the same one. See [`TlsIdentity::from_pem`].
    ///
    /// # Errors
    ///
    /// As [`TlsIdentity::from_pem`], or if a file cannot be read. The error names the file.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<TlsIdentity, TlsConfigError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let certificates =
            certificates(&TlsConfigError::read(chain)?).map_err(|error| error.in_file(chain))?;
        let private_key = private_key(&TlsConfigError::read(key)?).map_err(|error| error.in_file(key))?;
        TlsIdentity::new(certificates, private_key).map_err(|error| match error {
            TlsConfigError::Key(_) => error.in_file(key),
            _ => error.in_file(chain),
        })
    }

    /// Reads an identity from DER: the certificates as X.509, the key as PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    ///
    /// Fails if the certificate or the key is missing or cannot be used, or if they do not belong together.
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

    /// Returns the host names that the certificate is for, in lower case; `*.` stands for one label.
    pub fn names(&self) -> Vec<String> {
        let certificate = self.key.cert.first().and_then(|first| EndEntityCert::try_from(first).ok());
        let names = certificate.iter().flat_map(|certificate| certificate.valid_dns_names());
        names.map(str::to_ascii_lowercase).collect()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    Ok(CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsConfigError::NoKey,
        error => error.into(),
    })
}

impl fmt::Debug for TlsIdentity {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("names", &self.names()).finish_non_exhaustive()
    }
}
