//! [`ConfigError`]: why a certificate, a key, roots or a provider cannot be used.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio_rustls::rustls::pki_types::pem;

use crate::descriptors::with_descriptors;
use crate::error_text::write_error;
use crate::net::tls::certificate_fault::write_certificate;

/// Why a certificate, a key, roots or a provider cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    File(PathBuf, io::Error),
    /// A file was read, and its content cannot be used.
    Content(PathBuf, Box<ConfigError>),
    /// The text is not PEM (RFC 7468).
    Pem(Box<dyn StdError + Send + Sync>),
    /// There is no certificate.
    NoCertificate,
    /// There is no private key, or none of a supported kind.
    NoKey,
    /// A certificate cannot be used.
    Certificate(Box<dyn StdError + Send + Sync>),
    /// A certificate has expired (RFC 5280 §4.1.2.5). See [`ServerTls::check_dates`](crate::tls::ServerTls::check_dates).
    Expired {
        /// The host names that it is for.
        names: Vec<String>,
        /// The last second in which it was valid.
        not_after: SystemTime,
    },
    /// A certificate is not valid yet, or the clock of this machine is wrong (RFC 5280 §4.1.2.5).
    NotYetValid {
        /// The host names that it is for.
        names: Vec<String>,
        /// When it begins to be valid.
        not_before: SystemTime,
    },
    /// A key cannot be used, or does not belong to its certificate.
    Key(Box<dyn StdError + Send + Sync>),
    /// A provider has not the cryptography that TLS 1.3 needs.
    Provider(Box<dyn StdError + Send + Sync>),
    /// The settings are a [whole configuration](crate::tls::ServerTls::from_config) of rustls, whose certificates are not
    /// replaced alone. See [`ServerTls::replace_config`](crate::tls::ServerTls::replace_config).
    WholeConfig,
    /// The platform has no certificate authorities that it trusts.
    Platform(Option<Box<dyn StdError + Send + Sync>>),
}

impl ConfigError {
    /// Reads a file of certificates or keys.
    pub(super) fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
        with_descriptors(|| std::fs::read(path)).map_err(|error| ConfigError::File(path.into(), error))
    }

    /// Returns the error of a text without what is expected, by what it has instead.
    pub(super) fn in_text(self, text: &[u8]) -> ConfigError {
        let is_key = matches!(self, ConfigError::NoKey);
        let at_fault = if is_key { ConfigError::Key } else { ConfigError::Certificate };
        let text = match std::str::from_utf8(text) {
            Err(_) if text.first() == Some(&DER_SEQUENCE) => {
                return ConfigError::Pem(how_to_convert(text).into());
            }
            text => text.unwrap_or_default(),
        };
        let label = text.split_once("-----BEGIN ").and_then(|(_, rest)| rest.split("-----").next());
        match label {
            Some("ENCRYPTED PRIVATE KEY") if is_key => ConfigError::encrypted_key(),
            None | Some("CERTIFICATE" | "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY") => self,
            Some(label) => {
                let label: String =
                    label.chars().filter(|it| it.is_ascii_uppercase() || *it == ' ').collect();
                at_fault(format!("it is of the kind `{label}`, which is not supported").into())
            }
        }
    }

    /// The error of a private key that only its password opens.
    pub(super) fn encrypted_key() -> ConfigError {
        ConfigError::Key("it is encrypted: decrypt it, as `openssl pkey` does".into())
    }

    /// Adds the file whose content is at fault.
    pub(super) fn in_file(self, path: &Path) -> ConfigError {
        ConfigError::Content(path.into(), Box::new(self))
    }
}

/// Says how PEM is made of what is none.
fn how_to_convert(der: &[u8]) -> &'static str {
    match der.get(4..8) {
        Some(PKCS12_VERSION) => "it is PKCS #12: convert it, as `openssl pkcs12 -nodes` does",
        _ => "it is DER: convert it, as `openssl x509` and `openssl pkey` do",
    }
}

/// The first octet of a sequence, as certificates and keys are (X.690 §8.9).
const DER_SEQUENCE: u8 = 0x30;

/// The version in a PKCS #12, with the beginning of the sequence behind it (RFC 7292 §4).
const PKCS12_VERSION: &[u8] = &[0x02, 0x01, 0x03, DER_SEQUENCE];

impl From<pem::Error> for ConfigError {
    /// The text itself is never part of the error, since it may be a key.
    fn from(error: pem::Error) -> ConfigError {
        ConfigError::Pem(match error {
            pem::Error::IllegalSectionStart { .. } => {
                "a section does not begin with a line of its own".into()
            }
            pem::Error::MissingSectionEnd { .. } => "a section does not end with a line of its own".into(),
            error => error.into(),
        })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            ConfigError::File(path, _) => write!(f, "cannot read {}", path.display()),
            ConfigError::Content(path, _) => write!(f, "cannot use {}", path.display()),
            ConfigError::Pem(_) => f.write_str("the text is not PEM"),
            ConfigError::NoCertificate => f.write_str("there is no certificate"),
            ConfigError::NoKey => f.write_str("there is no private key"),
            ConfigError::Certificate(_) => f.write_str("the certificate cannot be used"),
            ConfigError::Expired { names, not_after } => {
                write_certificate(f, names)?;
                write!(f, " expired on {}", httpdate::fmt_http_date(*not_after))
            }
            ConfigError::NotYetValid { names, not_before } => {
                write_certificate(f, names)?;
                write!(f, " is not valid before {}", httpdate::fmt_http_date(*not_before))
            }
            ConfigError::Key(_) => f.write_str("the private key cannot be used, or is not the certificate's"),
            ConfigError::Provider(_) => f.write_str("the provider has no suite for TLS 1.3"),
            ConfigError::WholeConfig => f.write_str(
                "the certificates are a part of a whole configuration: see `ServerTls::replace_config`",
            ),
            ConfigError::Platform(_) => f.write_str("the platform trusts no certificates"),
        })
    }
}

impl StdError for ConfigError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            ConfigError::File(_, cause) => Some(cause),
            ConfigError::Content(_, cause) => Some(&**cause),
            ConfigError::NoCertificate
            | ConfigError::NoKey
            | ConfigError::WholeConfig
            | ConfigError::Expired { .. }
            | ConfigError::NotYetValid { .. } => None,
            ConfigError::Pem(cause)
            | ConfigError::Certificate(cause)
            | ConfigError::Key(cause)
            | ConfigError::Provider(cause) => Some(&**cause),
            ConfigError::Platform(cause) => cause.as_deref().map(|cause| cause as _),
        }
    }
}
