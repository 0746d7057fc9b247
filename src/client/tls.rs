//! [`ClientBuilder::tls`]: which servers a client trusts, and which certificate it presents.

use super::client::ClientBuilder;
use crate::net::tls::enabled::ClientTls;

impl ClientBuilder {
    /// Sets how connections to `https` URLs, and to proxies over TLS, are made secure. Default: TLS 1.2 and 1.3, the
    /// public certificate authorities, and no client certificate.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.settings.tls = tls.connector();
        self
    }
}
