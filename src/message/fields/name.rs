//! [`FieldName`]: a field name to look up, and the grammar of names (RFC 9110 §5.1, §5.6.2); [`FieldLine`]: where a name
//! and its value are.

use std::ops::Range;

use crate::memory::{Arena, Span};
use crate::message::OctetSet;

/// A field name to look up, in any case, with its [`NameHash`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldName<'a> {
    text: &'a str,
    hash: NameHash,
}

impl<'a> FieldName<'a> {
    pub(crate) const AUTHORIZATION: FieldName<'static> = FieldName::new("authorization");
    pub(crate) const CONNECTION: FieldName<'static> = FieldName::new("connection");
    pub(crate) const CONTENT_ENCODING: FieldName<'static> = FieldName::new("content-encoding");
    pub(crate) const CONTENT_LENGTH: FieldName<'static> = FieldName::new("content-length");
    pub(crate) const CONTENT_TYPE: FieldName<'static> = FieldName::new("content-type");
    pub(crate) const COOKIE: FieldName<'static> = FieldName::new("cookie");
    pub(crate) const DATE: FieldName<'static> = FieldName::new("date");
    pub(crate) const ETAG: FieldName<'static> = FieldName::new("etag");
    pub(crate) const EXPECT: FieldName<'static> = FieldName::new("expect");
    pub(crate) const HOST: FieldName<'static> = FieldName::new("host");
    pub(crate) const KEEP_ALIVE: FieldName<'static> = FieldName::new("keep-alive");
    pub(crate) const MAX_FORWARDS: FieldName<'static> = FieldName::new("max-forwards");
    pub(crate) const RANGE: FieldName<'static> = FieldName::new("range");
    pub(crate) const RETRY_AFTER: FieldName<'static> = FieldName::new("retry-after");
    pub(crate) const SERVER: FieldName<'static> = FieldName::new("server");
    pub(crate) const SET_COOKIE: FieldName<'static> = FieldName::new("set-cookie");
    pub(crate) const TE: FieldName<'static> = FieldName::new("te");
    pub(crate) const TRAILER: FieldName<'static> = FieldName::new("trailer");
    pub(crate) const TRANSFER_ENCODING: FieldName<'static> = FieldName::new("transfer-encoding");
    pub(crate) const UPGRADE: FieldName<'static> = FieldName::new("upgrade");
    pub(crate) const VARY: FieldName<'static> = FieldName::new("vary");

    #[inline]
    pub(crate) const fn new(text: &'a str) -> FieldName<'a> {
        FieldName { text, hash: NameHash::new(text.as_bytes()) }
    }

    /// Whether `name` is this one, in any case.
    #[inline]
    pub(crate) fn is(self, name: &[u8]) -> bool {
        // In this form, it compiles to one comparison per letter where the name is a constant.
        let is_same = |(one, other): (&u8, &u8)| {
            *one | 0x20 == *other | 0x20 && (one == other || other.is_ascii_alphabetic())
        };
        name.len() == self.text.len() && name.iter().zip(self.text.as_bytes()).all(is_same)
    }

    #[inline]
    pub(crate) fn as_str(self) -> &'a str {
        self.text
    }

    #[inline]
    pub(crate) fn hash(self) -> NameHash {
        self.hash
    }
}

/// Names that are looked for together, with their bits in the Bloom filter of a message's names.
#[derive(Debug)]
pub(crate) struct NameSet {
    names: &'static [FieldName<'static>],
    bits: u64,
}

impl NameSet {
    pub(crate) const fn new(names: &'static [FieldName<'static>]) -> NameSet {
        let mut bits = 0;
        let mut at = 0;
        while at < names.len() {
            bits |= names[at].hash.bit();
            at += 1;
        }
        NameSet { names, bits }
    }

    pub(crate) fn names(&self) -> &'static [FieldName<'static>] {
        self.names
    }

    /// Whether `name` is one of the names, in any case.
    // Not inlined, since the filter turns most names away before.
    #[inline(never)]
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        let hash = NameHash::new(name);
        self.names.iter().any(|own| own.hash == hash && own.is(name))
    }

    /// The bits of all the names.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }
}

/// A hash of a name in one byte, the same in any case. Names with different hashes are different.
// Kept in 32 bits, because names are passed in memory, and a load of 32 bits stalls if only eight were just stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameHash(u32);

impl NameHash {
    #[inline]
    pub(crate) const fn new(name: &[u8]) -> NameHash {
        let (Some(first), Some(last)) = (name.first(), name.last()) else { return NameHash(0) };
        // Setting this bit changes only the letters among the octets of a token, and only to lower case.
        let (first, last) = ((*first | 0x20) as u32, (*last | 0x20) as u32);
        let len = LEN_FACTOR.wrapping_mul(name.len() as u32);
        NameHash((len.wrapping_add(FIRST_FACTOR * first + LAST_FACTOR * last) >> 4) & 0xff)
    }

    /// The bit of the hash in a Bloom filter, which several hashes share.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

/// Chosen so that the names that are looked up in each message share their bit with no name that most messages contain.
const LEN_FACTOR: u32 = 14_973;
const FIRST_FACTOR: u32 = 7_064;
const LAST_FACTOR: u32 = 1_525;

/// Where one field line is in the text of its [`Headers`](super::Headers).
#[derive(Clone, Copy)]
pub(super) struct FieldLine {
    pub(super) hash: NameHash,
    pub(super) name: Span,
    pub(super) value: Span,
}

impl FieldLine {
    /// The name, which is in `text`.
    #[inline]
    pub(super) fn name_in<'t>(&self, text: &'t Arena) -> &'t [u8] {
        part(self.name, text)
    }

    /// The value, which is in `text`.
    #[inline]
    pub(super) fn value_in<'t>(&self, text: &'t Arena) -> &'t [u8] {
        part(self.value, text)
    }

    #[inline]
    pub(super) fn is(&self, name: FieldName<'_>, text: &Arena) -> bool {
        self.hash == name.hash() && name.is(self.name_in(text))
    }

    #[inline]
    pub(super) fn is_any(&self, names: &NameSet, text: &Arena) -> bool {
        self.hash.bit() & names.bits() != 0 && names.contains(self.name_in(text))
    }

    /// Where the line is in `text`, if it is spelled there as it goes on the wire: a received one may have other blanks,
    /// and the value of one that was set again is elsewhere.
    #[inline]
    pub(super) fn wire_range(&self, text: &[u8]) -> Option<Range<usize>> {
        let name_end = self.name.end();
        let end = self.value.end() + "\r\n".len();
        let is_usual = self.value.start() == name_end + ": ".len()
            && matches!(text.get(name_end..end)?, [b':', b' ', .., b'\r', b'\n']);
        is_usual.then_some(self.name.start()..end)
    }

    /// The same line of a text that has `len` more bytes in front.
    #[inline]
    pub(super) fn shifted(self, len: usize) -> FieldLine {
        FieldLine { name: self.name.shifted(len), value: self.value.shifted(len), ..self }
    }
}

/// The part of `text` at `span`. A line and its text are stored together, so the part is there; were it not, a reader of
/// headers should find nothing rather than panic.
#[inline]
fn part(span: Span, text: &Arena) -> &[u8] {
    let part = text.get(span);
    debug_assert!(part.is_some(), "a line and its text are stored together");
    part.unwrap_or_default()
}

/// Whether `text` is a token (RFC 9110 §5.6.2).
#[inline]
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && TCHAR.contains_all(text)
}

/// How many octets at the front of `text` could be a token.
#[inline(never)]
pub(crate) fn token_len(text: &[u8]) -> usize {
    TCHAR.prefix_len(text)
}

/// Whether `octet` is allowed in a token (RFC 9110 §5.6.2).
#[inline]
pub(crate) fn is_tchar(octet: u8) -> bool {
    TCHAR.contains(octet)
}

const TCHAR: &OctetSet = &OctetSet::ALPHANUMERIC.with(b"!#$%&'*+-.^_`|~");

/// The fields that middleware sets before the handler runs, and of which a response has one (RFC 6797 §6.1).
pub(crate) const SINGLE_FIELDS: [&str; 2] = ["strict-transport-security", "x-request-id"];

/// The fields that describe content, and go when it goes, in requests and in responses (RFC 9110 §6.6.2, §8, §14.4, RFC
/// 6266, RFC 9530).
pub(crate) const CONTENT_FIELDS: [FieldName<'static>; 13] = [
    FieldName::new("content-digest"),
    FieldName::new("content-disposition"),
    FieldName::CONTENT_ENCODING,
    FieldName::new("content-language"),
    FieldName::CONTENT_LENGTH,
    FieldName::new("content-location"),
    FieldName::new("content-md5"),
    FieldName::new("content-range"),
    FieldName::CONTENT_TYPE,
    FieldName::new("digest"),
    FieldName::new("last-modified"),
    FieldName::new("repr-digest"),
    FieldName::TRAILER,
];

/// Fields that frame the body. A peer that lists them in `connection` must not have them removed: the body would be
/// lost with them, or read as the next message (RFC 9112 §11.2).
pub(crate) const FRAMING_FIELDS: [FieldName<'static>; 2] =
    [FieldName::CONTENT_LENGTH, FieldName::TRANSFER_ENCODING];

/// Fields from one hop to the next only (RFC 9110 §7.6.1). `host` is among them because the new target determines it.
pub(super) const HOP_BY_HOP: NameSet = NameSet::new(&[
    FieldName::CONNECTION,
    FieldName::EXPECT,
    FieldName::HOST,
    FieldName::KEEP_ALIVE,
    FieldName::new("proxy-authenticate"),
    FieldName::new("proxy-authorization"),
    FieldName::new("proxy-connection"),
    FieldName::TE,
    FieldName::UPGRADE,
]);

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: [FieldName<'static>; 8] = [
        FieldName::CONNECTION,
        FieldName::CONTENT_LENGTH,
        FieldName::DATE,
        FieldName::EXPECT,
        FieldName::HOST,
        FieldName::SERVER,
        FieldName::TRAILER,
        FieldName::TRANSFER_ENCODING,
    ];

    /// Names that browsers, proxies and servers send.
    const USUAL: &[&str] = &[
        "accept",
        "accept-encoding",
        "accept-language",
        "accept-ranges",
        "access-control-allow-origin",
        "age",
        "alt-svc",
        "authorization",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-security-policy",
        "content-type",
        "cookie",
        "dnt",
        "etag",
        "expires",
        "forwarded",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "last-modified",
        "link",
        "location",
        "origin",
        "permissions-policy",
        "pragma",
        "priority",
        "range",
        "referer",
        "referrer-policy",
        "sec-ch-ua",
        "sec-ch-ua-mobile",
        "sec-ch-ua-platform",
        "sec-fetch-dest",
        "sec-fetch-mode",
        "sec-fetch-site",
        "sec-fetch-user",
        "set-cookie",
        "strict-transport-security",
        "traceparent",
        "upgrade-insecure-requests",
        "user-agent",
        "vary",
        "via",
        "x-cache",
        "x-content-type-options",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-frame-options",
        "x-powered-by",
        "x-real-ip",
        "x-request-id",
        "x-requested-with",
        "x-xss-protection",
    ];

    #[test]
    fn a_hash_is_the_same_in_any_case_rfc9110_5_1() {
        for name in USUAL.iter().copied().chain(FRAMING.map(FieldName::as_str)) {
            assert_eq!(
                NameHash::new(name.as_bytes()),
                NameHash::new(name.to_ascii_uppercase().as_bytes()),
                "{name}"
            );
            assert!(FieldName::new(name).is(name.to_ascii_uppercase().as_bytes()));
            assert!(!FieldName::new(name).is(&name.as_bytes()[1..]));
        }
        assert_eq!(NameHash::new(b"").bit(), 1);
    }

    /// The names that are looked up in each message: those that frame it, and in a gateway those of one hop.
    #[test]
    fn usual_fields_have_other_bits_than_those_looked_up_in_each_message() {
        for name in FRAMING.iter().chain(HOP_BY_HOP.names()) {
            let framing =
                FRAMING.iter().map(|framing| framing.as_str()).filter(|other| *other != name.as_str());
            for other in framing.chain(USUAL.iter().copied()) {
                assert_ne!(
                    name.hash().bit(),
                    FieldName::new(other).hash().bit(),
                    "{} and {other}",
                    name.as_str()
                );
            }
        }
    }

    #[test]
    fn names_are_tokens_rfc9110_5_6_2() {
        for name in ["a", "X-Own", "!#$%&'*+-.^_`|~09"] {
            assert!(is_token(name.as_bytes()), "{name}");
        }
        for name in
            ["", " ", "a b", "a:", "a\r", "\u{e9}", "a\0", "a,b", "\"a\"", "(", "a/b", "[", "{", "\x7f"]
        {
            assert!(!is_token(name.as_bytes()), "{name}");
        }
    }
}
