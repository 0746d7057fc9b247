//! Fields that are lists: their members, the weights of those, and parameters (RFC 9110 §5.6.1, §5.6.6, §12.4.2).

use std::borrow::Cow;

use super::headers::Headers;
use super::name::FieldName;
use super::parameters::Parameters;
use super::value::{members, trim};

impl Headers {
    /// Returns the members of the comma-separated list in this field, over all its lines, in order and without
    /// surrounding whitespace (RFC 9110 §5.6.1). A comma in a quoted string does not separate members.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Headers;
    ///
    /// let mut headers = Headers::new();
    /// headers.append("cache-control", "no-cache, max-age=60")?;
    /// headers.append("cache-control", "private=\"a, b\"")?;
    /// let members: Vec<_> = headers.members("cache-control").collect();
    /// assert_eq!(members, [&b"no-cache"[..], b"max-age=60", b"private=\"a, b\""]);
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    pub fn members<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.named(FieldName::new(name)).flat_map(members)
    }

    /// Returns the members of the list in this field, such as `accept-language`, with their weights in thousandths (RFC
    /// 9110 §12.4.2). A member without a weight has 1,000, and a member refused by the peer has 0.
    ///
    /// The members are in the order in which they were sent. A member that is not UTF-8 or has a malformed weight is
    /// left out. Parameters before the weight are part of the member.
    ///
    /// [`Request::preferred_type`](crate::Request::preferred_type) and its siblings choose by these weights.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("/")?;
    /// request.headers.set("accept-language", "de-CH, de;q=0.9, *;q=0.5")?;
    /// let weighted: Vec<_> = request.headers.weighted("accept-language").collect();
    /// assert_eq!(weighted, [("de-CH", 1000), ("de", 900), ("*", 500)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("q-value", "qvalue", "quality", "QualityItem"))]
    pub fn weighted<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, u16)> {
        let split = |member| {
            let (value, weight) = split_weight(member)?;
            Some((str::from_utf8(value).ok()?, weight))
        };
        self.members(name).filter_map(split)
    }

    /// Returns the value of a parameter of this field, without quotes (RFC 9110 §5.6.6): `parameter("content-type",
    /// "charset")`. [`Parameters`] reads all of them, also those of a member of a list.
    ///
    /// `None` for a missing or repeated parameter, for malformed ones, and for a field of several lines.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new(); // or one that a client received
    /// response.headers.set("content-disposition", "attachment; filename=\"a; b.txt\"")?;
    /// assert_eq!(response.headers.parameter("content-disposition", "filename").as_deref(), Some("a; b.txt"));
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    pub fn parameter(&self, name: &str, parameter: &str) -> Option<Cow<'_, str>> {
        let field = self.single(FieldName::new(name)).ok()??;
        match Parameters::split(field).1.get(parameter).ok()?? {
            Cow::Borrowed(value) => str::from_utf8(value).ok().map(Cow::Borrowed),
            Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
        }
    }
}

/// Splits a member into its value and its weight in thousandths: `value [ weight ]`. `None` if the weight is malformed.
fn split_weight(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(at) = member.iter().rposition(|octet| *octet == b';') else { return Some((member, WEIGHT_MAX)) };
    match trim(&member[at + 1..]) {
        // A quote at the end closes a quoted string, which the semicolon is in.
        [b'q' | b'Q', b'=', weight @ ..] if !weight.ends_with(b"\"") => {
            Some((trim(&member[..at]), quality(weight)?))
        }
        _ => Some((member, WEIGHT_MAX)),
    }
}

/// The weight of a member that has none.
const WEIGHT_MAX: u16 = 1000;

/// `qvalue`, in thousandths.
fn quality(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut quality = match whole {
        b'0' => 0,
        b'1' => WEIGHT_MAX,
        _ => return None,
    };
    for (digit, worth) in decimals.iter().zip([100, 10, 1]) {
        quality += worth * u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (quality <= WEIGHT_MAX).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &[u8], expected: &[(&str, u16)]) {
        let mut headers = Headers::new();
        // A `|` begins another line, over which a list may be spread (§5.3).
        for line in value.split(|octet| *octet == b'|') {
            headers.append("accept", line).unwrap();
        }
        let found: Vec<_> = headers.weighted("Accept").collect();
        assert_eq!(found, expected, "{}", value.escape_ascii());
    }

    #[test]
    fn a_weight_comes_last_and_has_three_decimals_rfc9110_12_4_2() {
        check(b"", &[]);
        check(b", ,a, ,b;q=0,", &[("a", 1000), ("b", 0)]);
        check(b"a;q=1|b;q=0.5|c", &[("a", 1000), ("b", 500), ("c", 1000)]);
        check(
            b"a;q=1.000, b;Q=0.001, c;q=0., d;q=1., e ; q=0.25",
            &[("a", 1000), ("b", 1), ("c", 0), ("d", 1000), ("e", 250)],
        );
        check(
            b"text/html;level=1;q=0.3, text/html ;level=2",
            &[("text/html;level=1", 300), ("text/html ;level=2", 1000)],
        );
    }

    #[test]
    fn a_semicolon_in_a_quoted_string_begins_no_weight_rfc9110_5_6_4() {
        check(br#"a/b;c="d;q=0.5", e"#, &[(r#"a/b;c="d;q=0.5""#, 1000), ("e", 1000)]);
        check(br#"a/b;c="d;q=0.5";q=0.1"#, &[(r#"a/b;c="d;q=0.5""#, 100)]);
    }

    #[test]
    fn a_member_with_a_malformed_weight_is_left_out_rfc9110_12_4_2() {
        for weight in [
            "", "2", "1.001", "0.0001", ".5", "+1", "0x1", "0.5x", "0.1234", " 1", "1e0", "-0", "0.a", "00.1",
        ] {
            check(format!("a;q={weight}, b").as_bytes(), &[("b", 1000)]);
        }
        check(b"\xff, \xff;q=0.5, b", &[("b", 1000)]);
    }

    #[test]
    fn a_parameter_is_that_of_a_single_field_rfc9110_5_6_6() {
        let mut headers = Headers::new();
        headers.set("content-type", "text/html; Charset=\"UTF\\\\8\"; a=b").unwrap();
        assert_eq!(headers.parameter("content-type", "charset").as_deref(), Some(r"UTF\8"));
        assert_eq!(headers.parameter("Content-Type", "A").as_deref(), Some("b"));
        assert_eq!((headers.parameter("content-type", "b"), headers.parameter("accept", "a")), (None, None));
        for bad in ["text/html; charset", "text/html; charset=a; charset=b"] {
            headers.set("content-type", bad).unwrap();
            assert_eq!(headers.parameter("content-type", "charset"), None, "{bad}");
        }
        headers.set("content-type", &b"a/b; c=\"\xff\""[..]).unwrap();
        assert_eq!(headers.parameter("content-type", "c"), None);
        headers.set("content-type", "a/b; c=d").unwrap();
        headers.append("content-type", "a/b; c=d").unwrap();
        assert_eq!(headers.parameter("content-type", "c"), None);
    }
}
