//! Converts the errors of handshakes to [`TlsError`] (RFC 8446 §6.2).

use std::error::Error as StdError;
use std::io;

use tokio_rustls::rustls::{CertificateError, Error, OtherError};

use crate::net::tls::TlsError;

impl TlsError {
    /// Determines who is to blame for a failed handshake. Errors of rustls are wrapped in an `io::Error`.
    pub(super) fn of(error: io::Error) -> TlsError {
        let cause = match error.downcast::<Error>() {
            Ok(cause) => cause,
            // A message is longer than rustls allows.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return TlsError::Protocol(error.into());
            }
            Err(error) => return TlsError::Io(error),
        };
        let blame: fn(Box<dyn StdError + Send + Sync>) -> TlsError = match &cause {
            Error::AlertReceived(_) => TlsError::Refused,
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => TlsError::Certificate,
            _ => TlsError::Protocol,
        };
        blame(explained(&cause).map_or_else(|| cause.into(), Box::from))
    }
}

/// What it means that rustls-webpki refuses a certificate, where rustls has only the name of its error.
fn explained(error: &Error) -> Option<&'static str> {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = error else { return None };
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
