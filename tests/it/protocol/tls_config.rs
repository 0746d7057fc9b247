//! Configurations and providers of the application: what they set, on both sides, and how they are replaced.

use std::fmt;
use std::future::pending;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
#[cfg(all(feature = "platform-verifier", target_os = "linux"))]
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::middleware::{Hsts, HttpsRedirect};
use corehttp::net::MemoryListener;
use corehttp::server::ForwardedHeader;
use corehttp::tls::rustls::client::WebPkiServerVerifier;
use corehttp::tls::rustls::crypto::CryptoProvider;
use corehttp::tls::rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use corehttp::tls::rustls::pki_types::pem::PemObject;
use corehttp::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use corehttp::tls::rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier};
use corehttp::tls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use corehttp::tls::rustls::version::{TLS12, TLS13};
use corehttp::tls::rustls::{ClientConfig, HandshakeKind, KeyLog, RootCertStore, ServerConfig};
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{
    Address, Client, ClientBuilder, ClientError, Context, IntoHandler, Request, Server, ServerHandle,
    TrustedProxies, block_on,
};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use tokio::io::{AsyncWriteExt, duplex};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::protocol::tls::{LAST, Secured, connect_at, connect_to, exchange, greet, hello_for, identity};
use crate::support::certificates::{Authority, Issued};
use crate::support::{ErrorReports, Peer, Served, eventually, paused, status};

/// Answers with the session.
fn tell(ctx: &mut Context) {
    let tls = ctx.tls().unwrap();
    let alpn = tls.alpn.clone().map(|alpn| String::from_utf8(alpn).unwrap());
    let told = (tls.cipher_suite, tls.key_exchange, alpn, tls.certificates.len());
    ctx.response.set_text(format!("{told:?}"));
}

fn certified(issued: &Issued, provider: &CryptoProvider) -> Arc<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    Arc::new(CertifiedKey::from_der(chain, key, provider).unwrap())
}

/// One certificate for another protocol of ALPN, and the usual one.
#[derive(Debug)]
struct ByProtocol {
    usual: Arc<CertifiedKey>,
    other: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByProtocol {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_other = hello.alpn()?.eq([b"other/1"]);
        Some(if is_other { &self.other } else { &self.usual }.clone())
    }
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl KeyLog for Labels {
    fn log(&self, label: &str, _: &[u8], _: &[u8]) {
        self.0.lock().unwrap().push(label.into());
    }
}

fn config(provider: CryptoProvider, resolver: impl ResolvesServerCert + 'static) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver))
}

#[test]
fn a_configuration_sets_certificates_alpn_suites_and_key_log() {
    let (secured, labels) = (Secured::new(), Arc::<Labels>::default());
    let suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    let provider =
        CryptoProvider { cipher_suites: suites, kx_groups: vec![kx_group::SECP384R1], ..default_provider() };
    let issue = |host: &str| certified(&secured.authority.issue(&[host]), &provider);
    let resolver = ByProtocol { usual: issue("a.example"), other: issue("b.example") };
    let mut config = config(provider.clone(), resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"other/1".to_vec()];
    config.key_log = labels.clone();
    // Settings beside a configuration have no effect.
    let tls = ServerTls::from_config(config).and_identity(identity(&secured.authority.issue(&["c.example"])));
    let served = Served::with(|server| server.tls(tls), tell);
    for (host, alpn) in [("a.example", "http/1.1"), ("b.example", "other/1")] {
        let mut peer = secured.peer();
        peer.alpn_protocols = vec![alpn.into()];
        let expected = format!(r#"("TLS13_CHACHA20_POLY1305_SHA256", Some("secp384r1"), Some("{alpn}"), 0)"#);
        assert_eq!(greet(&served, peer, host), Ok(expected));
    }
    let mut peer = secured.peer();
    peer.alpn_protocols = vec!["http/1.1".into()];
    greet(&served, peer, "c.example").unwrap_err();
    assert!(labels.0.lock().unwrap().iter().any(|label| label == "SERVER_TRAFFIC_SECRET_0"));
}

/// Panics for one host.
#[derive(Debug)]
struct Fragile(Arc<CertifiedKey>);

impl ResolvesServerCert for Fragile {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        assert_ne!(hello.server_name(), Some("b.example"), "this panic is part of the test");
        Some(self.0.clone())
    }
}

#[test]
fn a_certificate_resolver_that_panics_costs_one_connection_and_is_reported() {
    let (secured, reports) = (Secured::new(), ErrorReports::default());
    let key = certified(&secured.authority.issue(&["a.example"]), &default_provider());
    let tls = ServerTls::from_config(config(default_provider(), Fragile(key)));
    let served = Served::with(|server| reports.attach(server).cores(1).tls(tls), tell);
    for _ in 0..3 {
        greet(&served, secured.peer(), "b.example").unwrap_err();
        assert!(greet(&served, secured.peer(), "a.example").is_ok());
    }
    eventually("no connection is left", || served.running.counts().total.open == 0);
    let mut seen = reports.take();
    seen.dedup();
    assert_eq!(seen, [(0, PANICKED.to_owned())]);
    assert_eq!(served.running.counts().total.errors.panic, 3);
}

const PANICKED: &str = "a function of the application panicked in the TLS handshake";

/// A server with a resolver, whose own identity is for `a.example`, and its reports.
struct Resolved {
    secured: Secured,
    served: Served,
    reports: ErrorReports,
}

impl Resolved {
    fn new(make: impl FnOnce(&Secured) -> ServerTls) -> Resolved {
        let (secured, reports) = (Secured::new(), ErrorReports::default());
        let tls = make(&secured);
        let served = Served::with(|server| reports.attach(server).cores(1).tls(tls), tell);
        Resolved { secured, served, reports }
    }

    /// The error of the peer, and of the server.
    fn refusal(&self, host: &str) -> (String, Vec<(u16, String)>) {
        let error = greet(&self.served, self.secured.peer(), host).unwrap_err();
        eventually("it is gone", || self.served.running.counts().total.open == 0);
        (error, self.reports.take())
    }
}

fn config_for(secured: &Secured, host: &str) -> Arc<ServerConfig> {
    let key = certified(&secured.authority.issue(&[host]), &default_provider());
    let mut config = config(default_provider(), SingleCertAndKey::from(key));
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"other/1".to_vec()];
    config.max_early_data_size = 1 << 14;
    Arc::new(config)
}

#[test]
fn a_resolver_chooses_the_configuration_by_the_hello() {
    let resolved = Resolved::new(|secured| {
        let [theirs, other] = ["b.example", "a.example"].map(|host| config_for(secured, host));
        secured.tls.clone().config_resolver(async move |hello: ClientHello<'_>| {
            yield_now().await;
            let is_other = hello.alpn().is_some_and(|mut alpn| alpn.any(|one| one == b"other/1"));
            Ok(match hello.server_name() {
                _ if is_other => Some(other.clone()),
                Some("b.example") => Some(theirs.clone()),
                _ => None,
            })
        })
    });
    // For its own identity, this server offers HTTP/1.1 alone.
    for (host, alpn, expected) in [
        ("a.example", None, Ok("None")),
        ("a.example", Some("http/1.1"), Ok(r#"Some("http/1.1")"#)),
        ("a.example", Some("other/1"), Ok(r#"Some("other/1")"#)),
        ("a.example", Some("h2"), Err("NoApplicationProtocol")),
        ("b.example", Some("http/1.1"), Ok(r#"Some("http/1.1")"#)),
        ("b.example", Some("h2"), Err("NoApplicationProtocol")),
        ("c.example", None, Err("only valid for DnsName(\"a.example\")")),
    ] {
        let mut peer = resolved.secured.peer();
        peer.alpn_protocols = alpn.into_iter().map(Into::into).collect();
        match (greet(&resolved.served, peer, host), expected) {
            (Ok(told), Ok(expected)) => assert!(told.contains(expected), "{host} {alpn:?}: {told}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{host} {alpn:?}: {error}"),
            (found, _) => panic!("{host} {alpn:?}: {found:?} for {expected:?}"),
        }
    }
}

/// Only rustls can send an alert, so the refusal passes through it, and nothing else decides.
#[test]
fn a_resolver_refuses_a_peer_and_a_panic_of_it_costs_one_connection() {
    let resolve = |secured: &Secured| {
        secured.tls.clone().config_resolver(async |hello: ClientHello<'_>| {
            yield_now().await;
            match hello.server_name() {
                Some("b.example") => Err("no such tenant".into()),
                Some("c.example") => panic!("this panic is part of the test"),
                _ => Ok(None),
            }
        })
    };
    for _ in 0..3 {
        let resolved = Resolved::new(resolve);
        let (error, seen) = resolved.refusal("b.example");
        assert!(error.contains("AccessDenied"), "{error}");
        let expected = "the resolver of the configuration refused the peer: no such tenant";
        assert_eq!(seen, [(0, expected.into())]);
        let (_, seen) = resolved.refusal("c.example");
        assert_eq!(seen, [(0, PANICKED.into())]);
        assert!(greet(&resolved.served, resolved.secured.peer(), "a.example").is_ok());
        let errors = resolved.served.running.counts().total.errors;
        assert_eq!((errors.tls, errors.panic), (1, 1));
    }
}

/// A resolver that waits for something outside holds up its own connection alone.
#[test]
fn connections_go_on_while_a_resolver_waits() {
    let answer = Arc::new(Notify::new());
    let awaited = answer.clone();
    let resolved = Resolved::new(|secured| {
        secured.tls.clone().config_resolver(async move |hello: ClientHello<'_>| {
            if hello.server_name() == Some("b.example") {
                awaited.notified().await;
            }
            Ok(None)
        })
    });
    let Resolved { secured, served, .. } = &resolved;
    let hello = hello_for(secured.peer(), "b.example");
    let waiting = [(); 20].map(|()| {
        let mut peer = served.connect();
        peer.send(&hello);
        peer
    });
    eventually("all are there", || served.running.counts().total.open == 20);
    for _ in 0..3 {
        assert!(greet(served, secured.peer(), "a.example").is_ok());
    }
    eventually("only these are left", || served.running.counts().total.open == 20);
    answer.notify_waiters();
    // The server's own bytes follow, in which the peer is not interested.
    waiting.into_iter().for_each(|mut peer| peer.stream.read_exact(&mut [0; 64]).unwrap());
    assert_eq!(resolved.reports.take(), []);
}

/// A resolver that never answers ends with the time of the handshake, and with the server.
#[test]
fn a_resolver_that_never_answers_is_cut_off() {
    struct OnDrop(mpsc::Sender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    for (stops, expected) in [(false, 10), (true, 1)] {
        let (secured, reports) = (Secured::new(), ErrorReports::default());
        let (dropped, is_dropped) = mpsc::channel();
        let dropped = Mutex::new(dropped);
        let tls = secured.tls.clone().config_resolver(async move |_: ClientHello<'_>| {
            let _dropped = OnDrop(dropped.lock().unwrap().clone());
            pending().await
        });
        let took = paused(async {
            let service = reports.attach(Server::new()).tls(tls).service(tell);
            let ((mut near, far), start) = (duplex(1 << 16), Instant::now());
            near.write_all(&hello_for(secured.peer(), "a.example")).await.unwrap();
            let stop = async {
                yield_now().await;
                if stops {
                    service.stop();
                }
            };
            let (served, ()) = tokio::join!(service.serve_connection(far), stop);
            assert_eq!(served.is_ok(), stops, "{served:?}");
            start.elapsed()
        });
        assert_eq!((took.as_secs(), is_dropped.try_recv()), (expected, Ok(())));
        let late = (0, "the handshake took longer than 10 s".to_owned());
        assert_eq!(reports.take(), if stops { vec![] } else { vec![late] });
    }
}

#[test]
fn sessions_are_resumed_in_a_configuration_that_a_resolver_chose() {
    let resolved = Resolved::new(|secured| {
        let theirs = config_for(secured, "b.example");
        secured.tls.clone().config_resolver(async move |hello: ClientHello<'_>| {
            yield_now().await;
            Ok((hello.server_name() == Some("b.example")).then(|| theirs.clone()))
        })
    });
    for (version, host) in
        [(&TLS13, "a.example"), (&TLS12, "a.example"), (&TLS13, "b.example"), (&TLS12, "b.example")]
    {
        let mut peer = resolved.secured.peer_of(&[version], None);
        peer.enable_early_data = true;
        let peer = Arc::new(peer);
        for is_resumed in [false, true, true] {
            let mut connection = connect_to(&resolved.served, peer.clone(), host);
            // Early data is not accepted, whichever configuration offers it.
            assert!(connection.conn.early_data().is_none());
            assert!(exchange(&mut connection).is_ok());
            let kind = if is_resumed { HandshakeKind::Resumed } else { HandshakeKind::Full };
            assert_eq!(connection.conn.handshake_kind(), Some(kind), "{host} {version:?}");
        }
    }
}

/// A resolver stays, and the configuration beside it is replaced.
#[test]
fn the_configuration_beside_a_resolver_is_replaced() {
    let (mut identities, mut configs) = (None, None);
    let with_identities = Resolved::new(|secured| {
        identities.insert(secured.tls.clone().config_resolver(async |_: ClientHello<'_>| Ok(None))).clone()
    });
    let with_configs = Resolved::new(|secured| {
        let tls = ServerTls::from_config(config_for(secured, "a.example"));
        configs.insert(tls.config_resolver(async |_: ClientHello<'_>| Ok(None))).clone()
    });
    for Resolved { secured, served, .. } in [&with_identities, &with_configs] {
        assert!(greet(served, secured.peer(), "a.example").is_ok());
    }
    let renewed = identity(&with_identities.secured.authority.issue(&["b.example"]));
    identities.unwrap().replace_identities([renewed]).unwrap();
    configs.unwrap().replace_config(config_for(&with_configs.secured, "b.example"));
    for Resolved { secured, served, .. } in [&with_identities, &with_configs] {
        assert!(greet(served, secured.peer(), "b.example").is_ok());
        greet(served, secured.peer(), "a.example").unwrap_err();
    }
}

#[test]
fn a_configuration_is_replaced_while_the_server_runs() {
    let secured = Secured::new();
    let config = |host: &str| {
        let key = certified(&secured.authority.issue(&[host]), &default_provider());
        config(default_provider(), SingleCertAndKey::from(key))
    };
    let tls = ServerTls::from_config(config("a.example"));
    let served = Served::with(|server| server.tls(tls.clone()), tell);
    assert!(greet(&served, secured.peer(), "a.example").is_ok());
    greet(&served, secured.peer(), "b.example").unwrap_err();
    let refused = tls.replace_identities([identity(&secured.authority.issue(&["b.example"]))]);
    assert!(matches!(refused, Err(tls::ConfigError::WholeConfig)), "{refused:?}");
    greet(&served, secured.peer(), "b.example").unwrap_err();
    tls.replace_config(config("b.example"));
    assert!(greet(&served, secured.peer(), "b.example").is_ok());
    greet(&served, secured.peer(), "a.example").unwrap_err();
}

/// A request in early data would be lost, since it is not read, or done twice, since it can be replayed (RFC 8446 §8).
#[test]
fn early_data_is_not_accepted_rfc8446_2_3() {
    let secured = Secured::new();
    let key = certified(&secured.authority.issue(&["a.example"]), &default_provider());
    let mut config = config(default_provider(), SingleCertAndKey::from(key));
    config.max_early_data_size = 1 << 14;
    let served = Served::with(|server| server.tls(ServerTls::from_config(config)), tell);
    let mut peer = secured.peer_of(&[&TLS13], None);
    peer.enable_early_data = true;
    let peer = Arc::new(peer);
    for _ in 0..2 {
        let mut connection = connect_to(&served, peer.clone(), "a.example");
        assert!(connection.conn.early_data().is_none());
        assert!(exchange(&mut connection).is_ok());
    }
}

#[test]
fn a_provider_sets_the_suites_of_both_sides() {
    let secured = Secured::new();
    let provider = CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::SECP256R1],
        ..default_provider()
    };
    let serving = secured.tls.clone().provider(provider.clone()).unwrap();
    let expected = r#"("TLS13_AES_128_GCM_SHA256", Some("secp256r1"), None, 0)"#;
    let served = Served::with(|server| server.tls(serving.clone()), tell);
    // Sessions are resumed without tickets, too.
    let peer = secured.peer();
    for _ in 0..2 {
        assert_eq!(greet(&served, peer.clone(), "a.example").unwrap(), expected);
    }
    let plain = InMemory::new(secured.tls.clone());
    let asking = ClientTls::new().roots(roots(&secured.authority)).provider(provider).unwrap();
    assert!(plain.ask(&Client::builder().tls(asking)).unwrap().starts_with(r#"("TLS13_AES_128_GCM_SHA256""#));
}

#[test]
fn a_provider_without_tls_1_3_is_refused() {
    let secured = Secured::new();
    let mut old = default_provider();
    old.cipher_suites.retain(|suite| suite.tls13().is_none());
    let lame = CryptoProvider { kx_groups: Vec::new(), ..default_provider() };
    for provider in [old, lame] {
        let refused = secured.tls.clone().provider(provider.clone()).unwrap_err();
        assert!(matches!(refused, tls::ConfigError::Provider(_)), "{refused:?}");
        assert!(matches!(ClientTls::new().provider(provider), Err(tls::ConfigError::Provider(_))));
    }
}

#[test]
fn a_certified_key_is_checked() {
    let authority = Authority::new("ours");
    let (one, other) = (authority.issue(&["a.example"]), authority.issue(&["a.example"]));
    let [one, other] = [one, other].map(|issued| certified(&issued, &default_provider()));
    assert_eq!(tls::Identity::from_certified_key(one.clone()).unwrap().names(), ["a.example"]);
    for (chain, expected) in [
        (other.cert.clone(), "Key(\"it belongs to another certificate\")"),
        (Vec::new(), "NoCertificate"),
        (vec![vec![1, 2, 3].into()], "Certificate("),
    ] {
        let refused =
            tls::Identity::from_certified_key(CertifiedKey::new(chain, one.key.clone())).unwrap_err();
        assert!(format!("{refused:?}").starts_with(expected), "{refused:?}");
    }
}

/// Revoked certificates of clients, which are replaced while the server runs.
#[test]
fn a_client_whose_certificate_is_revoked_is_refused_rfc5280_5() {
    let (secured, theirs) = (Secured::new(), Authority::new("theirs"));
    let key = certified(&secured.authority.issue(&["a.example"]), &default_provider());
    let config = |revoked: &[u64]| {
        let provider = Arc::new(default_provider());
        let mut trusted = RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(theirs.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), provider.clone())
            .with_crls([theirs.revoke(revoked).into()])
            .build();
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone())))
    };
    let tls = ServerTls::from_config(config(&[]));
    let served = Served::with(|server| server.tls(tls.clone()), tell);
    let clients = [1, 2].map(|serial| theirs.issue_numbered(&["me"], serial));
    let greets = |issued| {
        [&TLS13, &TLS12]
            .map(|version| greet(&served, secured.peer_of(&[version], Some(issued)), "a.example").is_ok())
    };
    assert_eq!(clients.each_ref().map(greets), [[true; 2]; 2]);
    tls.replace_config(config(&[2]));
    assert_eq!(clients.each_ref().map(greets), [[true; 2], [false; 2]]);
    tls.replace_config(config(&[1, 2]));
    assert_eq!(clients.each_ref().map(greets), [[false; 2]; 2]);
}

#[test]
fn a_server_whose_certificate_is_revoked_is_refused_rfc5280_5() {
    let authority = Authority::new("ours");
    let server = InMemory::new(ServerTls::new(identity(&authority.issue_numbered(&["a.example"], 7))));
    let config = |revoked: &[u64]| {
        let provider = Arc::new(default_provider());
        let mut trusted = RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider.clone())
            .with_crls([authority.revoke(revoked).into()])
            .build();
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_webpki_verifier(verifier.unwrap())
            .with_no_client_auth()
    };
    let tls = ClientTls::from_config(config(&[6]));
    let client = Client::builder().tls(tls.clone());
    assert!(server.ask(&client).is_ok());
    tls.replace_config(config(&[7]));
    let error = format!("{:#}", server.ask(&client).unwrap_err());
    assert!(error.to_lowercase().contains("revoked"), "{error}");
    tls.replace_config(config(&[]));
    assert!(server.ask(&client).is_ok());
}

/// Tickets under a key that several processes share (RFC 5077 §4).
struct SharedTickets(LessSafeKey);

impl SharedTickets {
    const NONCE_LEN: usize = 12;

    fn new(secret: [u8; 32]) -> Arc<SharedTickets> {
        Arc::new(SharedTickets(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &secret).unwrap())))
    }
}

impl fmt::Debug for SharedTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTickets")
    }
}

impl ProducesTickets for SharedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3600
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; SharedTickets::NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = ticket.split_first_chunk::<{ SharedTickets::NONCE_LEN }>()?;
        let mut sealed = sealed.to_vec();
        let opened = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut sealed);
        Some(opened.ok()?.to_vec())
    }
}

/// As the processes of a fleet behind one balancer do: a client comes to one, and then to another.
#[test]
fn a_session_is_resumed_by_another_server_that_shares_its_tickets_rfc8446_2_2() {
    let secured = Secured::new();
    let key = certified(&secured.authority.issue(&["a.example"]), &default_provider());
    let resumed = |ctx: &mut Context| ctx.response.set_text(ctx.tls().unwrap().resumed.to_string());
    let serve = |secret| {
        let mut config = config(default_provider(), SingleCertAndKey::from(key.clone()));
        config.ticketer = SharedTickets::new([secret; 32]);
        Served::with(|server| server.tls(ServerTls::from_config(config)), resumed)
    };
    let (one, other, stranger) = (serve(1), serve(1), serve(2));
    for version in [&TLS13, &TLS12] {
        let peer = Arc::new(secured.peer_of(&[version], None));
        let resumes = |served| exchange(&mut connect_to(served, peer.clone(), "a.example"));
        let found = [&one, &one, &other, &stranger].map(resumes);
        assert_eq!(
            found,
            ["false", "true", "true", "false"].map(|found| Ok(found.to_owned())),
            "{version:?}"
        );
    }
}

/// Peers would refuse such a certificate, each of them, and only they would say so.
#[test]
fn a_server_does_not_start_with_a_certificate_that_is_not_valid_rfc5280_4_1_2_5() {
    let authority = Authority::new("ours");
    let issued = |hosts: &[&str], from, until| identity(&authority.issue_for_years(hosts, from, until));
    let (good, other) = (issued(&["a.example"], 2000, 2100), issued(&["b.example"], 2000, 2100));
    let (expired, early) = (issued(&["b.example"], 2000, 2010), issued(&["c.example"], 2100, 2101));
    let nameless = issued(&[], 2000, 2010);
    let of_expired = "the certificate for b.example expired on Fri, 01 Jan 2010 00:00:00 GMT";
    let of_early = "the certificate for c.example is not valid before Fri, 01 Jan 2100 00:00:00 GMT";
    let of_nameless = "the certificate expired on Fri, 01 Jan 2010 00:00:00 GMT";
    for (identities, expected) in [
        (vec![&good, &other], None),
        (vec![&expired], Some(of_expired)),
        (vec![&good, &other, &expired], Some(of_expired)),
        (vec![&good, &early], Some(of_early)),
        (vec![&nameless], Some(of_nameless)),
    ] {
        let tls = |first: &tls::Identity| {
            identities[1..]
                .iter()
                .fold(ServerTls::new(first.clone()), |tls, &more| tls.and_identity(more.clone()))
        };
        let starts: [fn(ServerTls) -> Server; 2] = [
            |tls| Server::bind("127.0.0.1:0").tls(tls),
            |tls| Server::bind("127.0.0.1:0").and_bind_tls("127.0.0.1:0", tls),
        ];
        for start in starts {
            let server = start(tls(identities[0])).cores(1);
            let failed = server.start(tell).map(drop).map_err(|error| format!("{error:#}"));
            assert_eq!(failed, expected.map_or(Ok(()), |text| Err(text.to_owned())));
            start(tls(identities[0]).check_dates(false)).cores(1).start(tell).map(drop).unwrap();
        }
        let handle = ServerTls::new(good.clone());
        let replaced = handle.replace_identities(identities.iter().copied().cloned());
        assert_eq!(
            replaced.map_err(|error| error.to_string()),
            expected.map_or(Ok(()), |text| Err(text.to_owned()))
        );
        let unchecked = ServerTls::new(good.clone()).check_dates(false);
        unchecked.replace_identities(identities.iter().copied().cloned()).unwrap();
        let first_to_expire = identities.iter().map(|identity| identity.not_after()).min();
        assert_eq!(unchecked.not_after(), first_to_expire);
        let kept = if expected.is_none() { first_to_expire } else { Some(good.not_after()) };
        assert_eq!(handle.not_after(), kept, "all are replaced, or none");
    }
    assert!(expired.not_before() == good.not_before() && expired.not_after() < early.not_before());
}

/// The verifier of Linux trusts the authorities in the file that `SSL_CERT_FILE` names.
#[cfg(all(feature = "platform-verifier", target_os = "linux"))]
#[test]
fn a_host_that_the_platform_accepts_is_accepted() {
    const NAME: &str = "protocol::tls_config::a_host_that_the_platform_accepts_is_accepted";
    const FOLDER: &str = "COREHTTP_TEST_PLATFORM";
    let ask = |path: &Path| {
        let identity = tls::Identity::from_files(path.join("chain"), path.join("key")).unwrap();
        let server = InMemory::new(ServerTls::new(identity));
        server.ask(&Client::builder().tls(ClientTls::from_platform_verifier().unwrap()))
    };
    if let Some(path) = std::env::var_os(FOLDER) {
        let told = ask(Path::new(&path)).unwrap();
        return assert!(told.ends_with("0)"), "{told}");
    }
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let issued = authority.issue_for_years(&["a.example"], 2026, 2027);
    for (name, text) in [("chain", &issued.chain), ("key", &issued.key), ("roots", &authority.pem())] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    // Where the system has authorities, ours is none of them.
    if tls::Roots::from_platform().is_ok() {
        ask(folder.path()).unwrap_err();
    }
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    own.args([NAME, "--exact", "--nocapture"]).env(FOLDER, folder.path());
    let ran = own.env("SSL_CERT_FILE", folder.path().join("roots")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// A server in memory, which tells the session.
struct InMemory {
    listener: MemoryListener,
    running: ServerHandle,
}

impl InMemory {
    fn new(tls: ServerTls) -> InMemory {
        let listener = MemoryListener::new();
        let running = Server::bind(listener.clone()).cores(1).tls(tls).start(tell).unwrap();
        InMemory { listener, running }
    }

    /// Asks on a new connection.
    fn ask(&self, builder: &ClientBuilder) -> Result<String, ClientError> {
        let client = builder.clone().connect_to(&self.listener).build();
        block_on(async { Ok(client.get("https://a.example/").await?.text().unwrap().to_owned()) }).unwrap()
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.running.stop(Duration::ZERO);
    }
}

fn roots(authority: &Authority) -> tls::Roots {
    tls::Roots::from_pem(authority.pem()).unwrap()
}

#[test]
fn roots_and_certificates_of_a_client_are_replaced_while_it_runs() {
    let (secured, theirs) = (Secured::new(), Authority::new("theirs"));
    let server = InMemory::new(secured.tls.clone().client_auth_optional(roots(&theirs)));
    let tls = ClientTls::new().roots(roots(&theirs));
    let client = Client::builder().tls(tls.clone());
    server.ask(&client).unwrap_err();
    tls.replace_roots(roots(&secured.authority));
    assert!(server.ask(&client).unwrap().ends_with("0)"));
    tls.replace_identity(identity(&theirs.issue(&["me"])));
    assert!(server.ask(&client).unwrap().ends_with("1)"));
    tls.replace_identity(None);
    assert!(server.ask(&client).unwrap().ends_with("0)"));
    tls.replace_roots(roots(&theirs));
    server.ask(&client).unwrap_err();
}

#[test]
fn a_configuration_of_a_client_is_replaced_while_it_runs() {
    let secured = Secured::new();
    let server = InMemory::new(secured.tls.clone());
    let config = |alpn: &[&str]| {
        let mut config = secured.peer();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    };
    let distrusting = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let tls = ClientTls::from_config(distrusting);
    let client = Client::builder().tls(tls.clone());
    server.ask(&client).unwrap_err();
    // The roots are those of the configuration.
    tls.replace_roots(roots(&secured.authority));
    server.ask(&client).unwrap_err();
    for (alpn, expected) in [(&[][..], "None"), (&["http/1.1"], "Some(\"http/1.1\")")] {
        tls.replace_config(config(alpn));
        let told = server.ask(&client).unwrap();
        assert!(told.contains(&format!("{expected}, 0")), "{told}");
    }
}

/// One server, with an address in the clear and two with TLS of their own.
#[test]
fn a_server_listens_in_the_clear_and_over_tls_at_once() {
    for balanced in [false, true] {
        let (ours, theirs) = (Secured::new(), Secured::new());
        let app = |ctx: &mut Context| ctx.response.set_text("securely");
        let running = Server::bind("127.0.0.1:0")
            .and_bind_tls("127.0.0.1:0", ours.tls.clone())
            .and_bind_tls("127.0.0.1:0", theirs.tls.clone())
            .cores(2)
            .balanced(balanced)
            .start(wrap(HttpsRedirect::new(), app));
        let served = Served { running: running.unwrap() };
        let [plain, first, second] = [0, 1, 2].map(|index| match served.running.addresses()[index] {
            Address::Tcp(address) => address,
            _ => unreachable!("all are TCP"),
        });
        let shown = format!("http://{plain}, https://{first}, https://{second}");
        assert_eq!(served.running.to_string(), shown);
        for _ in 0..8 {
            let redirected = ask_plainly(plain);
            assert!(redirected.contains("location: https://a.example/\r\n"), "{redirected}");
            for (address, trusting, expected) in
                [(first, &ours, true), (second, &theirs, true), (first, &theirs, false)]
            {
                let told = exchange(&mut connect_at(address, trusting.peer(), "a.example"));
                assert_eq!(told.is_ok_and(|text| text == "securely"), expected);
            }
            // Plain HTTP on an address with TLS is answered as before.
            assert_eq!(status(&ask_plainly(first)), 400);
        }
        eventually("all are closed", || served.running.counts().total.open == 0);
        let counts = served.running.counts().total;
        assert_eq!((counts.accepted, counts.requests, counts.errors.tls), (40, 24, 16), "{counts:?}");
    }
}

fn ask_plainly(address: SocketAddr) -> String {
    let mut peer = Peer::new(TcpStream::connect(address).unwrap());
    peer.send(LAST);
    peer.receive_all()
}

/// `Server::tls` is for the addresses without TLS of their own.
#[test]
fn an_address_keeps_its_own_tls() {
    let (ours, theirs) = (Secured::new(), Secured::new());
    let running = Server::bind("127.0.0.1:0")
        .and_bind_tls("127.0.0.1:0", theirs.tls.clone())
        .tls(ours.tls.clone())
        .start(tell);
    let served = Served { running: running.unwrap() };
    for (index, trusting) in [(0, &ours), (1, &theirs)] {
        let Address::Tcp(address) = served.running.addresses()[index] else { unreachable!("it is TCP") };
        assert!(exchange(&mut connect_at(address, trusting.peer(), "a.example")).is_ok());
    }
}

#[test]
fn a_redirect_to_https_keeps_path_query_and_method() {
    let app = |ctx: &mut Context| ctx.response.set_text("securely");
    let service = |redirect: HttpsRedirect| Server::new().service(wrap(redirect, app));
    for (redirect, target, host, expected) in [
        (HttpsRedirect::new(), "/a%20b?c=%0d", "example.com", Some("https://example.com/a%20b?c=%0d")),
        (HttpsRedirect::new(), "http://[::1]:8080/a?b", "[::1]:8080", Some("https://[::1]/a?b")),
        (HttpsRedirect::new().port(8443), "/", "example.com:80", Some("https://example.com:8443/")),
        (HttpsRedirect::new(), "/", "", None),
    ] {
        let mut request = Request::post(target).unwrap();
        request.headers.set("host", host).unwrap();
        let response = block_on(service(redirect).respond(request)).unwrap();
        let status = if expected.is_some() { 308 } else { 400 };
        assert_eq!((response.status.as_u16(), response.headers.get("location")), (status, expected));
    }
}

/// The field is for proxies, and a redirect is none of them.
#[test]
fn a_redirect_to_https_does_not_count_as_a_forward_rfc9110_7_6_2() {
    let served = Served::new(wrap(HttpsRedirect::new(), |_: &mut Context| -> () {
        unreachable!("it came in the clear")
    }));
    for method in ["OPTIONS", "TRACE", "GET"] {
        for value in ["0", "x", "1"] {
            let received =
                served.ask(format!("{method} /a HTTP/1.1\r\nhost: a\r\nmax-forwards: {value}\r\n\r\n"));
            assert_eq!(status(&received), 308, "{received}");
            assert!(received.contains("\r\nlocation: https://a/a\r\n"), "{received}");
        }
    }
}

#[test]
fn a_host_that_is_not_allowed_is_misdirected_rfc9110_7_4() {
    let app = |ctx: &mut Context| ctx.response.set_text("securely");
    let allowed = HttpsRedirect::new().allowed_hosts(["example.com", "*.example.com"]).unwrap();
    let none = HttpsRedirect::new().allowed_hosts::<&str>([]).unwrap();
    for (redirect, target, host, expected) in [
        (&allowed, "/a", "example.com", (308, Some("https://example.com/a"))),
        (&allowed, "/a", "EXAMPLE.com:80", (308, Some("https://example.com/a"))),
        (&allowed, "/", "a.example.com", (308, Some("https://a.example.com/"))),
        (&allowed, "/", "evil.example", (421, None)),
        (&allowed, "/", "example.com.evil.example", (421, None)),
        (&allowed, "/", "192.0.2.1", (421, None)),
        // The target has the host that counts (RFC 9112 §3.2.2).
        (&allowed, "http://evil.example/", "evil.example", (421, None)),
        (&allowed, "/", "", (400, None)),
        (&none, "/", "example.com", (421, None)),
    ] {
        let service = Server::new().service(wrap(redirect.clone(), app));
        // A body is not received either.
        let mut request = Request::post(target).unwrap();
        request.headers.set("host", host).unwrap();
        request.set_text("form");
        let response = block_on(service.respond(request)).unwrap();
        assert_eq!((response.status.as_u16(), response.headers.get("location")), expected, "{target} {host}");
    }
}

/// Code that reads the field would otherwise see a host that is not allowed.
#[test]
fn the_host_of_a_target_replaces_the_field_rfc9112_3_2_2() {
    let app = |ctx: &mut Context| {
        let hosts: Vec<_> = ctx.request.headers.all("host").map(String::from_utf8_lossy).collect();
        let text = format!("{hosts:?}");
        ctx.response.set_text(text);
    };
    let loopback = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let proxies = loopback.headers([ForwardedHeader::XForwardedProto]);
    let redirect = HttpsRedirect::new().allowed_hosts(["good.example"]).unwrap();
    let served = Served::with(|server| server.trusted_proxies(proxies), wrap(redirect, app));
    for (target, host, expected) in [
        ("http://good.example/", "evil.example", "[\"good.example\"]"),
        ("http://good.example:80/", "good.example", "[\"good.example:80\"]"),
        ("http://good.example/", "", "[\"good.example\"]"),
        ("http://good.example/", "good.example", "[\"good.example\"]"),
        ("/", "good.example", "[\"good.example\"]"),
        ("http://evil.example/", "good.example", "Misdirected Request"),
    ] {
        let lines = format!("Host: {host}\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n");
        let answer = served.ask(format!("GET {target} HTTP/1.1\r\n{lines}\r\n"));
        assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{target} {host}: {answer}");
    }
}

#[test]
fn hsts_is_sent_over_tls_alone_rfc6797_7() {
    let loopback = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let proxies = loopback.headers([ForwardedHeader::XForwardedProto]);
    let app = |ctx: &mut Context| match ctx.request.path() {
        "/fails" => Err(corehttp::Error::other("it fails")),
        "/sets" => Ok(ctx.response.headers.set("strict-transport-security", "max-age=7")?),
        _ => {
            ctx.response.set_text("securely");
            Ok(())
        }
    };
    let redirect = HttpsRedirect::new().allowed_hosts(["a"]).unwrap();
    let hsts = Hsts::new(Duration::from_secs(9)).include_subdomains();
    let served = Served::with(|server| server.trusted_proxies(proxies), wrap((hsts, redirect), app));
    for (proto, host, path, status, expected) in [
        ("https", "a", "/", 200, Some("max-age=9; includeSubDomains")),
        ("https", "a", "/fails", 500, Some("max-age=9; includeSubDomains")),
        ("https", "b", "/", 421, Some("max-age=9; includeSubDomains")),
        ("https", "a", "/sets", 200, Some("max-age=7")),
        ("http", "a", "/", 308, None),
        ("http", "b", "/", 421, None),
    ] {
        let received =
            served.ask(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nx-forwarded-proto: {proto}\r\n\r\n"));
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
        let values: Vec<_> =
            received.lines().filter_map(|line| line.strip_prefix("strict-transport-security: ")).collect();
        assert_eq!(values, Vec::from_iter(expected), "{proto} {path}: {received}");
    }
}

/// Browsers take the first of several (RFC 6797 §8.1), and a server behind knows less of the host than that in front.
#[test]
fn hsts_is_one_field_rfc6797_6_1() {
    let behind = MemoryListener::new();
    let sets = |ctx: &mut Context| -> corehttp::Result {
        Ok(ctx.response.headers.set("strict-transport-security", "max-age=0")?)
    };
    let sets = Server::bind(&behind).cores(1).start(sets).unwrap();
    let host = Client::builder().connect_to(&behind).build().host("http://behind").unwrap();
    let passes = async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to("/")?;
        ctx.forward(host.open_call(&onward)).await
    };
    check_hsts(passes, "max-age=9");
    sets.stop(Duration::ZERO);

    #[cfg(feature = "tower")]
    check_hsts(
        corehttp::tower::Tower::new(tower::service_fn(async |_| {
            let response = http::Response::builder().header("strict-transport-security", "max-age=7");
            response.body(String::new()).map_err(std::io::Error::other)
        })),
        "max-age=7",
    );
}

#[track_caller]
fn check_hsts<Kind, H>(app: H, expected: &str)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    let loopback = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let proxies = loopback.headers([ForwardedHeader::XForwardedProto]);
    let hsts = Hsts::new(Duration::from_secs(9));
    let served = Served::with(|server| server.trusted_proxies(proxies), wrap(hsts, app));
    let received = served.ask("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: https\r\n\r\n");
    let values = received.lines().filter_map(|line| line.strip_prefix("strict-transport-security: "));
    assert_eq!(Vec::from_iter(values), [expected], "{received}");
}

#[test]
fn a_redirect_to_https_escapes_what_no_uri_has_rfc9110_10_2_2() {
    let app = |ctx: &mut Context| ctx.response.set_text("securely");
    let received =
        Served::new(wrap(HttpsRedirect::new(), app)).ask("GET /café?|\\ HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(received.contains("\r\nlocation: https://a/caf%C3%A9?%7C%5C\r\n"), "{received}");
}

#[test]
fn behind_a_proxy_the_scheme_of_the_client_counts() {
    let app = |ctx: &mut Context| ctx.response.set_text("securely");
    let loopback = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let fields = [ForwardedHeader::XForwardedProto, ForwardedHeader::XForwardedHost];
    let trusted = loopback.headers(fields);
    for (proxies, proto, expected) in [
        (trusted.clone(), "https", "securely"),
        (trusted.clone(), "http", "location: https://example.com/"),
        (trusted, "junk", "location: https://example.com/"),
        (TrustedProxies::default(), "https", "location: https://inner/"),
    ] {
        let set = |server: Server| server.trusted_proxies(proxies);
        let served = Served::with(set, wrap(HttpsRedirect::new(), app));
        let received = served.ask(format!(
            "GET / HTTP/1.1\r\nhost: inner\r\nx-forwarded-proto: {proto}\r\nx-forwarded-host: example.com:80\r\n\r\n"
        ));
        assert!(received.contains(expected), "{proto}: {received}");
    }
}

/// After the handshake by which an authority validates a name, no request is answered (RFC 8737 §3).
#[test]
fn a_connection_of_a_validation_is_closed_rfc8737_3() {
    let secured = Secured::new();
    let provider = default_provider();
    let key = certified(&secured.authority.issue(&["a.example"]), &provider);
    let mut config = config(provider, SingleCertAndKey::from(key));
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"acme-tls/1".to_vec()];
    let served = Served::with(|server| server.tls(ServerTls::from_config(config)), tell);
    for (alpn, is_answered) in [("http/1.1", true), ("acme-tls/1", false)] {
        let mut peer = secured.peer();
        peer.alpn_protocols = vec![alpn.into()];
        assert_eq!(greet(&served, peer, "a.example").is_ok(), is_answered, "{alpn}");
    }
    eventually("it is gone", || served.running.counts().total.open == 0);
}
