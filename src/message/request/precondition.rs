//! [`evaluate_preconditions`]: conditional requests (RFC 9110 §13).

use std::time::SystemTime;

use super::request::Request;
use crate::message::{FieldName, Headers, Method};

/// The validators of a representation, which distinguish its states (RFC 9110 §8.8). Without any, there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// In quotes, after `W/` if it is weak.
    pub(crate) etag: Option<&'a [u8]>,
    /// To the second.
    pub(crate) modified: Option<SystemTime>,
}

/// The result of the preconditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreconditionResult {
    Proceed,
    /// 304: what the peer has stored is still valid.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates all preconditions except If-Range, in the order of RFC 9110 §13.2.2.
pub(crate) fn evaluate_preconditions(request: &Request, current: Validators<'_>) -> PreconditionResult {
    let fields = &request.headers;
    let modified = current.modified;
    let is_read = match request.method() {
        Method::Connect | Method::Options | Method::Trace => return PreconditionResult::Proceed,
        // A QUERY selects the representation that a GET for its equivalent resource would (RFC 10008 §2.6).
        Method::Get | Method::Head | Method::Query => true,
        _ => false,
    };
    if fields.first(IF_MATCH).is_some() {
        if !lists(fields, IF_MATCH, current, Comparison::Strong) {
            return PreconditionResult::Failed;
        }
    } else if date(fields, IF_UNMODIFIED_SINCE).is_some_and(|since| modified.is_some_and(|at| at > since)) {
        return PreconditionResult::Failed;
    }
    if fields.first(IF_NONE_MATCH).is_some() {
        return match lists(fields, IF_NONE_MATCH, current, Comparison::Weak) {
            true if is_read => PreconditionResult::NotModified,
            true => PreconditionResult::Failed,
            false => PreconditionResult::Proceed,
        };
    }
    match date(fields, IF_MODIFIED_SINCE) {
        Some(since) if is_read && modified.is_some_and(|at| at <= since) => PreconditionResult::NotModified,
        _ => PreconditionResult::Proceed,
    }
}

const IF_MATCH: FieldName<'static> = FieldName::new("if-match");
const IF_MODIFIED_SINCE: FieldName<'static> = FieldName::new("if-modified-since");
const IF_NONE_MATCH: FieldName<'static> = FieldName::new("if-none-match");
const IF_UNMODIFIED_SINCE: FieldName<'static> = FieldName::new("if-unmodified-since");

/// How two entity-tags are compared (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a field, over all its lines, lists the current etag, or is `*` while there is a representation. The rest
/// of a malformed line is ignored.
fn lists(fields: &Headers, name: FieldName<'_>, current: Validators<'_>, comparison: Comparison) -> bool {
    let Validators { etag, modified } = current;
    fields.named(name).any(|line| match (line, etag) {
        (b"*", _) => etag.is_some() || modified.is_some(),
        (line, Some(etag)) => entity_tags(line).any(|tag| tag.is(etag, comparison)),
        (_, None) => false,
    })
}

struct EntityTag<'a> {
    is_weak: bool,
    /// In quotes.
    opaque: &'a [u8],
}

impl EntityTag<'_> {
    fn is(&self, etag: &[u8], comparison: Comparison) -> bool {
        match (comparison, etag.strip_prefix(b"W/")) {
            (Comparison::Strong, None) => !self.is_weak && self.opaque == etag,
            (Comparison::Strong, Some(_)) => false,
            (Comparison::Weak, weak) => self.opaque == weak.unwrap_or(etag),
        }
    }
}

/// `#entity-tag`. A backslash does not escape here, so this differs from other lists (RFC 9110 §8.8.3).
fn entity_tags(line: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
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
        matches!(rest, [] | [b',', ..]).then_some(EntityTag { is_weak, opaque })
    })
}

/// The date of a field with a single valid line; others are ignored (RFC 9110 §13.1.3, §13.1.4).
fn date(fields: &Headers, name: FieldName<'_>) -> Option<SystemTime> {
    let mut lines = fields.named(name);
    let is_alone = lines.next().is_some() && lines.next().is_none();
    is_alone.then(|| fields.date(name.as_str())).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::{Response, Status};

    const ETAG: &str = "\"v1\"";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn current() -> Validators<'static> {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        Validators { etag: Some(ETAG.as_bytes()), modified: Some(modified) }
    }

    fn asks(method: Method, lines: &[(&str, &str)]) -> Request {
        let mut request = Request::new(method, "/").unwrap();
        lines.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        request
    }

    fn get(lines: &[(&str, &str)]) -> Request {
        asks(Method::Get, lines)
    }

    #[track_caller]
    fn check(name: &str, value: &str, expected: PreconditionResult) {
        assert_eq!(evaluate_preconditions(&get(&[(name, value)]), current()), expected, "{name}: {value}");
    }

    #[test]
    fn entity_tags_are_compared_rfc9110_13_1() {
        let same = [
            ETAG,
            "*",
            "\"a\", \"v1\"",
            "\"a\"\t,\"v1\"",
            "\"v1\",\"a\"",
            "\"a,b\", \"v1\"",
            ",, \"v1\"",
            "\"a\\\",\"v1\"",
            "\"!\", \"v1\"",
            "\"\u{e9}\", \"v1\"",
        ];
        for list in same {
            check("if-match", list, PreconditionResult::Proceed);
            check("if-none-match", list, PreconditionResult::NotModified);
        }
        check("if-match", "W/\"v1\"", PreconditionResult::Failed);
        check("if-none-match", "W/\"v1\"", PreconditionResult::NotModified);
        check("if-none-match", "\"a\", W/\"v1\"", PreconditionResult::NotModified);
        let lines = get(&[("if-match", "\"a\""), ("if-match", "\"v1\"")]);
        assert_eq!(
            evaluate_preconditions(&lines, current()),
            PreconditionResult::Proceed,
            "the list is that of all lines"
        );
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
            "\"a , \"v1\"",
            "\"v1\" \"a\"",
        ];
        for list in others {
            check("if-match", list, PreconditionResult::Failed);
            check("if-none-match", list, PreconditionResult::Proceed);
        }
    }

    #[test]
    fn a_weak_etag_matches_only_by_weak_comparison_rfc9110_8_8_3_2() {
        let weak = Validators { etag: Some(b"W/\"v1\""), ..current() };
        for (tag, seen) in
            [("W/\"v1\"", true), ("\"v1\"", true), ("*", true), ("\"v2\"", false), ("W/\"v2\"", false)]
        {
            let seen = if seen { PreconditionResult::NotModified } else { PreconditionResult::Proceed };
            assert_eq!(evaluate_preconditions(&get(&[("if-none-match", tag)]), weak), seen, "{tag}");
            let matches = if tag == "*" { PreconditionResult::Proceed } else { PreconditionResult::Failed };
            assert_eq!(evaluate_preconditions(&get(&[("if-match", tag)]), weak), matches, "{tag}");
        }
    }

    #[test]
    fn dates_are_compared_to_the_second_rfc9110_13_1() {
        check("if-modified-since", BEFORE, PreconditionResult::Proceed);
        check("if-modified-since", MODIFIED, PreconditionResult::NotModified);
        check("if-modified-since", AFTER, PreconditionResult::NotModified);
        check("if-unmodified-since", BEFORE, PreconditionResult::Failed);
        check("if-unmodified-since", MODIFIED, PreconditionResult::Proceed);
        check("if-unmodified-since", AFTER, PreconditionResult::Proceed);
        for name in ["if-modified-since", "if-unmodified-since"] {
            for value in ["", "0", "yesterday", "\"v1\"", "Sun, 06 Nov 1994 08:49:37", "-1"] {
                check(name, value, PreconditionResult::Proceed);
            }
            let twice = get(&[(name, BEFORE), (name, MODIFIED)]);
            assert_eq!(
                evaluate_preconditions(&twice, current()),
                PreconditionResult::Proceed,
                "two dates are none"
            );
            let undated = Validators { modified: None, ..current() };
            assert_eq!(
                evaluate_preconditions(&get(&[(name, BEFORE)]), undated),
                PreconditionResult::Proceed,
                "there is no date"
            );
        }
    }

    /// All conditions together, each absent, true and false: the first that decides wins.
    #[test]
    fn conditions_are_evaluated_in_their_order_rfc9110_13_2_2() {
        let tag = [None, Some(("\"v1\"", true)), Some(("\"v2\"", false))];
        let date = [None, Some((MODIFIED, true)), Some((BEFORE, false))];
        for row in 0..81 {
            let conditions = [tag[row % 3], date[row / 3 % 3], tag[row / 9 % 3], date[row / 27]];
            let names = ["if-match", "if-unmodified-since", "if-none-match", "if-modified-since"];
            let lines = names.iter().zip(conditions).filter_map(|(name, set)| Some((*name, set?.0)));
            let [matches, unmodified, seen, since] = conditions.map(|set| set.map(|(_, holds)| holds));
            let expected = match (matches.or(unmodified), seen.or(since)) {
                (Some(false), _) => PreconditionResult::Failed,
                (_, Some(true)) => PreconditionResult::NotModified,
                (_, Some(false) | None) => PreconditionResult::Proceed,
            };
            assert_eq!(
                evaluate_preconditions(&get(&Vec::from_iter(lines)), current()),
                expected,
                "{conditions:?}"
            );
        }
    }

    #[test]
    fn a_method_that_changes_a_representation_gets_412_rfc9110_13_1_2() {
        for method in [Method::Post, Method::Put, Method::Delete, Method::Patch] {
            let result = |name, value| evaluate_preconditions(&asks(method, &[(name, value)]), current());
            assert_eq!(result("if-none-match", "W/\"v1\""), PreconditionResult::Failed, "{method}");
            assert_eq!(result("if-none-match", "\"v2\""), PreconditionResult::Proceed, "{method}");
            assert_eq!(
                result("if-modified-since", AFTER),
                PreconditionResult::Proceed,
                "{method}: only for GET and HEAD"
            );
            assert_eq!(result("if-match", "\"v2\""), PreconditionResult::Failed, "{method}");
            assert_eq!(result("if-unmodified-since", BEFORE), PreconditionResult::Failed, "{method}");
        }
        for method in [Method::Connect, Method::Options, Method::Trace] {
            let request = asks(method, &[("if-match", "\"v2\""), ("if-none-match", "*")]);
            assert_eq!(
                evaluate_preconditions(&request, current()),
                PreconditionResult::Proceed,
                "{method}: nothing is selected (§13.2.1)"
            );
        }
    }

    #[test]
    fn a_query_is_conditional_as_a_get_is_rfc10008_2_6() {
        for (name, value) in [
            ("if-match", ETAG),
            ("if-match", "\"v2\""),
            ("if-none-match", ETAG),
            ("if-none-match", "W/\"v1\""),
            ("if-none-match", "\"v2\""),
            ("if-modified-since", BEFORE),
            ("if-modified-since", AFTER),
            ("if-unmodified-since", BEFORE),
            ("if-unmodified-since", AFTER),
        ] {
            let [query, get] = [Method::Query, Method::Get]
                .map(|method| evaluate_preconditions(&asks(method, &[(name, value)]), current()));
            assert_eq!(query, get, "{name}: {value}");
        }
    }

    #[test]
    fn any_is_none_where_nothing_exists_rfc9110_13_1() {
        let dated = Validators { etag: None, ..current() };
        let nothing = Validators { etag: None, modified: None };
        let tagged = Validators { modified: None, ..current() };
        for (current, exists) in [(dated, true), (tagged, true), (nothing, false)] {
            let result = |name| {
                evaluate_preconditions(&asks(Method::Put, &[(name, "*")]), current)
                    == PreconditionResult::Proceed
            };
            assert_eq!((result("if-match"), result("if-none-match")), (exists, !exists), "{current:?}");
        }
        for current in [dated, nothing] {
            assert_eq!(
                evaluate_preconditions(&get(&[("if-match", ETAG)]), current),
                PreconditionResult::Failed,
                "it has no such tag"
            );
            assert_eq!(
                evaluate_preconditions(&get(&[("if-none-match", ETAG)]), current),
                PreconditionResult::Proceed
            );
        }
    }

    #[test]
    fn a_response_becomes_what_its_preconditions_demand() {
        let respond = |status, request: &Request| {
            let mut response = Response::new();
            response.set_text("first");
            response.headers.set("etag", ETAG).unwrap();
            response.headers.set("last-modified", MODIFIED).unwrap();
            response.headers.set("vary", "accept").unwrap();
            response.headers.set("cache-control", "max-age=60").unwrap();
            response.headers.set("expires", "Fri, 31 Dec 9999 23:59:59 GMT").unwrap();
            response.trailers.set("x-sum", 1).unwrap();
            response.status = status;
            let hold = response.check_preconditions(request);
            let names = response.headers.iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
            (hold, response.status, names, response.body.len() + response.trailers.len())
        };
        let whole = |status| {
            (true, status, "content-type etag last-modified vary cache-control expires".to_owned(), 6)
        };
        let seen = get(&[("if-none-match", ETAG)]);
        let changed = get(&[("if-unmodified-since", BEFORE)]);
        let not_modified =
            (false, Status::NOT_MODIFIED, "etag last-modified vary cache-control expires".to_owned(), 0);
        let failed = (false, Status::PRECONDITION_FAILED, "etag vary".to_owned(), 0);
        assert_eq!(respond(Status::OK, &get(&[])), whole(Status::OK));
        assert_eq!(respond(Status::OK, &seen), not_modified);
        assert_eq!(respond(Status::CREATED, &changed), failed);
        for status in [Status::NOT_FOUND, Status::SEE_OTHER] {
            assert_eq!(respond(status, &seen), whole(status), "§13.2.1");
        }
    }
}
