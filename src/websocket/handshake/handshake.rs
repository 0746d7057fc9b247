//! The opening handshake (RFC 6455 §4): its checks and its fields, for both ends.

use std::borrow::Cow;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

use crate::message::{FieldName, Headers, Method, Request, is_origin_of, members};
use crate::websocket::frame::HandshakeFault;
use crate::websocket::options::Origins;

/// Checks a request that asks for the upgrade (§4.2.1), and returns what accepts its key. `authority` is the host that
/// the client has used.
pub(super) fn check_request(
    request: &Request,
    origins: &Origins,
    authority: Option<&str>,
) -> Result<AcceptKey, HandshakeFault> {
    if request.method() != Method::Get {
        return Err(HandshakeFault::Method);
    }
    if request.headers.single(FieldName::new(VERSION)) != Ok(Some(VERSION_VALUE.as_bytes())) {
        return Err(HandshakeFault::Version);
    }
    let Ok(Some(key)) = request.headers.single(FieldName::new(KEY)) else {
        return Err(HandshakeFault::Key);
    };
    let mut decoded = [0; KEY_LEN + 2];
    if STANDARD.decode_slice(key, &mut decoded) != Ok(KEY_LEN) {
        return Err(HandshakeFault::Key);
    }
    if request.may_have_content() {
        return Err(HandshakeFault::Content);
    }
    check_origin(request, origins, authority)?;
    Ok(accept_key(key))
}

/// Checks the origin of the page, if a browser has sent one (§10.2). No page can set these fields by itself.
fn check_origin(request: &Request, origins: &Origins, authority: Option<&str>) -> Result<(), HandshakeFault> {
    let single = |name| request.headers.single(FieldName::new(name));
    let is_own = |origin| {
        // The browser has compared the origin with the host of the URL, which a proxy may have replaced.
        single("sec-fetch-site") == Ok(Some(b"same-origin"))
            || authority.is_some_and(|authority| is_origin_of(origin, authority))
    };
    let is_admitted = match (single("origin"), origins) {
        (_, Origins::Any) | (Ok(None), _) => true,
        (Err(_), _) => false,
        (Ok(Some(origin)), Origins::Own) => is_own(origin),
        (Ok(Some(origin)), Origins::OwnAnd(others)) => {
            is_own(origin) || others.iter().any(|other| other.as_bytes() == origin)
        }
    };
    if is_admitted { Ok(()) } else { Err(HandshakeFault::Origin) }
}

/// The first of `protocols` that a request offers (§4.2.2).
pub(super) fn choose_protocol<'p>(headers: &Headers, protocols: &'p [Cow<'static, str>]) -> Option<&'p str> {
    let is_offered = |protocol: &&Cow<'static, str>| {
        headers.all(PROTOCOL).flat_map(members).any(|offered| offered == protocol.as_bytes())
    };
    protocols.iter().find(is_offered).map(|protocol| &**protocol)
}

/// Checks a response of 101 to a request with `key` (§4.1). Returns the subprotocol that the server has chosen.
///
/// # Errors
///
/// Fails with the reason why the response does not open a WebSocket.
pub(super) fn check_response<'h>(
    headers: &'h Headers,
    key: &[u8],
    protocols: &[Cow<'static, str>],
) -> Result<Option<&'h str>, &'static str> {
    if headers.single(FieldName::new(ACCEPT)) != Ok(Some(&accept_key(key)[..])) {
        return Err("the sec-websocket-accept does not match");
    }
    match headers.single(FieldName::new(PROTOCOL)) {
        Ok(None) => Ok(None),
        Ok(Some(chosen)) if protocols.iter().any(|offered| offered.as_bytes() == chosen) => {
            Ok(str::from_utf8(chosen).ok())
        }
        _ => Err("the server chose a subprotocol that was not offered"),
    }
}

/// A key for a request, in base64.
///
/// # Errors
///
/// Fails if the system provides no randomness.
pub(super) fn new_key() -> io::Result<String> {
    let mut key = [0; KEY_LEN];
    getrandom::fill(&mut key).map_err(|_| io::Error::other("the system provides no randomness"))?;
    Ok(STANDARD.encode(key))
}

/// The value that accepts `key`, by which a client sees that the server speaks WebSocket (§1.3).
fn accept_key(key: &[u8]) -> AcceptKey {
    let mut sha1 = Sha1::from(key);
    sha1.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let mut accept = [0; ACCEPT_LEN];
    let encoded = STANDARD.encode_slice(sha1.digest().bytes(), &mut accept);
    debug_assert_eq!(encoded, Ok(ACCEPT_LEN), "20 octets are 28 in base64");
    accept
}

pub(super) type AcceptKey = [u8; ACCEPT_LEN];

const KEY_LEN: usize = 16;
const ACCEPT_LEN: usize = 28;

pub(super) const ACCEPT: &str = "sec-websocket-accept";
pub(super) const KEY: &str = "sec-websocket-key";
pub(super) const PROTOCOL: &str = "sec-websocket-protocol";
pub(super) const VERSION: &str = "sec-websocket-version";
pub(super) const VERSION_VALUE: &str = "13";

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 3] =
        [("host", "www.example.com"), (VERSION, "13"), (KEY, "dGhlIHNhbXBsZSBub25jZQ==")];

    #[track_caller]
    fn check(
        method: &str,
        fields: &[(&str, &str)],
        origins: &Origins,
        expected: Result<&str, HandshakeFault>,
    ) {
        let mut request = Request::new(method, "/").unwrap();
        fields.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        let checked = check_request(&request, origins, request.authority());
        let checked = checked.as_ref().map(|accept| str::from_utf8(accept).unwrap()).map_err(|error| *error);
        assert_eq!(checked, expected, "{method} {fields:?}");
    }

    const ACCEPTED: Result<&str, HandshakeFault> = Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

    #[test]
    fn a_request_has_a_version_and_a_key_rfc6455_4_2_1() {
        check("GET", &GOOD, &Origins::Own, ACCEPTED);
        check("POST", &GOOD, &Origins::Own, Err(HandshakeFault::Method));
        for version in ["", "8", "14", "13, 8", "013"] {
            check(
                "GET",
                &[GOOD[0], (VERSION, version), GOOD[2]],
                &Origins::Own,
                Err(HandshakeFault::Version),
            );
        }
        check("GET", &[GOOD[0], GOOD[2]], &Origins::Own, Err(HandshakeFault::Version));
        for key in
            ["", "x", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25j", "dGhlIHNhbXBsZSBub25jZXM=", "****"]
        {
            check("GET", &[GOOD[0], GOOD[1], (KEY, key)], &Origins::Own, Err(HandshakeFault::Key));
        }
        check("GET", &[GOOD[0], GOOD[1], GOOD[2], GOOD[2]], &Origins::Own, Err(HandshakeFault::Key));
    }

    #[test]
    fn pages_of_other_origins_are_refused_rfc6455_10_2() {
        let with = |origin| [GOOD[0], GOOD[1], GOOD[2], ("origin", origin)];
        let others = Origins::OwnAnd(vec!["https://app.example".into()]);
        for origin in ["https://www.example.com", "http://www.example.com", "https://WWW.example.com"] {
            check("GET", &with(origin), &Origins::Own, ACCEPTED);
        }
        for origin in ["null", "", "https://evil.example", "https://www.example.com.evil", "www.example.com"]
        {
            check("GET", &with(origin), &Origins::Own, Err(HandshakeFault::Origin));
            check("GET", &with(origin), &others, Err(HandshakeFault::Origin));
            check("GET", &with(origin), &Origins::Any, ACCEPTED);
        }
        check("GET", &with("https://app.example"), &others, ACCEPTED);
        let behind_a_proxy =
            [("host", "www.example.com:443"), GOOD[1], GOOD[2], ("origin", "https://www.example.com")];
        check("GET", &behind_a_proxy, &Origins::Own, ACCEPTED);
        let own = ("origin", "https://www.example.com");
        check("GET", &[GOOD[0], GOOD[1], GOOD[2], own, own], &Origins::Own, Err(HandshakeFault::Origin));
    }

    #[test]
    fn an_own_page_is_known_behind_a_proxy_that_replaces_the_host() {
        let front = [GOOD[0], GOOD[1], GOOD[2], ("origin", "https://front.example")];
        check("GET", &front, &Origins::Own, Err(HandshakeFault::Origin));
        let site = |value| [&front[..], &[("sec-fetch-site", value)]].concat();
        check("GET", &site("same-origin"), &Origins::Own, ACCEPTED);
        check("GET", &site("same-origin"), &Origins::OwnAnd(Vec::new()), ACCEPTED);
        for other in ["same-site", "cross-site", "none", "", "Same-Origin", "same-origin, none"] {
            check("GET", &site(other), &Origins::Own, Err(HandshakeFault::Origin));
        }
        let twice = [&site("same-origin")[..], &[("sec-fetch-site", "same-origin")]].concat();
        check("GET", &twice, &Origins::Own, Err(HandshakeFault::Origin));
    }

    #[test]
    fn a_request_has_no_content() {
        for (field, expected) in [
            (("content-length", "0"), ACCEPTED),
            (("content-length", "1"), Err(HandshakeFault::Content)),
            (("transfer-encoding", "chunked"), Err(HandshakeFault::Content)),
        ] {
            check("GET", &[&GOOD[..], &[field]].concat(), &Origins::Own, expected);
        }
    }

    #[test]
    fn the_first_protocol_that_is_offered_is_chosen_rfc6455_4_2_2() {
        let mut headers = Headers::new();
        let known = [Cow::from("b"), "a".into()];
        assert_eq!(choose_protocol(&headers, &known), None);
        headers.append(PROTOCOL, "c, a").unwrap();
        assert_eq!(choose_protocol(&headers, &known), Some("a"));
        headers.append(PROTOCOL, "b").unwrap();
        assert_eq!(choose_protocol(&headers, &known), Some("b"));
        assert_eq!(choose_protocol(&headers, &["B".into()]), None);
    }
}
