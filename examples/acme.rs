//! A certificate by ACME, from an authority such as Let's Encrypt (RFC 8555): obtained and renewed while the server runs, by
//! the port on which it listens (RFC 8737).
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
//! The account and the certificate are kept in the folder `acme`, for the next start.

use std::env;
use std::time::Duration;

use corehttp::acme::{Acme, LETS_ENCRYPT_STAGING};
use corehttp::server::ErrorLog;
use corehttp::tls::{ClientTls, Roots};
use corehttp::{Client, Context, Server, shutdown_signal};

fn main() -> corehttp::Result {
    let args: Vec<String> = env::args().skip(1).collect();
    let arg = |index: usize| args.get(index).map(String::as_str);
    let host = arg(0).ok_or("usage: acme HOST [ADDR [DIRECTORY [ROOTS]]]").map_err(corehttp::Error::other)?;
    let roots = arg(3).map_or(Ok(Roots::from_webpki()), Roots::from_file)?;
    let certificate = Acme::new(arg(2).unwrap_or(LETS_ENCRYPT_STAGING), [host])?
        .client(Client::builder().tls(ClientTls::new().roots(roots)).build())
        .folder("acme")
        .start()?;
    let running = Server::bind(arg(1).unwrap_or("[::]:443"))
        .tls(certificate.tls())
        .observe(ErrorLog::stderr())
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .start(|ctx: &mut Context| ctx.response.set_text("hello, by a certificate of today\n"))?;
    println!("listening on {running}");
    running.wait()
}
