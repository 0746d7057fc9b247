//! [`OctetSet`]: a set of octets, as the grammars of RFC 9110 §5.6 and RFC 3986 §2 name them; and the search for one octet.

/// A set of octets, looked up with a single load.
pub(crate) struct OctetSet([bool; 256]);

impl OctetSet {
    /// `ALPHA / DIGIT`
    pub(crate) const ALPHANUMERIC: OctetSet = OctetSet([false; 256])
        .with(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        .with(b"abcdefghijklmnopqrstuvwxyz")
        .with(b"0123456789");

    /// `unreserved` (RFC 3986 §2.3): what need not be escaped anywhere in a URI.
    pub(crate) const UNRESERVED: OctetSet = OctetSet::ALPHANUMERIC.with(b"-._~");

    /// `unreserved / sub-delims` (RFC 3986 §2.2): what need not be escaped in a host, a path or a query.
    pub(crate) const URI_PLAIN: OctetSet = OctetSet::UNRESERVED.with(b"!$&'()*+,;=");

    /// `pchar` without escapes (RFC 3986 §3.3): what need not be escaped in a segment of a path.
    pub(crate) const PCHAR: OctetSet = OctetSet::URI_PLAIN.with(b":@");

    /// The octets of a path with its query, and of escapes in them (RFC 3986 §3.3, §3.4); also `[` and `]`, as in a
    /// query of PHP.
    pub(crate) const PATH_AND_QUERY: OctetSet = OctetSet::PCHAR.with(b"/%?[]");

    /// Returns this set with `octets` added.
    pub(crate) const fn with(mut self, octets: &[u8]) -> OctetSet {
        let mut at = 0;
        while at < octets.len() {
            self.0[octets[at] as usize] = true;
            at += 1;
        }
        self
    }

    /// Returns this set without `octets`.
    pub(crate) const fn without(mut self, octets: &[u8]) -> OctetSet {
        let mut at = 0;
        while at < octets.len() {
            self.0[octets[at] as usize] = false;
            at += 1;
        }
        self
    }

    /// Returns this set with all octets beyond ASCII added.
    pub(crate) const fn with_obs_text(mut self) -> OctetSet {
        let mut octet = 0x80;
        while octet < self.0.len() {
            self.0[octet] = true;
            octet += 1;
        }
        self
    }

    /// Whether all octets of the set are ASCII.
    pub(super) fn is_ascii(&self) -> bool {
        !self.0[0x80..].contains(&true)
    }

    #[inline]
    pub(crate) const fn contains(&self, octet: u8) -> bool {
        self.0[octet as usize]
    }

    /// How many octets at the front of `text` are in this set.
    #[inline]
    pub(crate) fn prefix_len(&self, text: &[u8]) -> usize {
        let is_other = |octet: &u8| !self.contains(*octet);
        let mut rest = text;
        // Eight at a time, so that one check of the length does for all of them.
        while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
            if let Some(at) = eight.iter().position(is_other) {
                return text.len() - rest.len() + at;
            }
            rest = behind;
        }
        let mut len = text.len() - rest.len();
        while len < text.len() && self.contains(text[len]) {
            len += 1;
        }
        len
    }

    /// Whether every octet of `text` is in this set.
    #[inline]
    pub(crate) fn contains_all(&self, text: &[u8]) -> bool {
        // Cheaper than a branch for each octet, and evaluated at compile time where `text` is a constant.
        text.iter().fold(true, |covered, &octet| covered & self.contains(octet))
    }
}

/// Where an octet of ASCII stands in `text`; its length, if there is none. Segments are short, and `memchr` is made for
/// long texts.
#[inline]
pub(crate) fn find_octet(text: &[u8], octet: u8) -> usize {
    let mut rest = text;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        match first_in_eight(u64::from_le_bytes(*eight), octet) {
            8 => rest = behind,
            at => return text.len() - rest.len() + at,
        }
    }
    text.len() - rest.len() + rest.iter().position(|found| *found == octet).unwrap_or(rest.len())
}

/// Where an octet stands in eight, of which the first one is the lowest; 8, if it is not there.
#[inline]
pub(crate) fn first_in_eight(eight: u64, octet: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zero_if_found = eight ^ (ONES * u64::from(octet));
    let found = zero_if_found.wrapping_sub(ONES) & !zero_if_found & (ONES << 7);
    (found.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_exactly_the_octets_it_was_made_of() {
        let set = OctetSet::ALPHANUMERIC.with(b"-");
        for octet in 0..=u8::MAX {
            assert_eq!(set.contains(octet), octet.is_ascii_alphanumeric() || octet == b'-', "{octet:#x}");
        }
        assert_eq!((set.prefix_len(b"a-1_b"), set.prefix_len(b"ab"), set.prefix_len(b"")), (3, 2, 0));
        assert!(set.contains_all(b"") && set.contains_all(b"keep-alive"));
        assert!(!set.contains_all(b"keep_alive") && !set.contains_all(b"keep-alive\xe9"));
        let set = set.with_obs_text();
        assert!(set.contains_all(b"keep-alive\x80\xff") && !set.contains(b'_') && !set.contains(0x7f));
    }

    #[test]
    fn an_octet_is_found_wherever_it_stands() {
        for len in 0..40 {
            let mut text = "\u{b0}x".repeat(len);
            assert_eq!(find_octet(text.as_bytes(), b'/'), text.len());
            text.push_str("//abcdefgh/");
            assert_eq!(find_octet(text.as_bytes(), b'/'), 3 * len, "{text}");
        }
    }
}
