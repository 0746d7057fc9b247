//! The cryptography of AWS-LC on both sides: post-quantum key exchange, and certificates that ring cannot verify.

use std::time::Duration;

use corehttp::net::MemoryListener;
use corehttp::tls::rustls::crypto::aws_lc_rs::default_provider;
use corehttp::tls::rustls::pki_types::pem::PemObject;
use corehttp::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use corehttp::tls::rustls::sign::CertifiedKey;
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{Client, Context, Server, block_on};

/// ECDSA on P-521 with SHA-512, for a.example, until 2126.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIICDzCCAXGgAwIBAgIULFb2RxU+1YVZsyRlLwA258khAH4wCgYIKoZIzj0EAwQw\n\
DzENMAsGA1UEAwwEcDUyMTAgFw0yNjExMjYwNTM5MTNaGA8yMTI2MTEwMjA1Mzkx\n\
M1owDzENMAsGA1UEAwwEcDUyMTCBmzAQBgcqhkjOPQIBBgUrgQQAIwOBhgAEAapd\n\
15anGKkfWb2NGIKFJO/dIOzTXljT5DW+Vloabr/RfnCCvyyLJdkW54+rv9Kyhhvu\n\
GQ7ltY6z8TyMPB6OKWsYAM4xWazlcWG7PbAHvH/Qt0fx8/Dl8em9/+MPWOJFqRbz\n\
YToAunKn1omLhLgbNIG/iBBO13DPYfrioeRrRrX1mXWzo2YwZDAdBgNVHQ4EFgQU\n\
XoTO4EtbGHZvTxANqjavGKt6xXswHwYDVR0jBBgwFoAUXoTO4EtbGHZvTxANqjav\n\
GKt6xXswFAYDVR0RBA0wC4IJYS5leGFtcGxlMAwGA1UdEwEB/wQCMAAwCgYIKoZI\n\
zj0EAwQDgYsAMIGHAkIB9Oos2X8CWF06YU5LdXj3KIsLZk1gClplzCdsLkFgdTy7\n\
Ty214MolbfRG8cr9twcEOa5y4yImUsnd3vyx4K63NFkCQUwVilcpPHSlOQ33b8mP\n\
0XC/UIUIQ7PEXL/jvi7IVhOK2SYD47tmx8wJqr3BgHj54F8P09hX4aXsclAxFrB6\n\
eYs6\n\
-----END CERTIFICATE-----";
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIA5ZfG8DGwq3xkKteq\n\
26yULbEXjrgjJ3UEbHC1ED6CVfpyPE1Y/tHY9NRBkhD08/iay7CffKYTBQdwPLRL\n\
SQKdbzyhgYkDgYYABAGqXdeWpxipH1m9jRiChSTv3SDs015Y0+Q1vlZaGm6/0X5w\n\
gr8siyXZFuePq7/SsoYb7hkO5bWOs/E8jDwejilrGADOMVms5XFhuz2wB7x/0LdH\n\
8fPw5fHpvf/jD1jiRakW82E6ALpyp9aJi4S4GzSBv4gQTtdwz2H64qHka0a19Zl1\n\
sw==\n\
-----END PRIVATE KEY-----";

#[test]
fn a_key_on_p_521_and_a_post_quantum_exchange_go_with_aws_lc() {
    let ours = tls::Identity::from_pem(CERTIFICATE, KEY);
    assert!(matches!(ours, Err(tls::ConfigError::Key(_))), "ring has no such keys: {ours:?}");
    let (chain, key) = (
        CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap(),
        PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap(),
    );
    let certified = CertifiedKey::from_der(vec![chain], key, &default_provider()).unwrap();
    let identity = tls::Identity::from_certified_key(certified).unwrap();
    let listener = MemoryListener::new();
    let tls = ServerTls::new(identity).provider(default_provider()).unwrap();
    let running = Server::bind(&listener).cores(1).tls(tls).start(|ctx: &mut Context| {
        let tls = ctx.tls().unwrap();
        ctx.response.set_text(tls.key_exchange.unwrap_or("none"));
    });
    let roots = tls::Roots::from_pem(CERTIFICATE).unwrap();
    let tls = ClientTls::new().roots(roots.clone()).provider(default_provider()).unwrap();
    let client = Client::builder().connect_to(&listener).tls(tls).build();
    let by_ring = Client::builder().connect_to(&listener).tls(ClientTls::new().roots(roots)).build();
    block_on(async {
        let response = client.get("https://a.example/").await.unwrap();
        assert_eq!(response.text().unwrap(), "X25519MLKEM768");
        by_ring.get("https://a.example/").await.unwrap_err();
    })
    .unwrap();
    running.unwrap().stop(Duration::ZERO);
}
