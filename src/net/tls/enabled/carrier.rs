//! [`Carrier`]: the transport below a secure connection, which detects plain HTTP (RFC 8446 §5.1). The [`Error`] of a
//! failed handshake (RFC 8446 §6.2).

use std::error::Error as StdError;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::{self, CertificateError, OtherError};

use crate::net::tls::Error;

/// The transport below a secure connection.
pub(super) struct Carrier<C> {
    pub(super) inner: C,
    first_octet: FirstOctet,
}

/// The first octet that the peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstOctet {
    Awaited,
    Record,
    /// An octet that begins a line of text, and no TLS record.
    Text,
}

impl<C> Carrier<C> {
    pub(super) fn new(inner: C) -> Carrier<C> {
        Carrier { inner, first_octet: FirstOctet::Awaited }
    }

    /// The error of a handshake that failed with `error`: plain text, if the peer sent some.
    pub(super) fn handshake_error(&self, error: Error) -> Error {
        match (error, self.first_octet) {
            (Error::Protocol(_), FirstOctet::Text) => Error::PlainText,
            (error, _) => error,
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Carrier<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, out))?;
        if self.first_octet == FirstOctet::Awaited {
            self.first_octet = match out.filled().get(before) {
                None => FirstOctet::Awaited,
                Some(b'\r' | b'\n' | b'!'..=b'~') => FirstOctet::Text,
                Some(_) => FirstOctet::Record,
            };
        }
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Carrier<C> {
    /// Drops what TLS writes to a peer that began with text: an alert would garble the HTTP response.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.first_octet {
            FirstOctet::Text => Poll::Ready(Ok(bytes.len())),
            FirstOctet::Awaited | FirstOctet::Record => Pin::new(&mut self.inner).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.first_octet {
            FirstOctet::Text => Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum())),
            FirstOctet::Awaited | FirstOctet::Record => {
                Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Error {
    /// Classifies the error of a failed handshake by the side at fault. Errors of rustls are wrapped in an `io::Error`.
    pub(super) fn from_io(error: io::Error) -> Error {
        let cause = match error.downcast::<rustls::Error>() {
            Ok(cause) => cause,
            // rustls refused a message for its length.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Error::Protocol(error.into());
            }
            Err(error) => return Error::Io(error),
        };
        let kind: fn(Box<dyn StdError + Send + Sync>) -> Error = match &cause {
            rustls::Error::AlertReceived(_) => Error::Refused,
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
                Error::Certificate
            }
            _ => Error::Protocol,
        };
        kind(explained(&cause).map_or_else(|| cause.into(), Box::from))
    }
}

impl Error {
    /// The refusal that a read has met, if `error` is an alert of the peer. In TLS 1.3 a client has finished its
    /// handshake before the server has seen its certificate, so a refusal is the first that it reads (RFC 8446 §4.4.2).
    ///
    /// # Errors
    ///
    /// Fails with `error` if that is anything else.
    pub(crate) fn from_alert(error: io::Error) -> Result<Error, io::Error> {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(rustls::Error::AlertReceived(_)) => Ok(Error::from_io(error)),
            Some(_) | None => Err(error),
        }
    }
}

/// Explains an error of rustls-webpki, of which rustls displays only the name.
fn explained(error: &rustls::Error) -> Option<&'static str> {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = error else {
        return None;
    };
    match other.downcast_ref()? {
        webpki::Error::CaUsedAsEndEntity => Some(
            "it is that of an authority (CA:TRUE), and not one of those that it issues (CaUsedAsEndEntity)",
        ),
        webpki::Error::UnsupportedCertVersion => {
            Some("it is of X.509 version 1 or 2, and has to be of version 3 (UnsupportedCertVersion)")
        }
        webpki::Error::UnsupportedCriticalExtension => {
            Some("it has a critical extension that is not known (UnsupportedCriticalExtension)")
        }
        _ => None,
    }
}
