//! Floor 0: what the texts of errors have in common.
//!
//! The [`Display`](std::fmt::Display) of an error of this crate contains no cause, and
//! [`source`](std::error::Error::source) returns it; `{:#}` formats both, and the causes of the cause, in one line.

use std::error::Error;
use std::fmt::{self, Write};
use std::io;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

/// Writes `text`, and for `{:#}` also the causes of `error`, each after a colon: one line that is understood without
/// another.
pub(crate) fn write_error(
    f: &mut fmt::Formatter<'_>,
    error: &dyn Error,
    text: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    text(f)?;
    if f.alternate() { write_causes(f, error.source()) } else { Ok(()) }
}

/// Writes `cause` and the chain of its causes, each after a colon.
pub(crate) fn write_causes(f: &mut fmt::Formatter<'_>, cause: Option<&(dyn Error + 'static)>) -> fmt::Result {
    iter::successors(cause, |&cause| cause.source()).try_for_each(|cause| write!(f, ": {cause}"))
}

/// An error of several callers. It shows as the error itself, and has its causes.
#[derive(Clone, Debug)]
pub(crate) struct SharedError(Arc<io::Error>);

impl SharedError {
    /// The same error for another caller, as far as it was shared. Otherwise it becomes text.
    pub(crate) fn duplicate(error: &io::Error) -> io::Error {
        let shared = error.get_ref().and_then(|inner| inner.downcast_ref::<SharedError>());
        match (error.raw_os_error(), shared) {
            (Some(number), _) => io::Error::from_raw_os_error(number),
            (None, Some(shared)) => shared.clone().into(),
            (None, None) => io::Error::new(error.kind(), format!("{error:#}")),
        }
    }

    /// The error that is shared.
    pub(crate) fn inner(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<io::Error> for SharedError {
    fn from(error: io::Error) -> SharedError {
        SharedError(Arc::new(error))
    }
}

impl From<SharedError> for io::Error {
    fn from(shared: SharedError) -> io::Error {
        // Its number is how a want of descriptors is recognized.
        match shared.0.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(shared.0.kind(), shared),
        }
    }
}

/// The beginning of a text that a peer chose, which may be long, and may contain characters that steer a terminal or
/// end a line of a log.
pub(crate) struct Excerpt<'a>(pub(crate) &'a str);

impl Excerpt<'_> {
    /// How many characters of a text are quoted.
    const LEN_MAX: usize = 64;

    /// Quotes octets, those beyond ASCII as escapes.
    pub(crate) fn quote_octets(octets: &[u8]) -> String {
        let front = &octets[..octets.len().min(Excerpt::LEN_MAX)];
        let more = if octets.len() > front.len() { "…" } else { "" };
        format!("`{}{more}`", front.escape_ascii())
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('`')?;
        let quoted = front(self.0, Excerpt::LEN_MAX);
        write_escaped(f, quoted)?;
        f.write_str(if quoted.len() < self.0.len() { "…`" } else { "`" })
    }
}

/// Writes the beginning of the reason that serde gives for a value that does not fit, as it is for peers. The reason may
/// contain names and other text of the peer.
pub(crate) fn write_reason(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write_escaped(f, front(&reason_for_peers(reason), REASON_LEN_MAX))
}

const REASON_LEN_MAX: usize = 200;

/// The reason that serde gives, without the value that was found, which may be a secret, and long; and without types of
/// Rust, which peers do not know.
pub(crate) fn reason_for_peers(reason: &str) -> String {
    let reason = reason_without_value(reason);
    let Some((front, expected)) = reason.rsplit_once(EXPECTED) else { return reason };
    let expected = match expected.strip_prefix("struct ").map(|named| named.split_once(" with ")) {
        Some(Some((_, elements))) => elements,
        Some(None) => "an object",
        None => describe_values(expected).unwrap_or(expected),
    };
    format!("{front}{EXPECTED}{expected}")
}

fn reason_without_value(reason: &str) -> String {
    const KINDS: [&str; 3] = ["invalid type: ", "invalid value: ", "unknown variant "];
    let parts = || {
        let found = KINDS.iter().find_map(|kind| reason.strip_prefix(kind))?;
        let value = reason.len() - found.len() + found.find(['"', '`'])?;
        let expected = reason.rfind(EXPECTED).filter(|expected| *expected > value)?;
        Some((reason[..value].trim_end(), &reason[expected..]))
    };
    parts().map_or_else(|| reason.to_owned(), |(kind, expected)| format!("{kind}{expected}"))
}

const EXPECTED: &str = ", expected ";

/// Describes the values of a primitive type to a peer, who need not know Rust; `None` for other types.
pub(crate) fn describe_values(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 2^64 - 1",
        "usize" | "u128" => "a whole number of 0 or more",
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" => "a whole number from -2^63 to 2^63 - 1",
        "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "bool" => "true or false",
        "char" => "a single character",
        _ => return None,
    })
}

/// `url`, which need not be a valid URL, without userinfo, query and fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let scheme = url.find("://").filter(|at| url[..*at].bytes().all(|octet| octet.is_ascii_alphanumeric()));
    let (scheme, rest) = url.split_at(scheme.map_or(0, |at| at + "://".len()));
    // A password that was not escaped may contain a `/`, a `?` or a `#`, so the last `@` of all ends it.
    let behind = rest.rsplit_once('@').map_or(rest, |(_, behind)| behind);
    let front = behind.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{front}")
}

/// Writes text that a peer may have made, or that may quote a peer. Characters that could steer a terminal or end a line
/// are escaped, so that the text does not pass for a line of its own. U+2028 and U+2029 end a line, and the characters of
/// the bidirectional algorithm change the order in which a line is shown, but none of them is a control.
pub(crate) fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let steers =
        |char: char| char.is_control() || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut rest = text;
    // The text between two such characters is written at once: to standard error, each write is a system call.
    while let Some(at) = rest.find(steers) {
        let (plain, from) = rest.split_at(at);
        let mut chars = from.chars();
        f.write_str(plain)?;
        chars.next().into_iter().try_for_each(|char| write!(f, "{}", char.escape_debug()))?;
        rest = chars.as_str();
    }
    f.write_str(rest)
}

/// The first characters of `text`, so many at most.
fn front(text: &str, len_max: usize) -> &str {
    text.char_indices().nth(len_max).map_or(text, |(end, _)| &text[..end])
}

/// A time limit that was exceeded: a duration, or a rate in bytes per second. `{}` formats it as `30 s`, `250 ms` or
/// `500 bytes per second`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::error::TimeLimit;
///
/// assert_eq!(TimeLimit::from(Duration::from_secs(30)).to_string(), "30 s");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeLimit {
    unit: Unit,
    // Errors with a limit are part of results that are moved for each request, so the amount is small.
    amount: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Milliseconds,
    BytesPerSecond,
    /// The limit is that of another program, such as the operating system.
    Unknown,
}

impl TimeLimit {
    /// An unknown limit of another program, such as the operating system.
    pub(crate) const UNKNOWN: TimeLimit = TimeLimit { unit: Unit::Unknown, amount: 0 };

    /// The least rate at which bytes must arrive.
    pub(crate) fn from_bytes_per_second(rate: u64) -> TimeLimit {
        TimeLimit { unit: Unit::BytesPerSecond, amount: u32::try_from(rate).unwrap_or(u32::MAX) }
    }

    /// Returns how the limit was exceeded: `took longer than 30 s`.
    pub(crate) fn exceeded(self) -> String {
        match self.unit {
            Unit::Milliseconds => format!("took longer than {self}"),
            Unit::BytesPerSecond => format!("was slower than {self}"),
            Unit::Unknown => "took too long".to_owned(),
        }
    }
}

impl From<Duration> for TimeLimit {
    fn from(limit: Duration) -> TimeLimit {
        match u32::try_from(limit.as_millis()) {
            Ok(amount) => TimeLimit { unit: Unit::Milliseconds, amount },
            Err(_) => TimeLimit::UNKNOWN,
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unit, self.amount) {
            (Unit::Milliseconds, amount) if amount % 1000 == 0 => write!(f, "{} s", amount / 1000),
            (Unit::Milliseconds, amount) => write!(f, "{amount} ms"),
            (Unit::BytesPerSecond, amount) => write!(f, "{amount} bytes per second"),
            (Unit::Unknown, _) => f.write_str("an unknown limit"),
        }
    }
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeLimit({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Failed(io::Error);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_error(f, self, |f| f.write_str("it failed"))
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn each_cause_is_written_once() {
        let failed = Failed(io::Error::other(Failed(io::ErrorKind::NotFound.into())));
        assert_eq!(failed.to_string(), "it failed");
        assert_eq!(format!("{failed:#}"), "it failed: it failed: entity not found");
        let wrapped = io::Error::other(failed);
        assert_eq!(wrapped.to_string(), "it failed");
        assert_eq!(format!("{wrapped:#}"), "it failed: it failed: entity not found");
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        for (url, shown) in [
            ("http://joe:secret@a/b?secret#secret", "http://a/b"),
            ("joe:se/cr@et@a", "a"),
            ("http://joe:se?cret@a/b", "http://a/b"),
            ("http://joe:se#cret@a/b#c", "http://a/b"),
            ("joe:secret?@a://b", "a://b"),
            // Text that looks like userinfo is taken for it.
            ("http://a/b@c", "http://c"),
            ("http://a b/?to=c@d", "http://d"),
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
        assert_eq!(Excerpt("\u{202e}\u{2066}").to_string(), r"`\u{202e}\u{2066}`");
        assert_eq!(Excerpt(&"x".repeat(64)).to_string(), format!("`{}`", "x".repeat(64)));
        assert_eq!(Excerpt(&"é".repeat(65)).to_string(), format!("`{}…`", "é".repeat(64)));
        assert_eq!(Excerpt::quote_octets(b"x\0\xff"), r"`x\x00\xff`");
        assert_eq!(Excerpt::quote_octets(&[b'x'; 65]), format!("`{}…`", "x".repeat(64)));
    }

    #[test]
    fn a_reason_of_serde_is_for_peers() {
        for (reason, expected) in [
            (r#"invalid type: string "secret", expected a map"#, "invalid type: string, expected a map"),
            (r#"invalid type: string "a, expected b", expected c"#, "invalid type: string, expected c"),
            (
                "invalid value: integer `300`, expected u8",
                "invalid value: integer, expected a whole number from 0 to 255",
            ),
            ("invalid type: null, expected struct Note", "invalid type: null, expected an object"),
            (
                "invalid length 0, expected struct Note with 2 elements",
                "invalid length 0, expected 2 elements",
            ),
            ("unknown variant `secret`, expected `a` or `b`", "unknown variant, expected `a` or `b`"),
            ("unknown variant, expected `a` or `b`", "unknown variant, expected `a` or `b`"),
            // These hold no value.
            ("invalid type: map, expected f64", "invalid type: map, expected a number"),
            ("missing field `a`", "missing field `a`"),
            ("", ""),
        ] {
            assert_eq!(reason_for_peers(reason), expected);
            assert_eq!(reason_for_peers(expected), expected);
        }
    }

    #[test]
    fn a_limit_is_written_in_its_unit() {
        let of = |millis| TimeLimit::from(Duration::from_millis(millis)).exceeded();
        assert_eq!(
            [of(300), of(30_000), of(1_500)],
            ["300 ms", "30 s", "1500 ms"].map(|it| format!("took longer than {it}"))
        );
        assert_eq!(TimeLimit::from_bytes_per_second(500).exceeded(), "was slower than 500 bytes per second");
        assert_eq!(TimeLimit::from(Duration::MAX).exceeded(), "took too long");
    }
}
