//! [`SessionId`]: the secret by which a user agent has its session.

use std::fmt;
use std::io;

use crate::runtime::random_token;

/// The secret by which a user agent has its session: 32 hexadecimal digits.
///
/// Each user agent with this id has the session. The id belongs in no log, and `{:?}` does not show it. A store may keep a hash
/// of it in its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; SessionId::LEN]);

impl SessionId {
    /// How many digits an id has: 32, for 128 bits.
    pub const LEN: usize = 32;

    /// Creates an id that cannot be guessed.
    ///
    /// # Errors
    ///
    /// Fails if the system provides no randomness.
    pub(super) fn random() -> io::Result<SessionId> {
        let id = SessionId::parse(&random_token()?);
        Ok(id.expect("a token has 32 hexadecimal digits"))
    }

    /// Reads an id. An id in another spelling is none, so that a session has one id.
    pub(super) fn parse(text: &str) -> Option<SessionId> {
        let digits: [u8; SessionId::LEN] = text.as_bytes().try_into().ok()?;
        digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(SessionId(digits))
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionId").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling_and_is_not_shown() {
        let id = SessionId::random().unwrap();
        assert_eq!(SessionId::parse(id.as_str()), Some(id));
        assert_ne!(SessionId::random().unwrap(), id);
        assert_eq!(format!("{id:?}"), "SessionId { .. }");
        let digits = "0123456789abcdef".repeat(2);
        assert_eq!(SessionId::parse(&digits).unwrap().as_str(), digits);
        for other in [
            "",
            "0",
            &digits[1..],
            &format!("{digits}0"),
            &digits.to_uppercase(),
            &digits.replace('f', "g"),
            &digits.replace('0', " "),
            &digits.replace("01", "é"),
            &format!("\"{}\"", &digits[2..]),
        ] {
            assert_eq!(SessionId::parse(other), None, "{other}");
        }
    }
}
