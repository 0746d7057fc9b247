//! Over TLS: `cargo run --release --example tls -- [ADDR] [CHAIN KEY]`, then
//! `curl --cacert /tmp/corehttp-example.pem https://localhost:8443/`.
//!
//! Listens on 127.0.0.1:8443. Without files of a certificate and its key it makes a certificate for `localhost` on the
//! spot, writes it where curl finds it, and asks itself once, trusting that certificate and no other. Files, such as
//! those of certbot, are read again each minute. Ctrl-C lets requests in flight finish.

use std::env;
use std::fs;
use std::thread;
use std::time::Duration;

use corehttp::server::ErrorLog;
use corehttp::tls::{self, ClientTls, ServerTls};
use corehttp::{Client, Context, Server, shutdown_signal};

fn main() -> corehttp::Result {
    let args: Vec<String> = env::args().skip(1).collect();
    let address = args.first().map_or("127.0.0.1:8443", String::as_str);
    let (tls, own) = match args.get(1..) {
        Some([chain, key]) => (from_files(chain.clone(), key.clone())?, None),
        _ => self_signed().map(|(identity, roots)| (ServerTls::new(identity), Some(roots)))?,
    };
    let running = Server::bind(address)
        .tls(tls)
        .observe(ErrorLog::stderr())
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .start(greet)?;
    println!("listening on {running}");
    if let Some(roots) = own {
        fetch(roots, &format!("https://localhost:{}/", running.local_addr().port()))?;
    }
    running.wait()
}

fn greet(ctx: &mut Context) {
    let version = ctx.tls().map(|tls| tls.version.as_str()).unwrap_or_default();
    ctx.response.set_text(format!("Hello! Nobody has read this on its way: {version}\n"));
}

/// TLS with the certificate and the key in these files, which are read again each minute.
fn from_files(chain: String, key: String) -> corehttp::Result<ServerTls> {
    let tls = ServerTls::new(tls::Identity::from_files(&chain, &key)?);
    let handle = tls.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(60));
            // They may be half written; in a minute they will be whole.
            let replaced = tls::Identity::from_files(&chain, &key)
                .and_then(|identity| handle.replace_identities([identity]));
            if let Err(error) = replaced {
                eprintln!("still the old certificate: {error:#}");
            }
        }
    });
    Ok(tls)
}

/// A self-signed certificate, and the roots for a client that trusts it alone.
fn self_signed() -> corehttp::Result<(tls::Identity, tls::Roots)> {
    let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
    let made = rcgen::generate_simple_self_signed(names)?;
    let path = env::temp_dir().join("corehttp-example.pem");
    fs::write(&path, made.cert.pem())?;
    println!("the certificate is in {}", path.display());
    let identity = tls::Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem())?;
    Ok((identity, tls::Roots::from_pem(made.cert.pem())?))
}

/// Sends a request to `url`, trusting these roots alone.
fn fetch(roots: tls::Roots, url: &str) -> corehttp::Result {
    let client = Client::builder().tls(ClientTls::new().roots(roots)).build();
    let response = corehttp::block_on(client.get(url))??;
    println!("the response: {}", response.text()?);
    Ok(())
}
