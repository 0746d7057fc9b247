//! [`Excerpt`]: text of a peer, as errors quote it.

use std::fmt::{self, Write};

/// The beginning of a text that a peer chose, which may be long, and may contain characters that steer a terminal or
/// end a line of a log.
pub(crate) struct Excerpt<'a>(pub(crate) &'a str);

impl Excerpt<'_> {
    /// How many characters of a text are quoted.
    const LEN_MAX: usize = 64;

    /// Quotes octets, those beyond ASCII as escapes.
    pub(crate) fn of_octets(octets: &[u8]) -> String {
        let front = &octets[..octets.len().min(Excerpt::LEN_MAX)];
        let more = if octets.len() > front.len() { "…" } else { "" };
        format!("`{}{more}`", front.escape_ascii())
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('`')?;
        let mut chars = self.0.chars();
        write_escaped(f, chars.by_ref().take(Excerpt::LEN_MAX))?;
        f.write_str(if chars.next().is_some() { "…`" } else { "`" })
    }
}

/// `url`, which need not be one, without userinfo, query and fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let front = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = front.find("://").map_or(("", front), |at| front.split_at(at + "://".len()));
    let behind = rest.rsplit_once('@').map_or(rest, |(_, behind)| behind);
    format!("{scheme}{behind}")
}

/// Writes text that a peer may have made, or that may quote one. Characters that could steer a terminal or end a line are
/// escaped, so that the text does not pass for a line of its own. Two characters that end a line are no controls.
pub(crate) fn write_escaped(
    f: &mut fmt::Formatter<'_>,
    chars: impl IntoIterator<Item = char>,
) -> fmt::Result {
    chars.into_iter().try_for_each(|char| {
        match char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') {
            true => write!(f, "{}", char.escape_debug()),
            false => f.write_char(char),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_secrets() {
        for (url, shown) in [
            ("http://joe:secret@a/b?secret#secret", "http://a/b"),
            ("joe:se/cr@et@a", "a"),
            // Text that looks like userinfo is taken for it.
            ("http://a/b@c", "http://c"),
            ("a b", "a b"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn an_excerpt_is_short_and_in_one_line() {
        assert_eq!(Excerpt("per_page").to_string(), "`per_page`");
        assert_eq!(Excerpt("a\r\n\u{1b}[2J\u{2028}é").to_string(), r"`a\r\n\u{1b}[2J\u{2028}é`");
        assert_eq!(Excerpt(&"x".repeat(64)).to_string(), format!("`{}`", "x".repeat(64)));
        assert_eq!(Excerpt(&"é".repeat(65)).to_string(), format!("`{}…`", "é".repeat(64)));
        assert_eq!(Excerpt::of_octets(b"x\0\xff"), r"`x\x00\xff`");
        assert_eq!(Excerpt::of_octets(&[b'x'; 65]), format!("`{}…`", "x".repeat(64)));
    }
}
