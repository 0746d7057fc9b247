//! [`TlsError`]: why a connection could not be made secure (RFC 8446 §6.2).

use std::error::Error as StdError;
use std::fmt;
use std::io;

use crate::error::write_error;

/// Why a connection could not be made secure.
///
/// Details are in the error's [`source`](StdError::source).
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// The crate was built without its feature `tls`.
    Unavailable,
    /// No certificate can be issued for the host, so it could not prove its identity. Nothing was dialed.
    Host,
    /// The certificate of the peer is not trusted, or a required one is missing.
    Certificate(Box<dyn StdError + Send + Sync>),
    /// The peer ended the handshake or the connection with an alert: it did not accept this side. A server of TLS 1.3
    /// that refuses a client's certificate does so after the handshake, so that the request may have been sent.
    Refused(Box<dyn StdError + Send + Sync>),
    /// The peer began with plain text, such as HTTP without TLS. A server answers it with 400.
    PlainText,
    /// The peer does not speak TLS, broke its rules, or has no version, cipher or protocol in common with this side.
    Protocol(Box<dyn StdError + Send + Sync>),
    /// The function that chooses a server's configuration has refused the peer, which has received an alert.
    Resolver(Box<dyn StdError + Send + Sync>),
    /// A function of the application panicked in a server's handshake, such as a resolver or a verifier of certificates.
    Panic,
    /// The connection failed, or was closed during the handshake.
    Io(io::Error),
}

impl TlsError {
    /// Copies the error, for another request that waited for the same connection. The source becomes text.
    pub(crate) fn duplicate(&self) -> TlsError {
        match self {
            TlsError::Unavailable => TlsError::Unavailable,
            TlsError::Host => TlsError::Host,
            TlsError::PlainText => TlsError::PlainText,
            TlsError::Certificate(source) => TlsError::Certificate(source.to_string().into()),
            TlsError::Refused(source) => TlsError::Refused(source.to_string().into()),
            TlsError::Protocol(source) => TlsError::Protocol(source.to_string().into()),
            TlsError::Resolver(source) => TlsError::Resolver(source.to_string().into()),
            TlsError::Panic => TlsError::Panic,
            TlsError::Io(error) => TlsError::Io(io::Error::new(error.kind(), format!("{error:#}"))),
        }
    }

    /// Converts the error to one of the standard library.
    pub(crate) fn as_io(&self) -> io::Error {
        io::Error::new(self.kind(), format!("{self:#}"))
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            TlsError::Unavailable => io::ErrorKind::Unsupported,
            TlsError::Host => io::ErrorKind::InvalidInput,
            TlsError::Certificate(_) | TlsError::PlainText | TlsError::Protocol(_) => {
                io::ErrorKind::InvalidData
            }
            TlsError::Refused(_) => io::ErrorKind::ConnectionAborted,
            TlsError::Resolver(_) => io::ErrorKind::PermissionDenied,
            TlsError::Panic => io::ErrorKind::Other,
            TlsError::Io(error) => error.kind(),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| {
            f.write_str(match self {
                TlsError::Unavailable => "the crate was built without its feature `tls`",
                TlsError::Host => "no certificate can be issued for the host",
                TlsError::Certificate(_) => "the peer's certificate is not trusted",
                TlsError::Refused(_) => "the peer refused with an alert of TLS",
                TlsError::PlainText => "the peer speaks plain text, such as HTTP, instead of TLS",
                TlsError::Protocol(_) => "no TLS handshake is possible with the peer",
                TlsError::Resolver(_) => "the resolver of the configuration refused the peer",
                TlsError::Panic => "a function of the application panicked in the TLS handshake",
                TlsError::Io(_) => "the connection failed during the handshake",
            })
        })
    }
}

impl StdError for TlsError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            TlsError::Unavailable | TlsError::Host | TlsError::PlainText | TlsError::Panic => None,
            TlsError::Certificate(cause)
            | TlsError::Refused(cause)
            | TlsError::Protocol(cause)
            | TlsError::Resolver(cause) => Some(&**cause),
            TlsError::Io(cause) => Some(cause),
        }
    }
}
