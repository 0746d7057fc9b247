//! [`ClientTls::from_platform_verifier`]: hosts that the operating system has to accept (RFC 5280 §6).

use std::sync::Arc;

use rustls_platform_verifier::Verifier;

use super::session::Cryptography;
use super::{ClientTls, TlsConfigError};

impl ClientTls {
    /// Creates settings as [`ClientTls::new`] does, for hosts that the verifier of the operating system accepts, as its
    /// browser would: by the authorities of the machine and of its administrator, and on Windows, macOS and Android also
    /// by what that system knows about revoked certificates. On Linux and other Unix systems the authorities of the
    /// machine are loaded, which may take some milliseconds; [`TlsRoots::from_platform`](crate::TlsRoots::from_platform)
    /// is the same there.
    ///
    /// The verifier takes the place of the roots, so [`ClientTls::roots`] and [`ClientTls::replace_roots`] have no effect.
    /// Its signatures are verified by the crate ring.
    ///
    /// # Errors
    ///
    /// Fails with [`TlsConfigError::Platform`] if the system has no verifier, or no authorities.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Client, ClientTls};
    ///
    /// # fn main() -> Result<(), corehttp::TlsConfigError> {
    /// # if corehttp::TlsRoots::from_platform().is_err() { return Ok(()) }
    /// let client = Client::builder().tls(ClientTls::from_platform_verifier()?).build();
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_platform_verifier() -> Result<ClientTls, TlsConfigError> {
        let verifier = Verifier::new(Cryptography::default().provider());
        let verifier = verifier.map_err(|error| TlsConfigError::Platform(Some(error.into())))?;
        Ok(ClientTls::new().verified_by(Arc::new(verifier)))
    }
}
