//! [`evaluate`]: conditional requests (RFC 9110 §13).

use std::time::SystemTime;

use crate::message::{Headers, Name};

/// The validators of a representation, which distinguish its states (RFC 9110 §8.8).
#[derive(Clone, Copy, Debug)]
pub(super) struct Validators<'a> {
    /// In quotes, after `W/` if it is weak.
    pub(super) etag: &'a str,
    /// To the second.
    pub(super) modified: Option<SystemTime>,
    /// Whether the date denotes one state of one representation only (§8.8.1, §8.8.2.2): its second is over, and there
    /// is no other representation, which would have the same date.
    pub(super) is_date_strong: bool,
}

/// The result of the conditions of a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    /// 304: what the peer has stored is still valid.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates all conditions except If-Range, in the order of RFC 9110 §13.2.2.
pub(super) fn evaluate(fields: &Headers, current: Validators<'_>) -> Verdict {
    let Validators { etag, modified, .. } = current;
    if fields.first(IF_MATCH).is_some() {
        if !lists(fields, IF_MATCH, etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if date(fields, IF_UNMODIFIED_SINCE).is_some_and(|since| modified.is_some_and(|at| at > since)) {
        return Verdict::Failed;
    }
    if fields.first(IF_NONE_MATCH).is_some() {
        if lists(fields, IF_NONE_MATCH, etag, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if date(fields, IF_MODIFIED_SINCE).is_some_and(|since| modified.is_some_and(|at| at <= since)) {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

const IF_MATCH: Name<'static> = Name::new("if-match");
const IF_MODIFIED_SINCE: Name<'static> = Name::new("if-modified-since");
const IF_NONE_MATCH: Name<'static> = Name::new("if-none-match");
const IF_RANGE: Name<'static> = Name::new("if-range");
const IF_UNMODIFIED_SINCE: Name<'static> = Name::new("if-unmodified-since");

/// Whether a Range field is honored: the representation that the peer has a part of is still the same (RFC 9110
/// §13.1.5).
pub(super) fn range_counts(fields: &Headers, current: Validators<'_>) -> bool {
    let mut lines = fields.named(IF_RANGE);
    // An entity-tag begins with its quotes or with `W/`, which is never strong.
    match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(line @ [b'"', ..]), None) => line == current.etag.as_bytes(),
        (Some(_), None) => {
            let since = fields.date(IF_RANGE.as_str());
            current.is_date_strong && since.is_some() && since == current.modified
        }
        (Some(_), Some(_)) => false,
    }
}

/// How two entity-tags are compared (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a field, over all its lines, is `*` or lists `etag`. What follows a mistake is ignored.
fn lists(fields: &Headers, name: Name<'_>, etag: &str, comparison: Comparison) -> bool {
    fields.named(name).any(|line| line == b"*" || tags(line).any(|tag| tag.is(etag, comparison)))
}

struct EntityTag<'a> {
    is_weak: bool,
    /// In quotes.
    opaque: &'a [u8],
}

impl EntityTag<'_> {
    fn is(&self, etag: &str, comparison: Comparison) -> bool {
        match (comparison, etag.strip_prefix("W/")) {
            (Comparison::Strong, None) => !self.is_weak && self.opaque == etag.as_bytes(),
            (Comparison::Strong, Some(_)) => false,
            (Comparison::Weak, weak) => self.opaque == weak.unwrap_or(etag).as_bytes(),
        }
    }
}

/// `#entity-tag`. A backslash does not escape here, so this differs from other lists (RFC 9110 §8.8.3).
fn tags(line: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let (is_weak, text) = match rest {
            [b'W', b'/', opaque @ ..] => (true, opaque),
            opaque => (false, opaque),
        };
        let is_etagc = |octet: &u8| matches!(octet, 0x21 | 0x23..=0x7e | 0x80..);
        let len = text.strip_prefix(b"\"")?.iter().take_while(|octet| is_etagc(octet)).count();
        let (opaque, after) = text.split_at_checked(len + 2).filter(|(tag, _)| tag.ends_with(b"\""))?;
        rest = after.trim_ascii_start();
        // A comma or the end must follow a tag.
        if !matches!(rest, [] | [b',', ..]) {
            rest = &[];
            return None;
        }
        Some(EntityTag { is_weak, opaque })
    })
}

/// The date of a field with a single valid line; others are ignored (RFC 9110 §13.1.3, §13.1.4).
#[inline]
fn date(fields: &Headers, name: Name<'_>) -> Option<SystemTime> {
    let mut lines = fields.named(name);
    let is_alone = lines.next().is_some() && lines.next().is_none();
    is_alone.then(|| fields.date(name.as_str())).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ETAG: &str = "\"v1\"";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn current() -> Validators<'static> {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        Validators { etag: ETAG, modified: Some(modified), is_date_strong: true }
    }

    fn fields(lines: &[(&str, &str)]) -> Headers {
        let mut fields = Headers::new();
        lines.iter().for_each(|(name, value)| fields.append(name, *value).unwrap());
        fields
    }

    #[track_caller]
    fn check(name: &str, value: &str, expected: Verdict) {
        assert_eq!(evaluate(&fields(&[(name, value)]), current()), expected, "{name}: {value}");
    }

    #[test]
    fn entity_tags_are_compared_13_1_1_13_1_2() {
        let same =
            [ETAG, "*", "\"a\", \"v1\"", "\"v1\",\"a\"", "\"a,b\", \"v1\"", ",, \"v1\"", "\"a\\\",\"v1\""];
        for list in same {
            check("if-match", list, Verdict::Proceed);
            check("if-none-match", list, Verdict::NotModified);
        }
        check("if-match", "W/\"v1\"", Verdict::Failed);
        check("if-none-match", "W/\"v1\"", Verdict::NotModified);
        check("if-none-match", "\"a\", W/\"v1\"", Verdict::NotModified);
        let others = [
            "",
            "\"v2\"",
            "v1",
            "\"V1\"",
            "\"v1",
            "v1\"",
            "w/\"v1\"",
            "\"v 1\"",
            "\"\"",
            "\"",
            "W/",
            "\"a\" \"v1\"",
            "\"v1\"x",
            "x, \"v1\"",
            "*, \"v1\"x",
            "\"a,\"v1\",b\"",
            "\"v1\" \"a\"",
        ];
        for list in others {
            check("if-match", list, Verdict::Failed);
            check("if-none-match", list, Verdict::Proceed);
        }
    }

    #[test]
    fn a_weak_etag_matches_only_by_weak_comparison_8_8_3_2() {
        let weak = Validators { etag: "W/\"v1\"", ..current() };
        for (tag, seen) in
            [("W/\"v1\"", true), ("\"v1\"", true), ("*", true), ("\"v2\"", false), ("W/\"v2\"", false)]
        {
            let seen = if seen { Verdict::NotModified } else { Verdict::Proceed };
            assert_eq!(evaluate(&fields(&[("if-none-match", tag)]), weak), seen, "{tag}");
            let matches = if tag == "*" { Verdict::Proceed } else { Verdict::Failed };
            assert_eq!(evaluate(&fields(&[("if-match", tag)]), weak), matches, "{tag}");
            assert!(!range_counts(&fields(&[("if-range", tag)]), weak), "{tag}");
        }
    }

    #[test]
    fn dates_are_compared_to_the_second_13_1_3_13_1_4() {
        check("if-modified-since", BEFORE, Verdict::Proceed);
        check("if-modified-since", MODIFIED, Verdict::NotModified);
        check("if-modified-since", AFTER, Verdict::NotModified);
        check("if-unmodified-since", BEFORE, Verdict::Failed);
        check("if-unmodified-since", MODIFIED, Verdict::Proceed);
        check("if-unmodified-since", AFTER, Verdict::Proceed);
        for name in ["if-modified-since", "if-unmodified-since"] {
            for value in ["", "0", "yesterday", "\"v1\"", "Sun, 06 Nov 1994 08:49:37", "-1"] {
                check(name, value, Verdict::Proceed);
            }
            let twice = fields(&[(name, BEFORE), (name, MODIFIED)]);
            assert_eq!(evaluate(&twice, current()), Verdict::Proceed, "two dates are none");
            let undated = Validators { modified: None, ..current() };
            assert_eq!(evaluate(&fields(&[(name, BEFORE)]), undated), Verdict::Proceed, "there is no date");
        }
    }

    /// All conditions together, each absent, true and false: the first that decides wins.
    #[test]
    fn conditions_are_evaluated_in_their_order_13_2_2() {
        let tag = [None, Some(("\"v1\"", true)), Some(("\"v2\"", false))];
        let date = [None, Some((MODIFIED, true)), Some((BEFORE, false))];
        for row in 0..81 {
            let conditions = [tag[row % 3], date[row / 3 % 3], tag[row / 9 % 3], date[row / 27]];
            let names = ["if-match", "if-unmodified-since", "if-none-match", "if-modified-since"];
            let lines = names.iter().zip(conditions).filter_map(|(name, set)| Some((*name, set?.0)));
            let [matches, unmodified, seen, since] = conditions.map(|set| set.map(|(_, holds)| holds));
            let expected = match (matches.or(unmodified), seen.or(since)) {
                (Some(false), _) => Verdict::Failed,
                (_, Some(true)) => Verdict::NotModified,
                (_, Some(false) | None) => Verdict::Proceed,
            };
            assert_eq!(evaluate(&fields(&Vec::from_iter(lines)), current()), expected, "{conditions:?}");
        }
    }

    #[test]
    fn a_range_counts_only_while_nothing_has_changed_13_1_5() {
        let counts = |value: &str, current| range_counts(&fields(&[("if-range", value)]), current);
        assert!(range_counts(&Headers::new(), current()));
        assert!(counts(ETAG, current()) && counts(MODIFIED, current()));
        let shared = Validators { is_date_strong: false, ..current() };
        assert!(counts(ETAG, shared) && !counts(MODIFIED, shared));
        for value in ["", "*", "W/\"v1\"", "\"v2\"", "v1", "\"v1\", \"v1\"", BEFORE, AFTER, "yesterday"] {
            assert!(!counts(value, current()), "{value}");
        }
        assert!(!counts(MODIFIED, Validators { modified: None, ..current() }));
        assert!(!counts("yesterday", Validators { modified: None, ..current() }));
        assert!(!range_counts(&fields(&[("if-range", ETAG), ("if-range", ETAG)]), current()));
    }
}
