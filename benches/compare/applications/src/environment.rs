//! Where things are.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::items::Item;

pub(crate) fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

pub(crate) fn port(name: &str, default: u16) -> u16 {
    env::var(name).ok().and_then(|port| port.parse().ok()).unwrap_or(default)
}

pub(crate) fn static_folder() -> PathBuf {
    Path::new(&variable("DATA", "/data")).join("static")
}

pub(crate) fn dataset() -> io::Result<Arc<Vec<Item>>> {
    let text = fs::read_to_string(Path::new(&variable("DATA", "/data")).join("dataset.json"))?;
    Ok(Arc::new(serde_json::from_str(&text)?))
}

/// A configuration that speaks HTTP/1.1.
pub(crate) fn tls() -> io::Result<ServerConfig> {
    let certs = variable("CERTS", "/certs");
    let chain =
        CertificateDer::pem_file_iter(Path::new(&certs).join("server.crt")).map_err(io::Error::other)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(Path::new(&certs).join("server.key")).map_err(io::Error::other)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
