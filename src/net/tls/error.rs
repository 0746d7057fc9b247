//! [`Error`]: why a connection could not be made secure (RFC 8446 §6.2).

use std::error::Error as StdError;
use std::fmt;
use std::io;

use crate::error_text::write_error;

/// Why a connection could not be made secure.
///
/// Details are in the error's [`source`](StdError::source).
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The crate was built without its feature `tls`.
    Unavailable,
    /// No certificate can be issued for the host, so it could not prove its identity. Nothing was dialed.
    Host,
    /// The certificate of the peer is not trusted, or a required one is missing.
    Certificate(Box<dyn StdError + Send + Sync>),
    /// The peer did not accept this side, and ended the handshake or the connection with an alert. A server of TLS 1.3
    /// refuses a client's certificate after the handshake. The request may then have been sent.
    Refused(Box<dyn StdError + Send + Sync>),
    /// The peer began with plain text, such as HTTP without TLS. A server answers it with 400.
    PlainText,
    /// The peer does not speak TLS, broke its rules, or has no version, cipher or protocol in common with this side.
    Protocol(Box<dyn StdError + Send + Sync>),
    /// The resolver of a server's configuration has refused the peer with an alert.
    Resolver(Box<dyn StdError + Send + Sync>),
    /// A function of the application panicked in a server's handshake, such as a resolver or a verifier of certificates.
    Panic,
    /// The connection failed, or was closed during the handshake.
    Io(io::Error),
}

impl Error {
    /// Copies the error, for another request that waited for the same connection. The source becomes text.
    pub(crate) fn duplicate(&self) -> Error {
        match self {
            Error::Unavailable => Error::Unavailable,
            Error::Host => Error::Host,
            Error::PlainText => Error::PlainText,
            Error::Certificate(source) => Error::Certificate(source.to_string().into()),
            Error::Refused(source) => Error::Refused(source.to_string().into()),
            Error::Protocol(source) => Error::Protocol(source.to_string().into()),
            Error::Resolver(source) => Error::Resolver(source.to_string().into()),
            Error::Panic => Error::Panic,
            Error::Io(error) => Error::Io(io::Error::new(error.kind(), format!("{error:#}"))),
        }
    }

    /// Converts the error to one of the standard library.
    pub(crate) fn as_io(&self) -> io::Error {
        io::Error::new(self.kind(), format!("{self:#}"))
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Unavailable => io::ErrorKind::Unsupported,
            Error::Host => io::ErrorKind::InvalidInput,
            Error::Certificate(_) | Error::PlainText | Error::Protocol(_) => io::ErrorKind::InvalidData,
            Error::Refused(_) => io::ErrorKind::ConnectionAborted,
            Error::Resolver(_) => io::ErrorKind::PermissionDenied,
            Error::Panic => io::ErrorKind::Other,
            Error::Io(error) => error.kind(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| {
            f.write_str(match self {
                Error::Unavailable => "the crate was built without its feature `tls`",
                Error::Host => "no certificate can be issued for the host",
                Error::Certificate(_) => "the peer's certificate is not trusted",
                Error::Refused(_) => "the peer refused with an alert of TLS",
                Error::PlainText => "the peer speaks plain text, such as HTTP, instead of TLS",
                Error::Protocol(_) => "no TLS handshake is possible with the peer",
                Error::Resolver(_) => "the resolver of the configuration refused the peer",
                Error::Panic => "a function of the application panicked in the TLS handshake",
                Error::Io(_) => "the connection failed during the handshake",
            })
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Unavailable | Error::Host | Error::PlainText | Error::Panic => None,
            Error::Certificate(cause)
            | Error::Refused(cause)
            | Error::Protocol(cause)
            | Error::Resolver(cause) => Some(&**cause),
            Error::Io(cause) => Some(cause),
        }
    }
}
