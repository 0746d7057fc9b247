//! [`random_token`]: a name that cannot be guessed.

use std::fmt::Write;
use std::io;

/// Returns 32 hexadecimal digits from the operating system's source of randomness.
///
/// With 2^128 possible tokens, none occurs twice by chance, and none can be predicted.
///
/// # Errors
///
/// Fails if the system provides no randomness.
pub(crate) fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| io::Error::other("the system provides no randomness"))?;
    let mut token = String::with_capacity(TOKEN_LEN);
    bytes.iter().try_for_each(|byte| write!(token, "{byte:02x}")).map_err(io::Error::other)?;
    Ok(token)
}

/// How long a token is.
const TOKEN_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_are_plain_and_differ() {
        let tokens: BTreeSet<_> = (0..100).map(|_| random_token().unwrap()).collect();
        let is_plain = |token: &String| token.bytes().all(|octet| octet.is_ascii_hexdigit());
        assert!(tokens.iter().all(|token| token.len() == TOKEN_LEN && is_plain(token)));
        assert_eq!(tokens.len(), 100);
    }
}
