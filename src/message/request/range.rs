//! [`RangeSelection`]: which bytes of a representation are requested, and whether they may be sent (RFC 9110 §13.1.5, §14).

use std::ops::Range;
use std::time::SystemTime;

use crate::message::{FieldName, Headers, members, saturating_decimal};

/// The bytes that a Range field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeSelection {
    /// The whole representation, because there is no such field or it is ignored.
    Whole,
    /// These ranges. None of them is empty, and no two are close to each other.
    Ranges(Vec<Range<u64>>),
    /// No bytes that exist: 416.
    Unsatisfiable,
}

impl RangeSelection {
    /// Evaluates the fields of a GET, or of a QUERY, for `len` bytes.
    ///
    /// A field that is malformed, in another unit, or has more than [`RANGES_MAX`] ranges is ignored (RFC 9110 §14.2).
    /// So is any field where there are no bytes: Content-Range cannot express an empty representation, and 416 would
    /// deny that there is one. Ranges that overlap, or whose gap is smaller than the head of a part, are merged
    /// (§15.3.7.2); so a response is never longer than the whole representation by more than the head of one part.
    pub(crate) fn from_fields(fields: &Headers, len: u64) -> RangeSelection {
        let mut lines = fields.named(FieldName::RANGE);
        match (lines.next(), lines.next()) {
            _ if len == 0 => RangeSelection::Whole,
            (Some(line), None) => RangeSelection::parse(line, len).unwrap_or(RangeSelection::Whole),
            _ => RangeSelection::Whole,
        }
    }

    fn parse(line: &[u8], len: u64) -> Option<RangeSelection> {
        let (unit, set) = line.split_at_checked(UNIT.len())?;
        if !unit.eq_ignore_ascii_case(UNIT) {
            return None;
        }
        let mut ranges = Vec::new();
        let mut count = 0;
        for spec in members(set) {
            count += 1;
            match RangeSpec::parse(spec)?.satisfiable(len) {
                _ if count > RANGES_MAX => return None,
                Some(range) => merge(&mut ranges, range),
                None => {}
            }
        }
        match (count, ranges.is_empty()) {
            (0, _) => None,
            (_, true) => Some(RangeSelection::Unsatisfiable),
            (_, false) => Some(RangeSelection::Ranges(ranges)),
        }
    }
}

const UNIT: &[u8] = b"bytes=";

/// How many ranges may be requested at once.
const RANGES_MAX: usize = 16;

/// Two ranges with a smaller gap are sent as one: the head of a part would be as long.
const GAP_MIN: u64 = 256;

/// `range-spec` (RFC 9110 §14.1.1).
enum RangeSpec {
    /// From a position to another, which is included, or to the end.
    Between(u64, Option<u64>),
    Last(u64),
}

impl RangeSpec {
    fn parse(spec: &[u8]) -> Option<RangeSpec> {
        let dash = spec.iter().position(|octet| *octet == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            ([], suffix) => Some(RangeSpec::Last(saturating_decimal(suffix)?)),
            (first, []) => Some(RangeSpec::Between(saturating_decimal(first)?, None)),
            (first, last) => {
                let (first, last) = (saturating_decimal(first)?, saturating_decimal(last)?);
                (first <= last).then_some(RangeSpec::Between(first, Some(last)))
            }
        }
    }

    /// The part of the range that exists, if any does.
    fn satisfiable(self, len: u64) -> Option<Range<u64>> {
        match self {
            RangeSpec::Last(0) => None,
            RangeSpec::Last(suffix) => Some(len.saturating_sub(suffix)..len),
            RangeSpec::Between(first, _) if first >= len => None,
            RangeSpec::Between(first, last) => {
                Some(first..last.map_or(len, |last| last.saturating_add(1).min(len)))
            }
        }
    }
}

/// Adds a range, in place of the first one that it merges with.
fn merge(ranges: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    debug_assert!(!range.is_empty(), "an unsatisfiable range is left out");
    let mut place = ranges.len();
    while let Some(near) = ranges.iter().position(|other| is_near(other, &range)) {
        let other = ranges.remove(near);
        range = range.start.min(other.start)..range.end.max(other.end);
        place = near.min(place).min(ranges.len());
    }
    ranges.insert(place, range);
}

fn is_near(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end.saturating_add(GAP_MIN) && other.start < one.end.saturating_add(GAP_MIN)
}

/// Whether a Range field is honored (RFC 9110 §13.1.5): there is no If-Range field, or it matches the representation,
/// so that the part that the peer has is one of the same representation.
pub(crate) fn may_send_range(fields: &Headers, etag: &[u8], strong_date: Option<SystemTime>) -> bool {
    let mut lines = fields.named(IF_RANGE);
    // An entity-tag begins with its quotes or with `W/`, which is never strong.
    match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(line @ [b'"', ..]), None) => line == etag,
        (Some(_), None) => strong_date.is_some() && strong_date == fields.date(IF_RANGE.as_str()),
        (Some(_), Some(_)) => false,
    }
}

const IF_RANGE: FieldName<'static> = FieldName::new("if-range");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::{Method, Request, Response, Status};

    const ETAG: &str = "\"v1\"";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    #[track_caller]
    fn check(field: &str, len: u64, expected: RangeSelection) {
        let mut fields = Headers::new();
        fields.set("range", field).unwrap();
        assert_eq!(RangeSelection::from_fields(&fields, len), expected, "{field} of {len}");
    }

    #[track_caller]
    fn check_ranges(field: &str, len: u64, expected: &[(u64, u64)]) {
        let ranges = expected.iter().map(|(start, end)| *start..*end).collect();
        check(field, len, RangeSelection::Ranges(ranges));
    }

    #[test]
    fn a_range_has_a_first_position_a_last_or_a_length_rfc9110_14_1_2() {
        check_ranges("bytes=0-0", 10, &[(0, 1)]);
        check_ranges("bytes=0-9", 10, &[(0, 10)]);
        check_ranges("bytes=9-9", 10, &[(9, 10)]);
        check_ranges("bytes=9-10", 10, &[(9, 10)]);
        check_ranges("bytes=5-", 10, &[(5, 10)]);
        check_ranges("bytes=-5", 10, &[(5, 10)]);
        check_ranges("bytes=-1", 10, &[(9, 10)]);
        check_ranges("bytes=-10", 10, &[(0, 10)]);
        check_ranges("bytes=-11", 10, &[(0, 10)]);
        check_ranges("bytes=0-999999", 10, &[(0, 10)]);
        check_ranges("bytes=0-99999999999999999999999999", 10, &[(0, 10)]);
        check_ranges("bytes=0-18446744073709551615", 10, &[(0, 10)]);
        check_ranges("BYTES=1-2", 10, &[(1, 3)]);
        check_ranges("bytes=, 1-2 ,", 10, &[(1, 3)]);
        check_ranges("bytes=20-30, 1-2", 10, &[(1, 3)]);
    }

    #[test]
    fn ranges_beyond_the_end_select_nothing_rfc9110_15_5_17() {
        for field in ["bytes=10-", "bytes=10-10", "bytes=99-100", "bytes=-0", "bytes=10-,-0"] {
            check(field, 10, RangeSelection::Unsatisfiable);
        }
        check("bytes=99999999999999999999999-", 10, RangeSelection::Unsatisfiable);
    }

    /// A client that requests all of a file in ranges would take 416 for a failure.
    #[test]
    fn every_range_of_an_empty_file_selects_all_of_it_rfc9110_14_2() {
        for field in ["0-", "0-0", "0-99", "5-", "99999999999999999999999-", "-0", "-5", "0-,5-9", "5-2", "x"]
        {
            check(&format!("bytes={field}"), 0, RangeSelection::Whole);
        }
    }

    #[test]
    fn a_malformed_range_is_ignored_rfc9110_14_2() {
        let bad = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= , ",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=5-2",
            "bytes=20-15",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=0x1-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=1 - 2",
            "bytes=1-2;",
            "bytes=0-0,x",
            "bytes=0-0,5-2",
            "lines=0-1",
            "garbage",
            "byte=0-1",
            "bytes =0-1",
            "bytes:0-1",
            "bytes=1-\u{b2}",
            "0-1",
        ];
        bad.iter().for_each(|field| check(field, 10, RangeSelection::Whole));
        let mut two = Headers::new();
        two.append("range", "bytes=0-1").unwrap();
        two.append("range", "bytes=3-4").unwrap();
        assert_eq!(RangeSelection::from_fields(&two, 10), RangeSelection::Whole);
    }

    #[test]
    fn ranges_close_to_each_other_become_one_rfc9110_15_3_7_2() {
        check_ranges("bytes=0-1,3-4", 10, &[(0, 5)]);
        check_ranges("bytes=0-9,1000-1009", 2000, &[(0, 10), (1000, 1010)]);
        check_ranges("bytes=1000-1009,0-9", 2000, &[(1000, 1010), (0, 10)]);
        check_ranges("bytes=0-9,266-300", 2000, &[(0, 10), (266, 301)]);
        check_ranges("bytes=0-9,265-300", 2000, &[(0, 301)]);
        check_ranges("bytes=266-300,0-9", 2000, &[(266, 301), (0, 10)]);
        check_ranges("bytes=265-300,0-9", 2000, &[(0, 301)]);
        check_ranges("bytes=0-9,1000-1009,5-1005", 2000, &[(0, 1010)]);
        check_ranges("bytes=1900-,0-0,-1", 2000, &[(1900, 2000), (0, 1)]);
        let same = ["0-"; RANGES_MAX].join(",");
        check_ranges(&format!("bytes={same}"), 2000, &[(0, 2000)]);
        check(&format!("bytes={same},0-"), 2000, RangeSelection::Whole);
    }

    fn is_sent_if(lines: &[&str], etag: &str, has_strong_date: bool) -> bool {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let strong_date = has_strong_date.then_some(modified);
        let mut fields = Headers::new();
        lines.iter().for_each(|line| fields.append("if-range", *line).unwrap());
        may_send_range(&fields, etag.as_bytes(), strong_date)
    }

    #[test]
    fn a_range_is_sent_only_while_nothing_has_changed_rfc9110_13_1_5() {
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

    /// Of `len` bytes with the etag `"v1"`, a request gets this range, and a response with this status and field.
    #[track_caller]
    fn check_response(
        (method, range, if_range): (Method, &str, Option<&str>),
        len: u64,
        expected: (u16, Option<&str>, Option<Range<u64>>),
    ) {
        let mut request = Request::new(method, "/").unwrap();
        let mut response = Response::new();
        request.headers.set("range", range).unwrap();
        if let Some(value) = if_range {
            request.headers.set("if-range", value).unwrap();
        }
        response.headers.set("etag", ETAG).unwrap();
        response.headers.set("cache-control", "max-age=60").unwrap();
        let found = response.check_range(&request, len);
        let found = (response.status.as_u16(), response.headers.get("content-range"), found);
        assert_eq!(found, expected, "{method} {range:?} {if_range:?} of {len}");
        assert_eq!(response.headers.get("accept-ranges"), Some("bytes"));
        assert_eq!(response.headers.contains("cache-control"), expected.0 != 416);
    }

    #[test]
    fn a_response_is_a_part_or_the_whole_or_a_refusal_rfc9110_14_2() {
        let get = |range| (Method::Get, range, None);
        check_response(get("bytes=2-4"), 10, (206, Some("bytes 2-4/10"), Some(2..5)));
        check_response(get("bytes=-3"), 10, (206, Some("bytes 7-9/10"), Some(7..10)));
        check_response(get("bytes=0-"), 10, (206, Some("bytes 0-9/10"), Some(0..10)));
        check_response(get("bytes=0-1,4-5"), 10, (206, Some("bytes 0-5/10"), Some(0..6)));
        check_response(get("bytes=10-"), 10, (416, Some("bytes */10"), None));
        for whole in ["bytes=x", "items=0-1", "bytes=4-2", "bytes=0-1,8000-8001"] {
            check_response(get(whole), 10_000, (200, None, Some(0..10_000)));
        }
        check_response(get("bytes=0-"), 0, (200, None, Some(0..0)));
        check_response((Method::Query, "bytes=2-4", None), 10, (206, Some("bytes 2-4/10"), Some(2..5)));
        check_response((Method::Head, "bytes=2-4", None), 10, (200, None, Some(0..10)));
        check_response((Method::Post, "bytes=2-4", None), 10, (200, None, Some(0..10)));
        check_response((Method::Get, "bytes=2-4", Some(ETAG)), 10, (206, Some("bytes 2-4/10"), Some(2..5)));
        for other in ["\"v2\"", "W/\"v1\"", MODIFIED, ""] {
            check_response((Method::Get, "bytes=2-4", Some(other)), 10, (200, None, Some(0..10)));
        }
        let mut response = Response { status: Status::CREATED, ..Response::new() };
        let mut request = Request::get("/").unwrap();
        request.headers.set("range", "bytes=2-4").unwrap();
        assert_eq!((response.check_range(&request, 10), response.headers.len()), (Some(0..10), 0));
    }
}
