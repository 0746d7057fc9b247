//! [`ClientBuilder::tls`]: whom a client trusts, and what it shows.

use super::ClientBuilder;
use crate::net::tls::enabled::ClientTls;

impl ClientBuilder {
    /// How connections to `https` URLs are made secure. Default: TLS 1.2 and 1.3, the public authorities, no
    /// certificate of the client's own.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.settings.tls = tls.connector();
        self
    }
}
