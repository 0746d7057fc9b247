//! [`AcmeError`]: why there is no certificate; [`AcmeReport`]: what has become of one.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use crate::message::{HttpDate, TargetError};
use crate::net::tls::enabled::ConfigError;

/// Why a certificate cannot be obtained by ACME.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcmeError {
    /// The directory is not an `https` URL.
    Directory(TargetError),
    /// This name is not of a host that can be validated. Empty if there is no name.
    Names(Box<str>),
    /// A file, or the thread that renews, failed.
    Io(Box<Path>, io::Error),
    /// The authority could not be reached, refused something, or answered with nonsense. See the cause.
    Authority(Box<dyn Error + Send + Sync>),
    /// The authority offers no such challenge for this name.
    Challenge(Box<str>),
    /// The certificate issued by the authority, or found in the folder, cannot be used.
    Certificate(ConfigError),
    /// The certificate has not all of the names.
    OtherNames,
}

impl fmt::Display for AcmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcmeError::Directory(_) => f.write_str("the directory of the authority is not an https URL"),
            AcmeError::Names(name) if name.is_empty() => f.write_str("there is no name for the certificate"),
            AcmeError::Names(name) if name.starts_with("*.") => {
                write!(
                    f,
                    "the wildcard `{name}` needs the challenge DNS-01, which this crate does not have: write out each name"
                )
            }
            AcmeError::Names(name) => write!(f, "`{name}` is not the name of a host"),
            AcmeError::Io(path, _) => write!(f, "cannot use {}", path.display()),
            AcmeError::Authority(_) => f.write_str("the authority has issued no certificate"),
            AcmeError::Challenge(name) => write!(f, "the authority does not offer the challenge for {name}"),
            AcmeError::Certificate(_) => f.write_str("the certificate cannot be used"),
            AcmeError::OtherNames => f.write_str("the certificate has not all of the names"),
        }
    }
}

impl Error for AcmeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AcmeError::Directory(error) => Some(error),
            AcmeError::Io(_, error) => Some(error),
            AcmeError::Authority(error) => Some(&**error),
            AcmeError::Certificate(error) => Some(error),
            AcmeError::Names(_) | AcmeError::Challenge(_) | AcmeError::OtherNames => None,
        }
    }
}

/// The fate of a certificate.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcmeReport {
    /// A certificate in the folder serves from now on: at the start, or after a renewal by another server.
    Loaded {
        /// When it expires.
        not_after: SystemTime,
    },
    /// A certificate that the authority has issued serves from now on.
    Issued {
        /// When it expires.
        not_after: SystemTime,
    },
    /// Something has failed. A certificate that is there serves on.
    Failed {
        /// The failure.
        error: AcmeError,
        /// The time until the next try.
        retried_after: Duration,
    },
}

impl fmt::Display for AcmeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcmeReport::Loaded { not_after } => {
                write!(f, "the certificate of the folder is valid until {}", HttpDate::new(*not_after))
            }
            AcmeReport::Issued { not_after } => {
                write!(f, "a new certificate is valid until {}", HttpDate::new(*not_after))
            }
            AcmeReport::Failed { error, retried_after } => {
                write!(f, "{error}")?;
                let mut cause = error.source();
                while let Some(error) = cause {
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                write!(f, "; next try in {} s", retried_after.as_secs())
            }
        }
    }
}
