//! [`AcmeCertificate`]: a certificate that an authority issues, and the servers that show it.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, thread};

use rcgen::KeyPair;
use tokio::sync::{oneshot, watch};
use tokio_rustls::rustls::server::ClientHello;

use super::challenge::{ChallengeTable, HttpChallenges};
use super::error::AcmeError;
use super::folder::Folder;
use super::renewal::Renewal;
use super::settings::Settings;
use crate::net::tls::enabled::{Identity, ResolvedConfig, ServerTls, VALIDATION};
use crate::runtime::{block_on, select};

/// A certificate of an authority, renewed by a thread. Made by [`Acme::start`](super::Acme::start).
///
/// Clones and the servers with it share the certificate. The thread ends with the last of them.
#[derive(Clone)]
pub struct AcmeCertificate {
    tls: ServerTls,
    table: Arc<ChallengeTable>,
    _renewing: Arc<Renewing>,
}

/// Dropped with the last user of a certificate, which ends the thread that renews it.
type Renewing = oneshot::Sender<Infallible>;

impl AcmeCertificate {
    pub(super) fn start(settings: Settings) -> Result<AcmeCertificate, AcmeError> {
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
        let in_thread = |error| AcmeError::Io(Path::new("a thread").into(), error);
        let named = thread::Builder::new().name("corehttp-acme".into());
        named.spawn(move || keep_renewing(&mut renewal, gone)).map_err(in_thread)?;
        Ok(AcmeCertificate { tls, table, _renewing: renewing })
    }

    /// Returns the settings for [`Server::tls`](crate::Server::tls) of a server that shows the certificate. The server
    /// answers the authority for [`Challenge::TlsAlpn01`](super::Challenge::TlsAlpn01), too. Other settings may be added.
    pub fn tls(&self) -> ServerTls {
        self.tls.clone()
    }

    /// Returns middleware for a server at port 80, which answers the authority for
    /// [`Challenge::Http01`](super::Challenge::Http01). Put this middleware around the redirect to `https`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use corehttp::acme::{Acme, Challenge, LETS_ENCRYPT_STAGING};
    /// use corehttp::middleware::{HttpsRedirect, wrap};
    /// use corehttp::{Context, Server};
    ///
    /// fn main() -> corehttp::Result {
    ///     let settings = Acme::new(LETS_ENCRYPT_STAGING, ["example.org"])?.challenge(Challenge::Http01);
    ///     let certificate = settings.folder("acme").start()?;
    ///     let hello = |ctx: &mut Context| ctx.response.set_text("in secret");
    ///     let app = wrap((certificate.challenges(), HttpsRedirect::new()), hello);
    ///     Server::bind("[::]:80").and_bind_tls("[::]:443", certificate.tls()).run(app)
    /// }
    /// ```
    pub fn challenges(&self) -> HttpChallenges {
        HttpChallenges::new(self.table.clone())
    }
}

/// Renews the certificate until it is `gone`. A panic, perhaps one of another crate at an answer without sense, ends one try
/// and not all.
fn keep_renewing(renewal: &mut Renewal, mut gone: oneshot::Receiver<Infallible>) {
    loop {
        let gone = async {
            // Nothing is ever sent; this is the end of the sender.
            let Err(_) = (&mut gone).await;
        };
        let ended = catch_unwind(AssertUnwindSafe(|| block_on(select(gone, renewal.run()))));
        match ended {
            Ok(Ok(())) => return,
            Ok(Err(_)) | Err(_) => thread::sleep(AFTER_PANIC),
        }
    }
}

/// The time until the next try, if one has panicked, or has found no descriptors for its runtime.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// Chooses the configuration of each handshake: that of a validation, or that of the certificate as soon as there is one.
fn resolver(
    table: Arc<ChallengeTable>,
    is_ready: Arc<watch::Sender<bool>>,
    renewing: Arc<Renewing>,
) -> impl AsyncFn(ClientHello<'_>) -> ResolvedConfig + Send + Sync + 'static {
    async move |hello: ClientHello<'_>| {
        let _renewing = &renewing;
        if hello.alpn().is_some_and(|offered| offered.eq([VALIDATION])) {
            // For another name the usual configuration, which refuses the peer for its protocol.
            return Ok(hello.server_name().and_then(|name| table.handshake(name)));
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

impl fmt::Debug for AcmeCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcmeCertificate").field("tls", &self.tls).finish_non_exhaustive()
    }
}
