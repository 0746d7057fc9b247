//! [`TlsRoots`]: the certificate authorities that one side trusts (RFC 5280 §6.1.1).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::TlsConfigError;

/// The certificate authorities that one side trusts. There is always at least one.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::TlsConfigError> {
/// use corehttp::TlsRoots;
///
/// // The public authorities, and our own.
/// let roots = TlsRoots::webpki().and(TlsRoots::from_file("/etc/tls/our-ca.pem")?);
/// # Ok(())
/// # }
/// ```
///
/// # Self-signed certificates
///
/// A self-signed certificate is its own root: whoever trusts it can be shown it. But it must not say that it is an
/// authority, as the ones of `openssl req -x509` do by default. An authority signs for others, and a server or a client
/// that shows it as its own certificate is refused. This makes a certificate for tests that both sides accept:
///
/// ```text
/// openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
///     -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
///     -keyout key.pem -out cert.pem
/// ```
#[derive(Clone)]
#[must_use]
pub struct TlsRoots {
    /// Never empty.
    pub(super) store: Arc<RootCertStore>,
}

impl TlsRoots {
    /// Returns the authorities that Mozilla trusted when the crate `webpki-roots` was released: the same on all
    /// machines.
    pub fn webpki() -> TlsRoots {
        TlsRoots { store: Arc::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()) }
    }

    /// Loads the authorities that this machine trusts, including its administrator's own.
    ///
    /// This reads files, so it may take some milliseconds. Certificates that cannot be parsed are ignored, as long as
    /// one is left.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn platform() -> Result<TlsRoots, TlsConfigError> {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        match store.add_parsable_certificates(found.certs) {
            (0, _) => {
                Err(TlsConfigError::Platform(found.errors.into_iter().next().map(|error| error.into())))
            }
            (_, _) => Ok(TlsRoots { store: Arc::new(store) }),
        }
    }

    /// Reads authorities from PEM, which may contain several.
    ///
    /// # Errors
    ///
    /// Fails if the text is not PEM, contains no certificate, or contains one that cannot be used.
    pub fn from_pem(text: impl AsRef<[u8]>) -> Result<TlsRoots, TlsConfigError> {
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(text.as_ref()) {
            store.add(root?).map_err(|error| TlsConfigError::Certificate(error.into()))?;
        }
        if store.is_empty() {
            return Err(TlsConfigError::NoCertificate);
        }
        Ok(TlsRoots { store: Arc::new(store) })
    }

    /// Reads authorities from a PEM file.
    ///
    /// # Errors
    ///
    /// As [`TlsRoots::from_pem`], or if the file cannot be read. The error names the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<TlsRoots, TlsConfigError> {
        let path = path.as_ref();
        TlsRoots::from_pem(TlsConfigError::read(path)?).map_err(|error| error.in_file(path))
    }

    /// Returns these authorities and `others`.
    pub fn and(mut self, others: TlsRoots) -> TlsRoots {
        Arc::make_mut(&mut self.store).extend(others.store.roots.iter().cloned());
        self
    }
}

impl Default for TlsRoots {
    /// [`TlsRoots::webpki`].
    fn default() -> TlsRoots {
        TlsRoots::webpki()
    }
}

impl fmt::Debug for TlsRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roots", self.store.len())
    }
}
