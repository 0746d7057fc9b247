//! [`Utf8Check`]: is text UTF-8, piece by piece? (RFC 6455 §8.1, RFC 3629)

/// Checks text that arrives in pieces, which may cut a character. An octet that cannot go on is found at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Utf8Check {
    /// The beginning of a character, and how long it is.
    partial: [u8; 4],
    len: u8,
}

/// Text that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotUtf8;

impl Utf8Check {
    /// Checks the next piece.
    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Result<(), NotUtf8> {
        while self.len > 0 {
            let Some((first, rest)) = piece.split_first() else { return Ok(()) };
            self.partial[usize::from(self.len)] = *first;
            self.len += 1;
            piece = rest;
            match std::str::from_utf8(&self.partial[..usize::from(self.len)]) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return Err(NotUtf8),
                Err(_) => debug_assert!(self.len < 4, "four octets are a character, or none"),
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(NotUtf8),
            Err(error) => {
                let tail = &piece[error.valid_up_to()..];
                self.partial[..tail.len()].copy_from_slice(tail);
                self.len = tail.len() as u8;
                Ok(())
            }
        }
    }

    /// Whether the text may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `text` is UTF-8, and if not, at which octet that is found. `text` is cut at every byte, and also comes
    /// octet by octet.
    #[track_caller]
    fn check(text: &[u8], expected: Result<bool, usize>) {
        let mut check = Utf8Check::default();
        let found = text.iter().position(|octet| check.feed(&[*octet]).is_err());
        assert_eq!(found.map_or(Ok(check.is_whole()), Err), expected, "{text:02x?}");
        for cut in 0..=text.len() {
            let mut check = Utf8Check::default();
            let fed = check.feed(&text[..cut]).and_then(|()| check.feed(&text[cut..]));
            assert_eq!(fed.map(|()| check.is_whole()).ok(), expected.ok(), "{text:02x?} cut at {cut}");
        }
    }

    #[test]
    fn text_is_checked_octet_by_octet_rfc3629_4() {
        check("".as_bytes(), Ok(true));
        check("Hello-µ@ßöäüàá-UTF-8!! κόσμε 𐍈".as_bytes(), Ok(true));
        check("\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}".as_bytes(), Ok(true));
        check(b"a\xce", Ok(false));
        check(b"a\xf0\x90\x8d", Ok(false));
        check(b"ab\x80", Err(2));
        check(b"\xfe", Err(0));
        check(b"\xff", Err(0));
        check(b"\xc0\xaf", Err(0));
        check(b"\xc1\x81", Err(0));
        check(b"\xc3\x28", Err(1));
        check(b"\xe0\x9f\xbf", Err(1));
        check(b"\xe2\x82\x28", Err(2));
        check(b"\xed\xa0\x80", Err(1));
        check(b"\xed\xbf\xbf", Err(1));
        check(b"\xf0\x8f\xbf\xbf", Err(1));
        check(b"\xf4\x90\x80\x80", Err(1));
        check(b"\xf5\x80\x80\x80", Err(0));
        check(b"\xf0\x90\x8d\xc8", Err(3));
        check(b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited", Err(12));
    }
}
