//! [`may_send_range`]: whether a range may be sent, by `if-range` (RFC 9110 §13.1.5).

use std::time::SystemTime;

use crate::message::{Headers, Name};

/// Whether a Range field is honored: the representation that the peer has a part of is still the same, or the peer does
/// not ask for that.
pub(super) fn may_send_range(fields: &Headers, etag: &[u8], strong_date: Option<SystemTime>) -> bool {
    let mut lines = fields.named(IF_RANGE);
    // An entity-tag begins with its quotes or with `W/`, which is never strong.
    match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(line @ [b'"', ..]), None) => line == etag,
        (Some(_), None) => strong_date.is_some() && strong_date == fields.date(IF_RANGE.as_str()),
        (Some(_), Some(_)) => false,
    }
}

const IF_RANGE: Name<'static> = Name::new("if-range");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ETAG: &str = "\"v1\"";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn is_sent_if(lines: &[&str], etag: &str, has_strong_date: bool) -> bool {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let strong_date = has_strong_date.then_some(modified);
        let mut fields = Headers::new();
        lines.iter().for_each(|line| fields.append("if-range", *line).unwrap());
        may_send_range(&fields, etag.as_bytes(), strong_date)
    }

    #[test]
    fn a_range_is_sent_only_while_nothing_has_changed_13_1_5() {
        assert!(is_sent_if(&[], ETAG, true));
        assert!(is_sent_if(&[ETAG], ETAG, true) && is_sent_if(&[MODIFIED], ETAG, true));
        assert!(is_sent_if(&[ETAG], ETAG, false) && !is_sent_if(&[MODIFIED], ETAG, false));
        let (before, after) = ("Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        for line in ["", "*", "W/\"v1\"", "\"v2\"", "v1", "\"v1\", \"v1\"", before, after, "yesterday"] {
            assert!(!is_sent_if(&[line], ETAG, true), "{line}");
        }
        assert!(!is_sent_if(&["yesterday"], ETAG, false));
        assert!(!is_sent_if(&[ETAG, ETAG], ETAG, true));
        for tag in ["W/\"v1\"", "\"v1\"", "*"] {
            assert!(!is_sent_if(&[tag], "W/\"v1\"", true), "a weak tag never matches (§8.8.3.2)");
        }
    }
}
