//! Writes heads (RFC 9112 §2 to §6).

use super::outgoing_framing::FramingField;
use super::parse::is_forbidden_in_trailers;
use super::{ConnectionOption, OutgoingFraming};
use crate::message::{
    FieldName, Headers, Method, NameSet, Request, Response, Status, is_field_value, is_token, members,
};

/// Writes the head of a response.
#[inline]
pub(crate) fn response(
    out: &mut Vec<u8>,
    response: &Response,
    framing: OutgoingFraming,
    persist: ConnectionOption,
    common: CommonFields<'_>,
) {
    status_line(out, response.status);
    fields(out, &response.headers);
    out.extend_from_slice(common.missing_from(&response.headers));
    framing_field(out, framing);
    match persist {
        _ if response.headers.may_have(FieldName::CONNECTION)
            || response.headers.may_have(FieldName::UPGRADE) =>
        {
            let upgrade = response.headers.first(FieldName::UPGRADE).map(|_| FieldName::UPGRADE);
            connection_field(out, &response.headers, persist, upgrade.into_iter());
        }
        ConnectionOption::Absent => {}
        ConnectionOption::Close => out.extend_from_slice(b"connection: close\r\n"),
        ConnectionOption::KeepAlive => out.extend_from_slice(b"connection: keep-alive\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the `connection` field: `persist`, the names of the `hop` fields, which are for the next hop only and must be
/// listed, and other options that were set (RFC 9110 §7.6.1). A function of its own, since few messages have the field.
#[inline(never)]
fn connection_field(
    out: &mut Vec<u8>,
    headers: &Headers,
    persist: ConnectionOption,
    hop: impl Iterator<Item = FieldName<'static>>,
) {
    let decided: Option<&[u8]> = match persist {
        ConnectionOption::Absent => None,
        ConnectionOption::Close => Some(b"close"),
        ConnectionOption::KeepAlive => Some(b"keep-alive"),
    };
    let own_options: [&[u8]; 4] = [b"close", b"keep-alive", b"upgrade", b"te"];
    let is_own = |option: &[u8]| own_options.iter().any(|own| option.eq_ignore_ascii_case(own));
    let hop = hop.map(|name| name.as_str().as_bytes());
    let set = headers.named(FieldName::CONNECTION).flat_map(members).filter(|option| !is_own(option));
    let mut options = decided.into_iter().chain(hop).chain(set);
    let Some(first) = options.next() else { return };
    out.extend_from_slice(b"connection: ");
    out.extend_from_slice(first);
    for option in options {
        out.extend_from_slice(b", ");
        out.extend_from_slice(option);
    }
    out.extend_from_slice(b"\r\n");
}

/// The parts of a request's head that the client supplies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestDefaults<'a> {
    /// `http` or `https`, if the request goes to a proxy, which needs an absolute target (RFC 9112 §3.2.2).
    pub(crate) scheme: Option<&'a str>,
    /// The host and port that the request is for.
    pub(crate) authority: &'a str,
    /// Default fields, for requests that do not set them.
    pub(crate) headers: &'a Headers,
    /// The codings that can be decoded, for requests that name none.
    pub(crate) accept_encoding: Option<&'a str>,
    /// The value of the `cookie` field, with the cookies that servers have set.
    pub(crate) cookie: Option<&'a [u8]>,
    /// The fields that make the request part of a trace, in place of its own.
    pub(crate) trace: Option<&'a Headers>,
}

/// Writes the head of a request. Host comes first, since it routes the request (RFC 9110 §7.2).
pub(crate) fn request(
    out: &mut Vec<u8>,
    request: &Request,
    framing: OutgoingFraming,
    defaults: RequestDefaults<'_>,
) {
    let headers = &request.headers;
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    if let Some(scheme) = defaults.scheme {
        for part in [scheme, "://", defaults.authority] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    let resource = match (request.target().path_and_query(request.method()), defaults.scheme) {
        // To a proxy, a server as a whole is a URL without a path; the last proxy turns it into `*` (RFC 9112 §3.2.4).
        (["*", _], Some(_)) => ["", ""],
        (resource, _) => resource,
    };
    for part in resource {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(headers.first(FieldName::HOST).unwrap_or(defaults.authority.as_bytes()));
    out.extend_from_slice(b"\r\n");
    match (framing.expects(), defaults.trace) {
        (true, None) => fields_except(out, headers, &ROUTING),
        (false, None) => fields_except(out, headers, &ROUTING_AND_EXPECT),
        (true, Some(trace)) => traced_fields(out, headers, &ROUTING, trace),
        (false, Some(trace)) => traced_fields(out, headers, &ROUTING_AND_EXPECT, trace),
    }
    let is_excluded = || request.method() == Method::Trace || headers.contains("authorization");
    let url_credentials = request.target().authorization().filter(|_| !is_excluded());
    let is_set =
        |name: &str| headers.contains(name) || (url_credentials.is_some() && name == "authorization");
    for (name, value) in defaults.headers.iter().filter(|(name, _)| !is_set(name)) {
        line(out, name.as_bytes(), value);
    }
    if let Some(codings) = defaults.accept_encoding.filter(|_| !headers.contains("accept-encoding")) {
        line(out, b"accept-encoding", codings.as_bytes());
    }
    if let Some(authorization) = url_credentials {
        line(out, b"authorization", authorization.as_bytes());
    }
    if let Some(cookie) = defaults.cookie {
        line(out, b"cookie", cookie);
    }
    framing_field(out, framing);
    let may_have = |name| headers.may_have(name) || defaults.headers.may_have(name);
    if [FieldName::CONNECTION, FieldName::UPGRADE, FieldName::TE].into_iter().any(may_have) {
        let persist = match ConnectionOption::from_headers(headers) {
            ConnectionOption::Close => ConnectionOption::Close,
            // HTTP/1.1 persists without an option (RFC 9112 §9.3).
            ConnectionOption::KeepAlive | ConnectionOption::Absent => ConnectionOption::Absent,
        };
        let is_there =
            |name: &FieldName<'_>| headers.first(*name).is_some() || defaults.headers.first(*name).is_some();
        // Upgrade and TE are for the next hop only (RFC 9110 §7.8, §10.1.4).
        connection_field(
            out,
            headers,
            persist,
            [FieldName::UPGRADE, FieldName::TE].into_iter().filter(is_there),
        );
    }
    out.extend_from_slice(b"\r\n");
}

/// The fields that [`request`] writes itself.
pub(crate) const ROUTING: NameSet = NameSet::new(ROUTING_NAMES.split_at(ROUTING_NAMES.len() - 1).0);

/// The same, and `expect`, which it writes as well if the request has a body that waits.
const ROUTING_AND_EXPECT: NameSet = NameSet::new(ROUTING_NAMES);

const ROUTING_NAMES: &[FieldName<'static>] = &[
    FieldName::HOST,
    FieldName::CONTENT_LENGTH,
    FieldName::TRANSFER_ENCODING,
    FieldName::CONNECTION,
    FieldName::KEEP_ALIVE,
    FieldName::EXPECT,
];

#[inline(always)]
fn framing_field(out: &mut Vec<u8>, framing: OutgoingFraming) {
    match framing.field {
        FramingField::Absent => {}
        FramingField::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        FramingField::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
}

/// Writes the head of an interim response (RFC 9110 §15.2), or of a response that hands the connection over (§7.8).
pub(crate) fn interim(out: &mut Vec<u8>, status: Status, headers: &Headers, upgrade: Option<&str>) {
    status_line(out, status);
    fields(out, headers);
    if let Some(protocol) = upgrade {
        line(out, b"connection", b"upgrade");
        line(out, b"upgrade", protocol.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of a response after which the connection is a tunnel (RFC 9110 §9.3.6).
pub(crate) fn tunnel(out: &mut Vec<u8>, headers: &Headers, common: CommonFields<'_>) {
    status_line(out, Status::OK);
    fields(out, headers);
    out.extend_from_slice(common.missing_from(headers));
    out.extend_from_slice(b"\r\n");
}

/// Writes the field lines, except those that frame the message, which are computed.
#[inline]
fn fields(out: &mut Vec<u8>, headers: &Headers) {
    fields_except(out, headers, &FRAMING);
}

#[inline]
fn fields_except(out: &mut Vec<u8>, headers: &Headers, computed: &NameSet) {
    match headers.as_wire() {
        Some(wire) if !headers.may_have_any(computed) => out.extend_from_slice(wire),
        Some(_) | None => lines_except(out, headers, computed),
    }
}

/// As [`fields_except`], with the fields in `trace` in place of those of their names.
#[inline(never)]
fn traced_fields(out: &mut Vec<u8>, headers: &Headers, computed: &NameSet, trace: &Headers) {
    let is_replaced = |name: &[u8]| trace.lines().any(|(own, _)| own.eq_ignore_ascii_case(name));
    for (name, value) in headers.lines() {
        if !is_replaced(name) && !computed.contains(name) {
            line(out, name, value);
        }
    }
    for (name, value) in trace.lines() {
        line(out, name, value);
    }
}

/// As [`fields_except`], if some lines are left out or spelled otherwise.
#[inline(never)]
fn lines_except(out: &mut Vec<u8>, headers: &Headers, computed: &NameSet) {
    debug_assert!(
        headers.lines().all(|(name, value)| is_token(name) && is_field_value(value)),
        "a field could end its line, and split the message"
    );
    headers.write_all_but(computed, |piece| out.extend_from_slice(piece));
}

/// Writes the lines of a trailer section, except those that are not allowed in one (RFC 9110 §6.5.1).
pub(super) fn trailers(out: &mut Vec<u8>, trailers: &Headers) {
    for (name, value) in trailers.lines().filter(|(name, _)| !is_forbidden_in_trailers(name)) {
        line(out, name, value);
    }
}

const FRAMING: NameSet = NameSet::new(&[
    FieldName::CONTENT_LENGTH,
    FieldName::TRANSFER_ENCODING,
    FieldName::CONNECTION,
    FieldName::KEEP_ALIVE,
]);

#[inline]
fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(
        is_token(name) && is_field_value(value),
        "a field could end its line, and split the message"
    );
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn status_line(out: &mut Vec<u8>, status: Status) {
    match status {
        Status::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        _ => other_status_line(out, status),
    }
}

#[inline(never)]
fn other_status_line(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status.as_u16()).as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.reason().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The lines that a server adds to each response, ready to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonFields<'a> {
    both: &'a [u8],
    /// The length of the first line, which is `server`.
    server_len: usize,
}

impl<'a> CommonFields<'a> {
    /// Both lines: `server`, which is `server_len` bytes long, and `date`.
    pub(crate) fn new(both: &'a [u8], server_len: usize) -> CommonFields<'a> {
        debug_assert!(
            both[..server_len].is_empty() || both[..server_len].ends_with(b"\r\n"),
            "`server` is a line"
        );
        debug_assert!(both.ends_with(b"\r\n"), "`date` is a line");
        CommonFields { both, server_len }
    }

    /// The lines whose fields the handler has not set. A `server` or `date` from the handler may be that of an origin
    /// behind a gateway, and stays.
    #[inline]
    pub(super) fn missing_from(self, headers: &Headers) -> &'a [u8] {
        match headers.may_have(FieldName::SERVER) || headers.may_have(FieldName::DATE) {
            false => self.both,
            true => self.missing(headers),
        }
    }

    /// The lines whose names are not in `headers`, one of which may have such a field.
    // Not inlined, since few have.
    #[inline(never)]
    fn missing(self, headers: &Headers) -> &'a [u8] {
        let has = |name| headers.named(name).next().is_some();
        match (has(FieldName::SERVER), has(FieldName::DATE)) {
            (false, false) => self.both,
            (false, true) => &self.both[..self.server_len],
            (true, false) => &self.both[self.server_len..],
            (true, true) => &[],
        }
    }
}
