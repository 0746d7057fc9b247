//! Question: what does an idle connection over TLS hold, on a server?
//!
//! The server is a process of its own, so what it holds is what the kernel says it has resident. 2,000 connections have
//! one request answered each and then stay open. hyper stands on tokio-rustls as corehttp does.
//!
//! ```text
//! cargo bench --bench tls              # about 20 seconds
//! cargo bench --bench tls -- corehttp  # corehttp only
//! ```

#[allow(dead_code, reason = "loopback.rs alone asks for time and pins cores")]
#[path = "support/child.rs"]
mod child;
#[allow(dead_code, reason = "one application is enough")]
#[path = "support/handlers.rs"]
mod handlers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use corehttp::{
    Client, ClientTls, Request, Response, ResponseReader, Server, ServerTls, TlsIdentity, block_on,
};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use child::{Child, announce};
use handlers::{HELLO, SERVER_NAME, hyper_builder, hyper_respond, respond};

fn main() {
    rlimit::increase_nofile_limit(FILES).expect("the limit may be asked for");
    match child::server().as_deref() {
        None if child::wanted() => child::chosen([COREHTTP, HYPER]).into_iter().for_each(measure),
        None => {}
        Some(COREHTTP) => serve_corehttp(),
        Some(HYPER) => serve_hyper(),
        Some(unknown) => panic!("no server is called {unknown}"),
    }
}

const COREHTTP: &str = "corehttp";
const HYPER: &str = "hyper";

const CONNECTIONS: usize = 2_000;
/// So many connections shake hands at the same time.
const BATCH: usize = 100;
const FILES: u64 = (CONNECTIONS + BATCH) as u64 + 200;
/// Caches have emptied by then, and no idle timeout has come.
const SETTLE: Duration = Duration::from_secs(3);

fn measure(name: &str) {
    let child = Child::spawn(name);
    let client = Client::builder()
        .tls(ClientTls::new().dangerous().accept_any_certificate())
        .connections_per_host_max(CONNECTIONS + BATCH)
        .idle_timeout(Duration::from_secs(600))
        .build();
    let measured = block_on(async {
        // Who has a response has a connection of its own, until its body is read.
        let mut responses = open(&client, child.address).await;
        let before = child.resident();
        while responses.len() < CONNECTIONS + BATCH {
            responses.extend(open(&client, child.address).await);
        }
        for mut response in responses {
            assert_eq!(response.chunk().await.expect("a body"), Some(HELLO.as_bytes()));
            assert_eq!(response.chunk().await.expect("its end"), None);
        }
        sleep(SETTLE);
        (child.resident().saturating_sub(before), client.idle())
    });
    let (held, idle) = measured.expect("a runtime");
    assert_eq!(idle, CONNECTIONS + BATCH, "what was measured is still there");
    println!(
        "{name}: {} bytes resident per idle connection over TLS, of {CONNECTIONS}",
        held / CONNECTIONS as u64
    );
}

/// Has one request answered on each of so many new connections.
async fn open(client: &Client, address: SocketAddr) -> Vec<ResponseReader> {
    let mut opening = JoinSet::new();
    for _ in 0..BATCH {
        let client = client.clone();
        opening.spawn(async move {
            let request = Request::get(&format!("https://{address}/")).expect("a good URL");
            client.open_response(&request, &mut Response::new()).await.expect("a response")
        });
    }
    opening.join_all().await
}

/// A certificate made on the spot, and its key, as PEM.
fn identity() -> (String, String) {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    (signed.cert.pem(), signed.signing_key.serialize_pem())
}

fn serve_corehttp() {
    let (chain, key) = identity();
    let tls = ServerTls::new(TlsIdentity::from_pem(chain, key).expect("an identity"));
    let server = Server::bind("127.0.0.1:0").cores(1).name(SERVER_NAME).tls(tls);
    let running = server.start(respond).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("corehttp serves for ever");
}

fn serve_hyper() {
    let (chain, key) = identity();
    let chain = CertificateDer::from_pem_slice(chain.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has what they need")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .expect("an identity");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.expect("a handshake");
                let connection =
                    hyper_builder().serve_connection(TokioIo::new(stream), service_fn(hyper_respond));
                // The load hangs up when it has enough: how a connection ended is no news.
                drop(connection.await);
            });
        }
    });
}
