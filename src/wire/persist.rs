//! Decides whether a connection persists (RFC 9112 §9.3).

use std::time::Duration;

use crate::message::{FieldName, Headers, Version, decimal, members};

/// The connection option of a message that decides what follows it (RFC 9110 §7.6.1, RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionOption {
    Close,
    KeepAlive,
    Absent,
}

impl ConnectionOption {
    /// The connection option that the Connection lines ask for; `close` wins.
    #[inline]
    pub(crate) fn from_headers(headers: &Headers) -> ConnectionOption {
        if headers.may_have(FieldName::CONNECTION) {
            ConnectionOption::read(headers)
        } else {
            ConnectionOption::Absent
        }
    }

    /// Reads all members of all Connection lines. `close` beats `keep-alive` wherever it stands.
    #[inline(never)]
    fn read(headers: &Headers) -> ConnectionOption {
        let mut found = ConnectionOption::Absent;
        for line in headers.named(FieldName::CONNECTION) {
            // Browsers send this option alone.
            if line == b"keep-alive" {
                found = ConnectionOption::KeepAlive;
                continue;
            }
            for option in members(line) {
                if option.eq_ignore_ascii_case(b"close") {
                    return ConnectionOption::Close;
                }
                if option.eq_ignore_ascii_case(b"keep-alive") {
                    found = ConnectionOption::KeepAlive;
                }
            }
        }
        found
    }
}

/// Whether the connection may carry another message, by the version and the option that the peer has sent.
#[inline]
pub(crate) fn persists(version: Version, option: ConnectionOption) -> bool {
    match (version, option) {
        (_, ConnectionOption::Close) => false,
        (Version::Http11, ConnectionOption::KeepAlive | ConnectionOption::Absent) => true,
        (Version::Http10, ConnectionOption::KeepAlive) => true,
        (Version::Http10, ConnectionOption::Absent) => false,
    }
}

/// How long a server keeps an idle connection, if it announces that: `Keep-Alive: timeout=5` (RFC 2068 §19.7.1.1). Of
/// several times the shortest counts, which is safe whichever is meant.
pub(crate) fn keep_alive_timeout(headers: &Headers) -> Option<Duration> {
    let announced = headers.named(FieldName::KEEP_ALIVE).flat_map(members).filter_map(|member| {
        let (name, seconds) = member.split_at_checked("timeout=".len())?;
        name.eq_ignore_ascii_case(b"timeout=").then_some(seconds).and_then(decimal)
    });
    announced.min().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Version, lines: &[&str], expected: bool) {
        let mut headers = Headers::new();
        lines.iter().for_each(|line| headers.append("Connection", *line).unwrap());
        assert_eq!(
            persists(version, ConnectionOption::from_headers(&headers)),
            expected,
            "{version} {lines:?}"
        );
    }

    #[test]
    fn close_wins_in_any_case_and_any_place_rfc9112_9_6() {
        for lines in [
            &["close"][..],
            &["Close"],
            &["keep-alive, close"],
            &["close, keep-alive"],
            &["keep-alive", "CLOSE"],
            &["te,\tclose ,x"],
        ] {
            check(Version::Http11, lines, false);
            check(Version::Http10, lines, false);
        }
    }

    #[test]
    fn http_1_1_persists_unless_closed_and_1_0_only_with_keep_alive_rfc9112_9_3() {
        for lines in [&[][..], &["x"], &["closed"], &["\"close\""], &["Keep-Alive"]] {
            check(Version::Http11, lines, true);
        }
        check(Version::Http10, &[], false);
        check(Version::Http10, &["upgrade"], false);
        check(Version::Http10, &["Keep-Alive"], true);
        check(Version::Http10, &["x", "te, KEEP-ALIVE"], true);
    }

    #[test]
    fn keep_alive_timeout_is_a_number_of_seconds_rfc2068_19_7_1_1() {
        for (line, seconds) in [
            ("timeout=5", Some(5)),
            ("max=100, Timeout=0", Some(0)),
            ("timeout=5, timeout=9", Some(5)),
            ("timeout=9, max=1, timeout=5", Some(5)),
            ("", None),
            ("5", None),
            ("timeout", None),
            ("timeout=", None),
            ("timeout=+5", None),
            ("timeout=-1", None),
            ("timeout=5s", None),
            ("timeout = 5", None),
            ("xtimeout=5", None),
            ("timeout=99999999999999999999", None),
        ] {
            let mut headers = Headers::new();
            headers.set("Keep-Alive", line).unwrap();
            assert_eq!(keep_alive_timeout(&headers), seconds.map(Duration::from_secs), "{line:?}");
        }
        assert_eq!(keep_alive_timeout(&Headers::new()), None);
    }
}
