//! [`Framing`]: finds where a body ends (RFC 9112 §6.3).

use super::WireError;
use crate::message::{
    FRAMING_FIELDS, FieldName, Headers, Method, Request, Status, Version, decimal, is_token, members, trim,
};

/// Where the body of a message ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    #[default]
    Empty,
    /// After that many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// When the peer closes. Only responses can end like this.
    UntilClose,
}

impl Framing {
    /// Whether there is no content, be that announced or not.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Framing::Empty | Framing::Length(0))
    }

    /// How the body of a request is framed.
    #[inline]
    pub(crate) fn from_request(version: Version, headers: &Headers) -> Result<Framing, WireError> {
        Ok(announced(version, headers)?.unwrap_or(Framing::Empty))
    }

    /// How the body of a response is framed. Some responses have no body, whatever their fields are (§6.3).
    pub(crate) fn from_response(
        request: RequestInfo,
        status: Status,
        version: Version,
        headers: &Headers,
    ) -> Result<Framing, WireError> {
        match status.as_u16() {
            _ if request.is_head => Ok(Framing::Empty),
            100..200 | 204 | 304 => Ok(Framing::Empty),
            200..300 if request.is_connect => Ok(Framing::Empty),
            _ => Ok(announced(version, headers)?.unwrap_or(Framing::UntilClose)),
        }
    }
}

/// Removes the framing fields of a response without a body, unless they would be valid if a body followed. This reader
/// ignores them, but a gateway passes them on, and readers behind it may differ on which of them counts (§11.2).
pub(crate) fn drop_ambiguous(version: Version, headers: &mut Headers) {
    if announced(version, headers).is_err() {
        headers.remove_each(&FRAMING_FIELDS);
    }
}

/// The framing that the fields announce, if any does.
#[inline]
fn announced(version: Version, headers: &Headers) -> Result<Option<Framing>, WireError> {
    match headers.may_have(FieldName::TRANSFER_ENCODING) || headers.may_have(FieldName::CONTENT_LENGTH) {
        true => read(version, headers),
        false => Ok(None),
    }
}

/// Reads Transfer-Encoding and Content-Length.
#[inline(never)]
fn read(version: Version, headers: &Headers) -> Result<Option<Framing>, WireError> {
    if headers.first(FieldName::TRANSFER_ENCODING).is_none() {
        return Ok(length(headers)?.map(Framing::Length));
    }
    match (headers.first(FieldName::CONTENT_LENGTH), version) {
        // One hop could believe the length and another the chunks, which is the classic way to smuggle a request
        // (§11.2). So neither is preferred, and the message is refused.
        (Some(_), _) => Err(WireError::TransferEncoding),
        // A proxy that speaks HTTP/1.0 does not decode chunks, and would read on until close (§6.1).
        (None, Version::Http10) => Err(WireError::TransferEncoding),
        (None, Version::Http11) => coding(headers).map(|()| Some(Framing::Chunked)),
    }
}

/// The single Content-Length of a message, if there is one. Even two equal ones are refused: a peer that sends two
/// cannot be trusted about either.
fn length(headers: &Headers) -> Result<Option<u64>, WireError> {
    let mut lengths = headers.named(FieldName::CONTENT_LENGTH);
    let Some(length) = lengths.next() else { return Ok(None) };
    match (decimal(length), lengths.next()) {
        (Some(length @ ..=LENGTH_MAX), None) => Ok(Some(length)),
        _ => Err(WireError::ContentLength),
    }
}

/// Makes one Content-Length of several that are equal, in one line or in several, as RFC 9110 §8.6 allows a recipient.
/// Returns whether there is one now.
#[cold]
pub(crate) fn merge_lengths(headers: &mut Headers) -> bool {
    let Some(length) = equal_lengths(headers) else { return false };
    headers.put(FieldName::CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
    true
}

/// The number that is each member of each Content-Length.
fn equal_lengths(headers: &Headers) -> Option<u64> {
    let lines = headers.named(FieldName::CONTENT_LENGTH);
    let mut lengths = lines.flat_map(|line| line.split(|octet| *octet == b',')).map(trim).map(decimal);
    let length = lengths.next()?.filter(|length| *length <= LENGTH_MAX)?;
    lengths.all(|other| other == Some(length)).then_some(length)
}

/// Many readers count in 63 bits, and to some of them the largest number of 64 bits means that there is no length. A
/// proxy must not pass such a length on to them.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// Transfer-Encoding must be one line with `chunked`, once and alone. It is a list, so empty members are ignored (RFC 9110
/// §5.6.1.2), but there must be one that is not: a reader may take a list of none for no field at all.
fn coding(headers: &Headers) -> Result<(), WireError> {
    let mut lines = headers.named(FieldName::TRANSFER_ENCODING);
    let (Some(line), None) = (lines.next(), lines.next()) else { return Err(WireError::TransferEncoding) };
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if is_chunked(line) {
        return Ok(());
    }
    let codings = members(line).count();
    let chunked = members(line).position(is_chunked);
    match chunked {
        Some(0) if codings == 1 => Ok(()),
        // `gzip, chunked` is a valid message that is not supported (§6.1).
        Some(at) if at > 0 && at + 1 == codings && members(line).all(is_token) => {
            Err(WireError::CodingNotImplemented)
        }
        Some(_) | None => Err(WireError::TransferEncoding),
    }
}

/// The facts of a request that its response depends on, noted before a handler may rewrite the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// HEAD: the head of the response is that of GET, and there is no body.
    pub(crate) is_head: bool,
    /// CONNECT: the client wants a tunnel, and no message follows this one.
    pub(crate) is_connect: bool,
    pub(crate) version: Version,
}

impl RequestInfo {
    #[inline]
    pub(crate) fn new(request: &Request) -> RequestInfo {
        let method = request.method();
        RequestInfo {
            is_head: method == Method::Head,
            is_connect: method == Method::Connect,
            version: request.version(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Version, lines: &[(&str, &str)], expected: Result<Framing, WireError>) {
        let mut headers = Headers::new();
        lines.iter().for_each(|(name, value)| headers.append(name, *value).unwrap());
        assert_eq!(Framing::from_request(version, &headers), expected, "{version} {lines:?}");
    }

    const CL: &str = "Content-Length";
    const TE: &str = "Transfer-Encoding";

    #[test]
    fn a_request_without_either_field_has_no_body_rfc9112_6_3() {
        check(Version::Http11, &[], Ok(Framing::Empty));
        check(Version::Http10, &[("host", "a")], Ok(Framing::Empty));
    }

    #[test]
    fn a_length_is_one_decimal_number_rfc9112_6_3() {
        check(Version::Http11, &[(CL, "5")], Ok(Framing::Length(5)));
        check(Version::Http11, &[(CL, "00005")], Ok(Framing::Length(5)));
        check(Version::Http10, &[(CL, "9223372036854775807")], Ok(Framing::Length(LENGTH_MAX)));
        for bad in [
            "+5",
            "-1",
            "0x5",
            "5 5",
            "",
            "1nope",
            "5, 5",
            "5,6",
            "\"5\"",
            "5.0",
            "1_0",
            "5;",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "21000000000000000000",
            "99999999999999999999999999",
        ] {
            check(Version::Http11, &[(CL, bad)], Err(WireError::ContentLength));
        }
        check(Version::Http11, &[(CL, "5"), (CL, "5")], Err(WireError::ContentLength));
        check(Version::Http11, &[(CL, "5"), (CL, "6")], Err(WireError::ContentLength));
    }

    #[test]
    fn equal_lengths_are_merged_rfc9110_8_6() {
        for (lines, expected) in [
            (&["5", "5"][..], Some("5")),
            (&["5, 5"], Some("5")),
            (&["5,5", "05\t,5", "5"], Some("5")),
            (&["0, 0"], Some("0")),
            (&["5", "6"], None),
            (&["5, 6"], None),
            (&["5", "5", "6"], None),
            (&["5,"], None),
            (&["", "5"], None),
            (&["+5", "+5"], None),
            (&["5 5"], None),
            (&["9223372036854775808, 9223372036854775808"], None),
            (&[], None),
        ] {
            let mut headers = Headers::new();
            lines.iter().for_each(|length| headers.append(CL, *length).unwrap());
            headers.set("x", "y").unwrap();
            assert_eq!(merge_lengths(&mut headers), expected.is_some(), "{lines:?}");
            if let Some(length) = expected {
                assert!(headers.named(FieldName::CONTENT_LENGTH).eq([length.as_bytes()]), "{lines:?}");
            }
        }
    }

    #[test]
    fn chunked_is_the_only_coding_and_stands_once_rfc9112_6_1() {
        check(Version::Http11, &[(TE, "chunked")], Ok(Framing::Chunked));
        check(Version::Http11, &[("transfer-ENCODING", " Chunked\t")], Ok(Framing::Chunked));
        for list in [", chunked", "chunked,", ",chunked,", ", chunked,", " ,\t,, Chunked\t, ,"] {
            check(Version::Http11, &[(TE, list)], Ok(Framing::Chunked));
        }
        for bad in [
            "identity",
            "xchunked",
            "",
            "chunked, chunked",
            "chunked, gzip",
            "gzip",
            "\"chunked\"",
            "chunked;q=1",
            "chunked chunked",
            "gzip chunked",
            ",",
            " , ,\t",
            "chunked, , chunked",
            ", chunked,, chunked,",
            ",\"chunked\",",
            "\"\", chunked",
            "\u{a0}, chunked",
            "chunked;, ,",
            "gzip;a=b, chunked",
            "chunked\u{a0}",
            "gzip, chunked, chunked",
            "identity, identity",
        ] {
            check(Version::Http11, &[(TE, bad)], Err(WireError::TransferEncoding));
        }
        check(Version::Http11, &[(TE, "chunked"), (TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http11, &[(TE, "gzip"), (TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http11, &[(TE, ","), (TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http11, &[(TE, "gzip, chunked")], Err(WireError::CodingNotImplemented));
        check(Version::Http11, &[(TE, ", gzip,, chunked,")], Err(WireError::CodingNotImplemented));
        check(Version::Http11, &[(TE, "deflate, gzip, Chunked")], Err(WireError::CodingNotImplemented));
    }

    /// A response with these fields, which no body follows, is `Empty`; a gateway passes on as many fields as are
    /// `kept`.
    #[test]
    fn fields_do_not_count_where_no_body_can_follow_rfc9112_6_3() {
        let (get, head) = (RequestInfo::default(), RequestInfo { is_head: true, ..RequestInfo::default() });
        let connect = RequestInfo { is_connect: true, ..get };
        let twice = [(CL, "5"), (CL, "5")];
        let rows: &[(&[(&str, &str)], usize)] = &[
            (&[], 0),
            (&[(CL, "5")], 1),
            (&[(TE, "chunked")], 1),
            (&twice, 0),
            (&[(CL, "5"), (CL, "6")], 0),
            (&[(CL, "5, 5")], 0),
            (&[(CL, "+5")], 0),
            (&[(CL, "18446744073709551615")], 0),
            (&[(TE, "chunked"), (CL, "5")], 0),
            (&[(TE, "chunked, chunked")], 0),
            (&[(TE, "chunked"), (TE, "chunked")], 0),
            (&[(TE, "identity")], 0),
            (&[(TE, "gzip, chunked")], 0),
        ];
        for (lines, kept) in rows {
            for (request, status) in
                [(head, 200), (head, 404), (get, 304), (get, 204), (get, 103), (get, 101), (connect, 200)]
            {
                let mut headers = Headers::new();
                lines.iter().for_each(|(name, value)| headers.append(name, *value).unwrap());
                let status = Status::new(status).unwrap();
                let framing = Framing::from_response(request, status, Version::Http11, &headers);
                assert_eq!(framing, Ok(Framing::Empty), "{status} {lines:?}");
                drop_ambiguous(Version::Http11, &mut headers);
                assert_eq!(headers.len(), *kept, "{lines:?}");
            }
        }
    }

    #[test]
    fn chunked_beside_a_length_or_in_1_0_is_refused_rfc9112_6_1() {
        check(Version::Http11, &[(TE, "chunked"), (CL, "5")], Err(WireError::TransferEncoding));
        check(Version::Http11, &[(CL, "5"), (TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http11, &[(CL, "nope"), (TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http10, &[(TE, "chunked")], Err(WireError::TransferEncoding));
        check(Version::Http10, &[(TE, "chunked"), (CL, "5")], Err(WireError::TransferEncoding));
    }
}
