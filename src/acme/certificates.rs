//! [`Certificates`]: a certificate that an authority issues, and the servers that show it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io, thread};

use rcgen::KeyPair;
use tokio::sync::{oneshot, watch};
use tokio_rustls::rustls::server::ClientHello;

use super::challenge::{ChallengeTable, HttpChallenges, VALIDATION};
use super::error::AcmeError;
use super::folder::Folder;
use super::renewal::Renewal;
use super::settings::Settings;
use crate::net::tls::enabled::{Identity, ResolvedConfig, ServerTls};
use crate::runtime::{block_on, select};
use crate::server::OpenedConnection;
use crate::server::builder::Server;

/// A certificate that an authority issues, and that a thread renews. Made by [`Acme::start`].
///
/// Clones are the same, and so are the servers that were given it; the thread ends with the last of them.
#[derive(Clone)]
pub struct Certificates {
    tls: ServerTls,
    table: Arc<ChallengeTable>,
    _renewing: Arc<Renewing>,
}

/// Dropped with the last user of a certificate, which ends the thread that renews it.
type Renewing = oneshot::Sender<Infallible>;

impl Certificates {
    pub(super) fn start(settings: Settings) -> Result<Certificates, AcmeError> {
        let folder = Folder::open(&settings)?;
        let table = Arc::<ChallengeTable>::default();
        let is_ready = Arc::new(watch::Sender::new(false));
        let (renewing, gone) = oneshot::channel();
        let renewing = Arc::new(renewing);
        // Never shown: handshakes wait for the first certificate of the authority.
        let shown = ServerTls::new(placeholder(&settings.names[0])?);
        let mut renewal = Renewal::new(settings, folder, shown.clone(), table.clone(), is_ready.clone());
        renewal.load_at_start();
        let tls = shown.config_resolver(resolver(table.clone(), is_ready, renewing.clone()));
        let run = async {
            let gone = async {
                // Nothing is ever sent; this is the end of the sender.
                let Err(_) = gone.await;
            };
            select(gone, renewal.run()).await;
        };
        let in_thread = |error| AcmeError::Io(Path::new("a thread").into(), error);
        let named = thread::Builder::new().name("corehttp-acme".into());
        named.spawn(move || drop(block_on(run))).map_err(in_thread)?;
        Ok(Certificates { tls, table, _renewing: renewing })
    }

    /// The settings with which a server shows the certificate, for ports that are not those of [`Server::acme`]. Other settings
    /// may be added to them.
    pub fn tls(&self) -> ServerTls {
        self.tls.clone()
    }

    /// Returns middleware for a server at port 80, which answers the authority for
    /// [`Challenge::Http01`](super::Challenge::Http01). It goes around the redirect to `https`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use corehttp::acme::{Acme, Challenge, LETS_ENCRYPT_STAGING};
    /// use corehttp::middleware::{HttpsRedirect, wrap};
    /// use corehttp::{Context, Server};
    ///
    /// fn main() -> corehttp::Result {
    ///     let acme = Acme::new(LETS_ENCRYPT_STAGING, ["example.org"])?.challenge(Challenge::Http01);
    ///     let certificates = settings.folder("acme").start()?;
    ///     let hello = |ctx: &mut Context| ctx.response.set_text("in secret");
    ///     let app = wrap((certificates.challenges(), HttpsRedirect::new(["example.org"])), hello);
    ///     Server::bind("[::]:80").and_bind_tls("[::]:443", certificates.tls()).run(app)
    /// }
    /// ```
    pub fn challenges(&self) -> HttpChallenges {
        HttpChallenges::new(self.table.clone())
    }
}

impl Server {
    /// Shows a certificate that an authority issues, on all ports, and answers that authority when it validates the names by
    /// [`Challenge::TlsAlpn01`](crate::acme::Challenge::TlsAlpn01).
    ///
    /// # Examples
    ///
    /// See [`acme`](crate::acme).
    pub fn acme(self, certificates: &Certificates) -> Server {
        self.tls(certificates.tls()).on_connect(|connection: &mut OpenedConnection<'_>| {
            // A connection for a validation carries no requests (RFC 8737 §3).
            if connection.tls().is_some_and(|tls| tls.alpn.as_deref() == Some(VALIDATION)) {
                connection.refuse();
            }
        })
    }
}

/// Chooses the configuration of each handshake: that of a validation, or that of the certificate as soon as there is one.
fn resolver(
    table: Arc<ChallengeTable>,
    is_ready: Arc<watch::Sender<bool>>,
    renewing: Arc<Renewing>,
) -> impl AsyncFn(ClientHello<'_>) -> ResolvedConfig + Send + Sync + 'static {
    async move |hello: ClientHello<'_>| {
        let _renewing = &renewing;
        if hello.alpn().is_some_and(|offered| offered.eq([VALIDATION])) {
            let config = hello.server_name().and_then(|name| table.handshake(name));
            return config
                .map(Some)
                .ok_or_else(|| io::Error::other("no such name is being validated").into());
        }
        // The sender is there for as long as this closure is.
        let _ = is_ready.subscribe().wait_for(|is_ready| *is_ready).await;
        Ok(None)
    }
}

/// A certificate that signs itself.
fn placeholder(name: &str) -> Result<Identity, AcmeError> {
    let unusable = |error: rcgen::Error| AcmeError::Authority(error.into());
    let key = KeyPair::generate().map_err(unusable)?;
    let params = rcgen::CertificateParams::new([name.to_owned()]).map_err(unusable)?;
    let certificate = params.self_signed(&key).map_err(unusable)?;
    Identity::from_der([certificate.der().to_vec()], key.serialize_der()).map_err(AcmeError::Certificate)
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("tls", &self.tls).finish_non_exhaustive()
    }
}
