//! [`TlsRoots`]: whom one side trusts to say who the other one is (RFC 5280 §6.1.1).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::TlsConfigError;

/// The certificate authorities that one side trusts. There is always one at least.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), corehttp::TlsConfigError> {
/// use corehttp::TlsRoots;
///
/// // The public authorities, and our own beside them.
/// let roots = TlsRoots::webpki().and(TlsRoots::from_file("/etc/tls/our-ca.pem")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct TlsRoots {
    /// Never empty.
    pub(super) store: Arc<RootCertStore>,
}

impl TlsRoots {
    /// Those that Mozilla trusts, as they were when the crate was built: the same on all machines.
    pub fn webpki() -> TlsRoots {
        TlsRoots { store: Arc::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()) }
    }

    /// Those that this machine trusts, its administrator's own among them. Reads files, so it may take some
    /// milliseconds. What cannot be read as a certificate is passed over, as long as one is left.
    ///
    /// # Errors
    ///
    /// A machine that has none.
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

    /// Those in a text of PEM, which may hold several.
    ///
    /// # Errors
    ///
    /// Text that is no PEM, one without a certificate, a certificate that cannot be used.
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

    /// Those in a file of PEM.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or as [`TlsRoots::from_pem`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<TlsRoots, TlsConfigError> {
        TlsRoots::from_pem(TlsConfigError::read(path.as_ref())?)
    }

    /// These and `others`.
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
