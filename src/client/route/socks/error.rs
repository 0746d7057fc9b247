//! [`SocksError`]: why a SOCKS5 proxy did not connect.

use std::error::Error;
use std::fmt;
use std::io;

use crate::error::write_error;

/// Why a SOCKS5 proxy did not connect.
#[derive(Debug)]
#[non_exhaustive]
pub enum SocksError {
    /// The connection to the proxy failed, or ended too early.
    Io(io::Error),
    /// The proxy does not speak SOCKS5.
    Malformed,
    /// The proxy requires an authentication method that was not offered (RFC 1928 §3).
    Method,
    /// The proxy rejected the username and password (RFC 1929 §2).
    Login,
    /// The proxy refused to connect, or could not.
    Refused(SocksReply),
}

/// The reason that a SOCKS5 proxy gives for not connecting (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocksReply {
    /// X'01': a general failure.
    GeneralFailure,
    /// X'02': the rules of the proxy forbid it.
    NotAllowed,
    /// X'03': the network is unreachable.
    NetworkUnreachable,
    /// X'04': the host is unreachable, or its name is unknown.
    HostUnreachable,
    /// X'05': the host refused the connection.
    ConnectionRefused,
    /// X'06': the route is too long.
    TtlExpired,
    /// X'07': the proxy does not support connecting.
    CommandNotSupported,
    /// X'08': the proxy does not support this kind of address.
    AddressTypeNotSupported,
    /// A code that RFC 1928 does not define.
    Unassigned(u8),
}

impl SocksReply {
    pub(super) fn of(code: u8) -> SocksReply {
        match code {
            1 => SocksReply::GeneralFailure,
            2 => SocksReply::NotAllowed,
            3 => SocksReply::NetworkUnreachable,
            4 => SocksReply::HostUnreachable,
            5 => SocksReply::ConnectionRefused,
            6 => SocksReply::TtlExpired,
            7 => SocksReply::CommandNotSupported,
            8 => SocksReply::AddressTypeNotSupported,
            code => SocksReply::Unassigned(code),
        }
    }
}

impl fmt::Display for SocksReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SocksReply::GeneralFailure => "it failed",
            SocksReply::NotAllowed => "its rules forbid it",
            SocksReply::NetworkUnreachable => "the network cannot be reached",
            SocksReply::HostUnreachable => "the host cannot be reached",
            SocksReply::ConnectionRefused => "the host refused the connection",
            SocksReply::TtlExpired => "the route is too long",
            SocksReply::CommandNotSupported => "it cannot connect",
            SocksReply::AddressTypeNotSupported => "it does not support this kind of address",
            SocksReply::Unassigned(code) => return write!(f, "code {code}"),
        })
    }
}

impl fmt::Display for SocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            SocksError::Io(_) => f.write_str("the connection to the proxy failed"),
            SocksError::Malformed => f.write_str("the proxy does not speak SOCKS5"),
            SocksError::Method => f.write_str("the proxy wants another kind of authentication"),
            SocksError::Login => f.write_str("the proxy refused username and password"),
            SocksError::Refused(reply) => write!(f, "the proxy did not connect: {reply}"),
        })
    }
}

impl Error for SocksError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SocksError::Io(error) => Some(error),
            SocksError::Malformed | SocksError::Method | SocksError::Login | SocksError::Refused(_) => None,
        }
    }
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> SocksError {
        SocksError::Io(error)
    }
}
