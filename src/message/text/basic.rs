//! [`basic_credentials`]: how the scheme Basic spells a user-id and a password (RFC 7617 §2).

use std::error::Error;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The value of `authorization` for the scheme Basic (RFC 7617 §2).
pub(crate) fn basic_credentials(user_id: &[u8], password: &[u8]) -> Result<String, InvalidCredentials> {
    if user_id.contains(&b':') {
        return Err(InvalidCredentials::Colon);
    }
    let pair = [user_id, b":", password].concat();
    if pair.iter().any(u8::is_ascii_control) {
        return Err(InvalidCredentials::Control);
    }
    Ok(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

/// Why credentials cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidCredentials {
    /// The user-id contains a colon, which would end it (RFC 7617 §2).
    Colon,
    /// The user-id or the password contains a control character (RFC 7617 §2).
    Control,
    /// The token is empty, or not a `b64token` (RFC 6750 §2.1).
    Token,
}

impl fmt::Display for InvalidCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidCredentials::Colon => "the user-id contains a colon",
            InvalidCredentials::Control => "the user-id or the password contains a control character",
            InvalidCredentials::Token => "the token is empty or malformed",
        })
    }
}

impl Error for InvalidCredentials {}
