//! [`ClientTls::from_platform_verifier`]: hosts that the operating system has to accept (RFC 5280 §6).

use std::sync::Arc;

use rustls_platform_verifier::Verifier;

use super::session::Cryptography;
use super::{ClientTls, ConfigError};

impl ClientTls {
    /// Creates settings as [`ClientTls::new`] does, with the verifier of the operating system.
    ///
    /// Like the browser of the system, the client trusts the authorities of the machine and of its administrator. On
    /// Windows, macOS and Android, it also refuses certificates that are revoked for the system. On Linux and other
    /// Unix systems the authorities of the machine are loaded, which may take some milliseconds.
    /// [`Roots::from_platform`](crate::tls::Roots::from_platform) is the same there.
    ///
    /// The verifier takes the place of the roots: [`ClientTls::roots`] and [`ClientTls::replace_roots`] have no effect.
    /// Its signatures are verified by the crate ring.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Platform`] if the system has no verifier or no authorities.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::tls::ClientTls;
    ///
    /// # fn main() -> Result<(), corehttp::tls::ConfigError> {
    /// # if corehttp::tls::Roots::from_platform().is_err() { return Ok(()) }
    /// let client = Client::builder().tls(ClientTls::from_platform_verifier()?).build();
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_platform_verifier() -> Result<ClientTls, ConfigError> {
        let verifier = Verifier::new(Cryptography::default().provider());
        let verifier = verifier.map_err(|error| ConfigError::Platform(Some(error.into())))?;
        Ok(ClientTls::new().verified_by(Arc::new(verifier)))
    }
}
