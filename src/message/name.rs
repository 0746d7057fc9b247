//! [`Known`]: the field names that matter here, and the grammar of names and values (RFC 9110 §5.1, §5.5).

use super::class::Class;

/// Is `text` a token? (RFC 9110 §5.6.2)
#[inline]
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && TCHAR.covers(text)
}

/// May `octet` stand in a token? (RFC 9110 §5.6.2)
#[inline]
pub(crate) fn is_tchar(octet: u8) -> bool {
    TCHAR.has(octet)
}

static TCHAR: Class = Class::ALPHANUMERIC.with(b"!#$%&'*+-.^_`|~");

/// May `text` be a field value? CTLs may not, but HTAB; obs-text may (RFC 9110 §5.5).
#[inline]
pub(crate) fn is_field_value(text: &[u8]) -> bool {
    let is_fit = |octet| (octet >= b' ' && octet != 0x7f) || octet == b'\t';
    // No early exit: so the compiler looks at sixteen octets at once.
    text.iter().fold(true, |fit, &octet| fit & is_fit(octet))
}

macro_rules! known {
    ($($variant:ident $name:literal)*) => {
        /// A field name that matters to this crate or is in most messages.
        ///
        /// There are at most 64, so that a `u64` is a set of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Known {
            /// Any other name.
            Other,
            $($variant,)*
        }

        impl Known {
            const ALL: &[Known] = &[$(Known::$variant),*];

            /// The name in lower case; `""` for [`Known::Other`].
            #[inline]
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    Known::Other => "",
                    $(Known::$variant => $name,)*
                }
            }
        }
    };
}

known! {
    Accept "accept"
    AcceptEncoding "accept-encoding"
    AcceptLanguage "accept-language"
    AcceptRanges "accept-ranges"
    AccessControlAllowCredentials "access-control-allow-credentials"
    AccessControlAllowHeaders "access-control-allow-headers"
    AccessControlAllowMethods "access-control-allow-methods"
    AccessControlAllowOrigin "access-control-allow-origin"
    AccessControlExposeHeaders "access-control-expose-headers"
    AccessControlMaxAge "access-control-max-age"
    AccessControlRequestHeaders "access-control-request-headers"
    AccessControlRequestMethod "access-control-request-method"
    Allow "allow"
    Authorization "authorization"
    CacheControl "cache-control"
    Connection "connection"
    ContentDisposition "content-disposition"
    ContentEncoding "content-encoding"
    ContentLanguage "content-language"
    ContentLength "content-length"
    ContentLocation "content-location"
    ContentRange "content-range"
    ContentType "content-type"
    Cookie "cookie"
    Date "date"
    Etag "etag"
    Expect "expect"
    Expires "expires"
    Forwarded "forwarded"
    Host "host"
    IfMatch "if-match"
    IfModifiedSince "if-modified-since"
    IfNoneMatch "if-none-match"
    IfRange "if-range"
    IfUnmodifiedSince "if-unmodified-since"
    KeepAlive "keep-alive"
    LastEventId "last-event-id"
    LastModified "last-modified"
    Location "location"
    MaxForwards "max-forwards"
    Origin "origin"
    ProxyAuthenticate "proxy-authenticate"
    ProxyAuthorization "proxy-authorization"
    ProxyConnection "proxy-connection"
    Range "range"
    Referer "referer"
    RetryAfter "retry-after"
    SecWebsocketAccept "sec-websocket-accept"
    SecWebsocketKey "sec-websocket-key"
    SecWebsocketVersion "sec-websocket-version"
    Server "server"
    SetCookie "set-cookie"
    Te "te"
    Trailer "trailer"
    TransferEncoding "transfer-encoding"
    Upgrade "upgrade"
    UserAgent "user-agent"
    Vary "vary"
    Via "via"
    WwwAuthenticate "www-authenticate"
    XForwardedFor "x-forwarded-for"
    XForwardedProto "x-forwarded-proto"
}

const _: () = assert!(Known::ALL.len() < 64, "`Known` and `Other` fit the bits of a u64");

impl Known {
    /// The known name that `name` is, in whatever case.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Known {
        let known = BY_SLOT[slot(name)];
        if is_spelled(name, known.as_str().as_bytes()) { known } else { Known::Other }
    }

    /// This name's own bit in a set of names.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Is `name` this one, in whatever case? Eight octets are compared at once, some of them twice.
#[inline]
fn is_spelled(name: &[u8], lower: &[u8]) -> bool {
    if name.len() != lower.len() {
        return false;
    }
    if let (Some(end), Some(lower_end)) = (name.last_chunk(), lower.last_chunk()) {
        let mut words = name.as_chunks().0.iter().zip(lower.as_chunks().0);
        return !differs(end, lower_end) && words.all(|(word, lower)| !differs(word, lower));
    }
    match (both_ends(name), both_ends(lower)) {
        (Some(name), Some(lower)) => !differs(&name, &lower),
        _ => name.eq_ignore_ascii_case(lower),
    }
}

/// The first four octets and the last four: all there are of a name of four to eight.
#[inline]
fn both_ends(name: &[u8]) -> Option<[u8; 8]> {
    let ([a, b, c, d], [e, f, g, h]) = (*name.first_chunk()?, *name.last_chunk()?);
    Some([a, b, c, d, e, f, g, h])
}

/// Is `word`, in lower case, other than `lower`?
#[inline]
fn differs(word: &[u8; 8], lower: &[u8; 8]) -> bool {
    let (word, lower) = (u64::from_ne_bytes(*word), u64::from_ne_bytes(*lower));
    // Of letters, digits and hyphens, only letters have the bit 0x40, and case is the bit right of it.
    let case_of_letters = (lower & 0x4040_4040_4040_4040) >> 1;
    (word ^ lower) & !case_of_letters != 0
}

/// The one known name that each slot can hold, so that one comparison decides.
static BY_SLOT: [Known; SLOTS] = {
    let mut by_slot = [Known::Other; SLOTS];
    let mut at = 0;
    while at < Known::ALL.len() {
        let slot = slot(Known::ALL[at].as_str().as_bytes());
        assert!(matches!(by_slot[slot], Known::Other), "two names share a slot: choose other factors");
        by_slot[slot] = Known::ALL[at];
        at += 1;
    }
    by_slot
};

const SLOTS: usize = 256;

/// A perfect hash of the known names: length, first letter and the one at three quarters tell them apart.
#[inline]
const fn slot(name: &[u8]) -> usize {
    const LOWER_CASE: u8 = 0x20;
    if name.is_empty() {
        return 0;
    }
    let (first, later) = (name[0] | LOWER_CASE, name[name.len() * 3 / 4] | LOWER_CASE);
    (11 * name.len() + 10 * first as usize + 5 * later as usize) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_found_in_any_case_5_1() {
        for &known in Known::ALL {
            let lower = known.as_str();
            let title: String =
                lower.split_inclusive('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            assert_eq!(lower, lower.to_lowercase());
            for name in [lower, &lower.to_uppercase(), &title] {
                assert_eq!(Known::of(name.as_bytes()), known, "{name}");
            }
        }
    }

    #[test]
    fn no_other_name_is_found() {
        for &known in Known::ALL {
            let name = known.as_str().as_bytes();
            for at in 0..name.len() {
                let (mut changed, mut shorter) = (name.to_vec(), name.to_vec());
                shorter.remove(at);
                for octet in (0..=u8::MAX).filter(|octet| !octet.eq_ignore_ascii_case(&name[at])) {
                    changed[at] = octet;
                    assert_eq!(Known::of(&changed), expected(&changed), "{}", changed.escape_ascii());
                }
                assert_eq!(Known::of(&shorter), expected(&shorter), "{}", shorter.escape_ascii());
            }
            assert_eq!(Known::of(&[name, b"s"].concat()), Known::Other);
            assert_eq!(Known::of(&[name, b" "].concat()), Known::Other);
        }
        for name in ["", "x", "-", "transfer_encoding", "content--length", "\u{212a}eep-alive"] {
            assert_eq!(Known::of(name.as_bytes()), Known::Other, "{name}");
        }
    }

    /// What `of` finds, without its table.
    fn expected(name: &[u8]) -> Known {
        let is_name = |known: &&Known| known.as_str().as_bytes().eq_ignore_ascii_case(name);
        Known::ALL.iter().find(is_name).copied().unwrap_or(Known::Other)
    }

    #[test]
    fn tokens_are_made_of_tchars_5_6_2() {
        for octet in 0..=u8::MAX {
            let is_delimiter = b"\"(),/:;<=>?@[\\]{}".contains(&octet);
            assert_eq!(is_tchar(octet), octet.is_ascii_graphic() && !is_delimiter, "{octet:#x}");
            assert_eq!(is_token(&[b'a', octet]), is_tchar(octet), "{octet:#x}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn values_hold_no_controls_but_tabs_5_5() {
        for octet in 0..=u8::MAX {
            let is_control = octet != b'\t' && octet.is_ascii_control();
            for at in 0..40 {
                let mut value = [b'v'; 40];
                value[at] = octet;
                assert_eq!(is_field_value(&value), !is_control, "{octet:#x} at {at}");
            }
        }
        assert!(is_field_value(b"") && is_field_value(b" kept as it is "));
    }
}
