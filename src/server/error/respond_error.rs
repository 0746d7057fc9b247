//! [`RespondError`]: why a request cannot be answered in the way that the handler tries (RFC 9110 §7.8, §9.3.6,
//! §15.2).

use std::error::Error;
use std::fmt;
use std::io;

use crate::error_text::Excerpt;
use crate::message::Status;

/// Why a request cannot be answered the way the handler tries to.
///
/// The error is inside the [`io::Error`] of [`Context::body_writer`], [`Context::upgrade`] and similar methods, so
/// passing the error on with `?` results in the right status. To inspect it:
///
/// ```
/// use corehttp::Context;
/// use corehttp::server::RespondError;
/// use tokio::io::AsyncWriteExt;
///
/// async fn echo(ctx: &mut Context) -> corehttp::Result {
///     let upgraded = ctx.upgrade("echo").await;
///     let reason = upgraded.as_ref().err().and_then(|error| error.get_ref()?.downcast_ref());
///     if let Some(RespondError::Upgrade(_)) = reason {
///         ctx.response.set_text("Here is an echo, for those who ask to be upgraded to it.");
///         return Ok(());
///     }
///     let mut echo = upgraded?;
///     echo.write_all(b"hello").await?;
///     Ok(())
/// }
/// ```
///
/// [`Context::body_writer`]: crate::Context::body_writer
/// [`Context::upgrade`]: crate::Context::upgrade
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RespondError {
    /// A response has already been sent.
    Sent,
    /// This status does not fit. A final response must not be 1xx, and an interim one must be 1xx but not 101.
    Status(u16),
    /// The peer did not ask to be upgraded to this protocol.
    Upgrade(Box<str>),
    /// The protocol's name, which is in quotes and may be cut short, is malformed (RFC 9110 §7.8).
    Protocol(Box<str>),
    /// The peer did not ask for a tunnel, or sent content with its CONNECT (RFC 9110 §9.3.6).
    Tunnel,
    /// The connection cannot be upgraded before the request's body has been read.
    Unread,
    /// There is no connection to upgrade: see [`Service::respond`](crate::Service::respond).
    Detached,
}

impl RespondError {
    /// The error of a protocol whose name is malformed.
    pub(in crate::server) fn from_protocol(name: &str) -> RespondError {
        RespondError::Protocol(Excerpt(name).to_string().into())
    }

    /// Returns the status of the response:
    ///
    /// - 426 (RFC 9110 §15.5.22) if the peer did not ask for the upgrade
    /// - 400 if the peer did not properly ask for a tunnel
    /// - 500 if the handler is at fault
    pub fn status(&self) -> Status {
        match self {
            RespondError::Upgrade(_) => Status::UPGRADE_REQUIRED,
            RespondError::Tunnel => Status::BAD_REQUEST,
            RespondError::Sent
            | RespondError::Status(_)
            | RespondError::Protocol(_)
            | RespondError::Unread
            | RespondError::Detached => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for RespondError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            RespondError::Sent => "the response has been sent already",
            RespondError::Status(status) => {
                return write!(f, "the status {status} does not fit the kind of response");
            }
            RespondError::Upgrade(protocol) => {
                return write!(f, "the peer did not ask for the upgrade to {protocol}");
            }
            RespondError::Protocol(name) => {
                return write!(f, "the name {name} of the protocol to upgrade to is malformed");
            }
            RespondError::Tunnel => "the peer did not ask for a tunnel, or sent content as well",
            RespondError::Unread => "the body was not read",
            RespondError::Detached => "there is no connection to upgrade",
        };
        f.write_str(text)
    }
}

impl Error for RespondError {}

impl From<RespondError> for io::Error {
    fn from(error: RespondError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}
