//! [`Stream`]: a connection that does not block, in the clear or over TLS.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(super) enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn from_plain(stream: std::net::TcpStream) -> io::Result<Stream> {
        stream.set_nonblocking(true)?;
        Ok(Stream::Plain(TcpStream::from_std(stream)))
    }

    /// Connects without waiting.
    pub(super) fn begin(address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Stream::Plain(stream))
    }

    pub(super) fn register(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        let socket = match self {
            Stream::Plain(stream) => stream,
            Stream::Secure(stream) => &mut stream.sock,
        };
        socket.register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Is there an event after a read that was not full? A record of TLS may be read before it is asked for.
    pub(super) fn says_when_there_is_more(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }
}

impl Read for Stream {
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(input),
            Stream::Secure(stream) => stream.read(input),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(output),
            Stream::Secure(stream) => stream.write(output),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Secure(stream) => stream.flush(),
        }
    }
}

/// A client of TLS that trusts one certificate, and speaks HTTP/1.1.
#[derive(Clone)]
pub(crate) struct Secure(Arc<ClientConfig>);

impl Secure {
    pub(crate) fn new(certificate: CertificateDer<'static>) -> io::Result<Secure> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Secure(Arc::new(config)))
    }

    /// Waits for the handshake. The peer must have chosen HTTP/1.1.
    pub(crate) fn connect(
        &self,
        mut stream: std::net::TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, std::net::TcpStream>> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut client = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        while client.is_handshaking() {
            client.complete_io(&mut stream)?;
        }
        match client.alpn_protocol() {
            Some(b"http/1.1") => Ok(StreamOwned::new(client, stream)),
            _ => Err(io::Error::other("http/1.1 was not chosen by ALPN")),
        }
    }

    pub(super) fn shake_hands(&self, stream: std::net::TcpStream) -> io::Result<Stream> {
        let StreamOwned { conn, sock } = self.connect(stream)?;
        sock.set_nonblocking(true)?;
        Ok(Stream::Secure(Box::new(StreamOwned::new(conn, TcpStream::from_std(sock)))))
    }
}

/// Waits for the upgrade (RFC 6455 §4.1).
pub(super) fn open_websocket(mut stream: std::net::TcpStream, path: &str) -> io::Result<Stream> {
    stream.write_all(upgrade(path).as_bytes())?;
    let mut head = Vec::new();
    // One octet at a time: what follows belongs to the first frame.
    while !head.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        stream.read_exact(&mut octet)?;
        head.push(octet[0]);
    }
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(format!("no upgrade: {}", head.escape_ascii())));
    }
    Stream::from_plain(stream)
}

/// The key is that of RFC 6455 §1.3.
pub(crate) fn upgrade(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}
