//! A certificate by ACME, from an authority such as Let's Encrypt, by the challenge TLS-ALPN-01 (RFC 8555, RFC 8737): the
//! port on which the server listens is all that it needs.
//!
//! `cargo run --release --example acme --features acme -- HOST [ADDR [DIRECTORY [ROOTS]]]` listens on ADDR (default
//! `[::]:443`), and asks the authority at the URL DIRECTORY (default: the staging of Let's Encrypt) for a certificate for
//! HOST, which has to lead to this machine. ROOTS is a file with the authority that the directory is trusted by. Against
//! Pebble, with `-dnsserver` set to `pebble-challtestsrv`:
//!
//! ```text
//! acme a.example.com 127.0.0.1:5001 https://localhost:14000/dir test/certs/pebble.minica.pem
//! ```
//!
//! The certificate is renewed while the server runs. A program in production keeps the account and the certificate in
//! files, since authorities limit how often they issue one.

use std::env;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use corehttp::server::ErrorLog;
use corehttp::tls::rustls::ServerConfig;
use corehttp::tls::rustls::crypto::ring::default_provider;
use corehttp::tls::rustls::crypto::ring::sign::any_supported_type;
use corehttp::tls::rustls::pki_types::pem::PemObject;
use corehttp::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use corehttp::tls::rustls::server::{ClientHello, ResolvesServerCert};
use corehttp::tls::rustls::sign::CertifiedKey;
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{Client, Context, Server, shutdown_signal};
use instant_acme::{
    Account, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType, HttpClient, Identifier,
    LetsEncrypt, NewAccount, NewOrder, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tower_service::Service;

fn main() -> corehttp::Result {
    let args: Vec<String> = env::args().skip(1).collect();
    let arg = |index: usize| args.get(index).map(String::as_str);
    let host = arg(0).ok_or("usage: acme HOST [ADDR [DIRECTORY [ROOTS]]]").map_err(corehttp::Error::other)?;
    let directory = arg(2).unwrap_or(LetsEncrypt::Staging.url());
    let roots = arg(3).map_or(Ok(tls::Roots::from_webpki()), tls::Roots::from_file)?;
    let certificates = Arc::<Certificates>::default();
    let running = Server::bind(arg(1).unwrap_or("[::]:443"))
        .tls(ServerTls::from_config(config(certificates.clone())?))
        // A connection for a validation carries no requests (RFC 8737 §3).
        .on_connect(|conn| {
            if conn.tls().is_some_and(|tls| tls.alpn.as_deref() == Some(VALIDATION)) {
                conn.refuse();
            }
        })
        .observe(ErrorLog::stderr())
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .start(|ctx: &mut Context| ctx.response.set_text("hello, by a certificate of today\n"))?;
    println!("listening on {running}");
    let client = Client::builder().tls(ClientTls::new().roots(roots)).build();
    let (host, directory) = (host.to_owned(), directory.to_owned());
    thread::spawn(move || {
        loop {
            let obtained = corehttp::block_on(obtain(&client, &directory, &host, &certificates));
            thread::sleep(match obtained.map_err(Into::into).and_then(|obtained| obtained) {
                Ok(()) => RENEWED_AFTER,
                Err(error) => {
                    eprintln!("no certificate: {error:#}");
                    TRIED_AGAIN_AFTER
                }
            });
        }
    });
    running.wait()
}

const RENEWED_AFTER: Duration = Duration::from_secs(60 * 24 * 3600);
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The protocol of a connection by which the authority validates that this server answers for the host.
const VALIDATION: &[u8] = b"acme-tls/1";

/// The certificate that clients are shown, and the one for the authority while it validates.
#[derive(Debug, Default)]
struct Certificates {
    usual: RwLock<Option<Arc<CertifiedKey>>>,
    validation: RwLock<Option<Arc<CertifiedKey>>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_validation = hello.alpn().is_some_and(|offered| offered.eq([VALIDATION]));
        let certificate = if is_validation { &self.validation } else { &self.usual };
        certificate.read().ok()?.clone()
    }
}

fn config(certificates: Arc<Certificates>) -> corehttp::Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec(), VALIDATION.to_vec()];
    Ok(config)
}

type Obtained<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Obtains a certificate for `host` from the authority at `directory`.
async fn obtain(client: &Client, directory: &str, host: &str, certificates: &Certificates) -> Obtained {
    let new = NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
    let account = Account::builder_with_http(Box::new(AcmeClient(client.clone())));
    let (account, _) = account.create(&new, directory.to_owned(), None).await?;
    let mut order = account.new_order(&NewOrder::new(&[Identifier::Dns(host.to_owned())])).await?;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let mut challenge = authorization.challenge(ChallengeType::TlsAlpn01).ok_or("no challenge by TLS")?;
        let digest = challenge.key_authorization().digest().as_ref().to_vec();
        set(&certificates.validation, validation(host, &digest)?);
        challenge.set_ready().await?;
    }
    order.poll_ready(&RetryPolicy::default()).await?;
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&RetryPolicy::default()).await?;
    set(&certificates.usual, certified(&chain, &key)?);
    println!("a new certificate for {host}");
    Ok(())
}

fn set(certificate: &RwLock<Option<Arc<CertifiedKey>>>, new: CertifiedKey) {
    *certificate.write().expect("no thread panics with the lock") = Some(Arc::new(new));
}

/// The certificate of a validation: it signs itself, and contains the digest that only the holder of the account knows.
fn validation(host: &str, digest: &[u8]) -> Obtained<CertifiedKey> {
    let (mut params, key) = (CertificateParams::new([host.to_owned()])?, KeyPair::generate()?);
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    certified(&params.self_signed(&key)?.pem(), &key.serialize_pem())
}

fn certified(chain: &str, key: &str) -> Obtained<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
    let key = any_supported_type(&PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
    Ok(CertifiedKey::new(chain, key))
}

/// The client of this crate, by which the crate instant-acme talks to the authority.
struct AcmeClient(Client);

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let mut client = self.0.clone();
        Box::pin(async move {
            let response = client.call(request).await;
            response.map(BytesResponse::from).map_err(|error| instant_acme::Error::Other(Box::new(error)))
        })
    }
}
