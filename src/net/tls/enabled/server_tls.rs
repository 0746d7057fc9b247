//! [`ServerTls`]: how a server makes its connections secure.

use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::Ticketer;

use super::identities::{Identities, Table};
use super::peers::{Peers, Trust};
use super::settings::{VERSIONS_FIT, alpn, provider, versions};
use super::{TlsConfigError, TlsIdentity, TlsRoots, TlsVersion};

/// How a server makes its connections secure: TLS 1.2 and 1.3, and HTTP/1.1 inside.
///
/// A clone that is kept is a handle: [`ServerTls::replace`] and [`ServerTls::replace_roots`] work while the server
/// runs. All other methods change only the value that they return, and not its clones.
///
/// # Examples
///
/// ```no_run
/// use corehttp::{Context, Server, ServerTls, TlsIdentity};
///
/// fn main() -> corehttp::Result {
///     let identity = || TlsIdentity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem");
///     let tls = ServerTls::new(identity()?);
///     let running = Server::bind("[::]:443")
///         .tls(tls.clone())
///         .start(|ctx: &mut Context| ctx.response.text("nobody has read this on its way"))?;
///
///     // Once the files are new, for instance when a signal says so:
///     tls.replace([identity()?])?;
///     running.wait()
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerTls {
    identities: Arc<Identities>,
    peers: Peers,
    version_min: TlsVersion,
}

impl ServerTls {
    /// Shows peers `identity`, whichever host they want to talk to.
    pub fn new(identity: TlsIdentity) -> ServerTls {
        let identities = Arc::new(Identities::new(Table::new(identity, Vec::new())));
        ServerTls { identities, peers: Peers::Unasked, version_min: TlsVersion::default() }
    }

    /// Shows `identity` to peers that want to talk to a host that its certificate is for. Of several for one host,
    /// such as one with an RSA key and one with an elliptic one, the first that the peer can use is shown.
    pub fn and(mut self, identity: TlsIdentity) -> ServerTls {
        self.identities = Arc::new(Identities::new(self.identities.table().and(identity)));
        self
    }

    /// Asks peers for a certificate. One that they show must lead to `roots`; they need not show any. What they have
    /// shown is in [`TlsSession::certificates`](super::TlsSession::certificates). Default: they are not asked.
    pub fn ask_peers(mut self, roots: TlsRoots) -> ServerTls {
        self.peers = Peers::Asked(Trust::new(roots));
        self
    }

    /// Talks to nobody who has no certificate that leads to `roots`. Default: peers are not asked.
    pub fn require_peers(mut self, roots: TlsRoots) -> ServerTls {
        self.peers = Peers::Required(Trust::new(roots));
        self
    }

    /// The oldest version that is spoken. Default: [`TlsVersion::Tls12`].
    pub fn version_min(mut self, version: TlsVersion) -> ServerTls {
        self.version_min = version;
        self
    }

    /// Shows other identities from the next handshake on, in this handle and in all its clones, servers that run among
    /// them: the first for all hosts, each of the others for those that it is for. Connections that are open stay as
    /// they are.
    ///
    /// # Errors
    ///
    /// [`TlsConfigError::NoCertificate`] if there are none; nothing is replaced then.
    pub fn replace(&self, identities: impl IntoIterator<Item = TlsIdentity>) -> Result<(), TlsConfigError> {
        let mut identities = identities.into_iter();
        let default = identities.next().ok_or(TlsConfigError::NoCertificate)?;
        self.identities.set(Table::new(default, identities.collect()));
        Ok(())
    }

    /// Believes certificates of peers only if they lead to `roots`, from the next handshake on, in this handle and in all
    /// its clones, servers that run among them. Sessions that began before are not resumed. It changes nothing where
    /// peers are not asked. Connections that are open stay as they are.
    pub fn replace_roots(&self, roots: TlsRoots) {
        self.peers.replace(roots);
    }

    /// What certificates of peers have to lead to from now on.
    pub(super) fn roots(&self) -> Option<TlsRoots> {
        self.peers.roots()
    }

    /// All of this for rustls, with certificates of peers that lead to `roots`.
    pub(super) fn config(&self, roots: Option<&TlsRoots>) -> ServerConfig {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(self.version_min))
            .expect(VERSIONS_FIT)
            .with_client_cert_verifier(self.peers.verifier(roots));
        let mut config = config.with_cert_resolver(self.identities.clone());
        config.alpn_protocols = alpn();
        // Without randomness there are no tickets; nor will any handshake succeed, and it will say why.
        if let Ok(ticketer) = Ticketer::new() {
            config.ticketer = ticketer;
        }
        config
    }
}
