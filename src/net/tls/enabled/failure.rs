//! Converts the errors of handshakes to [`TlsError`] (RFC 8446 §6.2).

use std::error::Error as StdError;
use std::io;

use tokio_rustls::rustls::Error;

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
        blame(cause.into())
    }
}
