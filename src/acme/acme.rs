//! [`Acme`]: which certificate is obtained, and from whom.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::certificate::AcmeCertificate;
use super::challenge::Challenge;
use super::error::{AcmeError, AcmeReport};
use super::settings::Settings;
use crate::client::client::Client;

/// The directory of [Let's Encrypt](https://letsencrypt.org).
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of Let's Encrypt for trials: no browser trusts its certificates, and its limits are generous.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Settings for a certificate that an authority issues: see the [module](crate::acme).
#[must_use]
pub struct Acme {
    settings: Settings,
}

impl Acme {
    /// Makes settings for one certificate with these names, from the authority with this directory (RFC 8555 §7.1.1). To
    /// start with them is to agree to its terms of service.
    ///
    /// # Errors
    ///
    /// Fails with:
    /// - [`AcmeError::Directory`] if the directory is not an `https` URL
    /// - [`AcmeError::Names`] without a name, or for a name that cannot be validated over a connection
    ///
    /// A wildcard cannot be validated so, since it needs DNS. Nor can an address, a name with a dot at its end, or one beyond
    /// ASCII (its `xn--` form is fine).
    pub fn new<N: AsRef<str>>(
        directory: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Acme, AcmeError> {
        Ok(Acme { settings: Settings::new(directory, names)? })
    }

    /// Adds a URL at which the authority reaches the operator, such as `mailto:ops@example.org` (RFC 8555 §7.3). Default: none.
    pub fn contact(mut self, url: &str) -> Self {
        self.settings.contacts.push(url.to_owned());
        self
    }

    /// Sets the folder for the account and the certificate, with their keys. The folder is made if need be. Only the user of
    /// the process may read the files. All certificates of a folder from one authority share an account.
    ///
    /// Default: none. Then each start makes a new account, and obtains a new certificate. Let's Encrypt issues five a week for
    /// the same names.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.folder = Some(folder.into());
        self
    }

    /// Sets the way in which the authority validates the names. Default: [`Challenge::TlsAlpn01`].
    pub fn challenge(mut self, challenge: Challenge) -> Self {
        self.settings.challenge = challenge;
        self
    }

    /// Sets the client for requests to the authority, with its proxies and trusted roots. Default: [`Client::new`].
    pub fn client(mut self, client: Client) -> Self {
        self.settings.client = Some(client);
        self
    }

    /// Sets a function that gets reports of certificates and failures. Default: failures are written to standard error.
    ///
    /// The function is called on the thread that renews, and by [`Acme::start`] for a certificate in the folder. Its panics are
    /// ignored.
    pub fn on_report(mut self, on_report: impl Fn(&AcmeReport) + Send + Sync + 'static) -> Self {
        self.settings.on_report = Some(Arc::new(on_report));
        self
    }

    /// Starts a thread that obtains the certificate and renews it. The thread ends once the returned value, its clones and the
    /// servers with the certificate are gone.
    ///
    /// Nothing is waited for. A certificate in the folder serves from the first handshake on.
    ///
    /// # Errors
    ///
    /// Fails if the folder or the thread cannot be made.
    pub fn start(self) -> Result<AcmeCertificate, AcmeError> {
        AcmeCertificate::start(self.settings)
    }
}

impl fmt::Debug for Acme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { directory, names, challenge, folder, .. } = &self.settings;
        f.debug_struct("Acme")
            .field("directory", directory)
            .field("names", names)
            .field("challenge", challenge)
            .field("folder", folder)
            .finish_non_exhaustive()
    }
}
