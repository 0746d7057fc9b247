//! [`EndSearch`]: is a parse due, now that more has arrived? (RFC 9112 §2.1, §7.1.2)

use memchr::memchr_iter;

/// How far a head, or a trailer section, that arrives in pieces was searched for its end.
///
/// A parser begins at the start. Were it called for each piece, a head in single octets would cost the square of its
/// length. So new octets are searched for the ends of lines, each octet once, and the parser is called for these alone:
/// for each while there is little to parse, and then for the last one, one that is malformed, and whenever the length
/// has doubled. A fault is thus found with the end of its line; if nothing else comes, the caller parses what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndSearch {
    /// How much was searched.
    searched: usize,
    /// How much there was when a parse was last due.
    parsed: usize,
}

impl EndSearch {
    /// Whether `input` may be complete, malformed, or longer than `len_max`, as it was not when it was shorter.
    #[inline]
    pub(crate) fn is_due(&mut self, input: &[u8], len_max: usize) -> bool {
        let is_due = match self.searched {
            0 => !input.is_empty(),
            1.. => self.is_due_again(input, len_max),
        };
        self.searched = input.len();
        if is_due {
            self.parsed = input.len();
        }
        is_due
    }

    /// Not inlined, since most heads come in one piece.
    #[inline(never)]
    fn is_due_again(&self, input: &[u8], len_max: usize) -> bool {
        debug_assert!(self.searched <= input.len(), "nothing is consumed before the end");
        let has_grown = input.len() > len_max || input.len() / 2 >= self.parsed;
        let is_short = input.len() <= EACH_LINE_MAX;
        let mut fronts = memchr_iter(b'\n', &input[self.searched..]).map(|lf| &input[..=self.searched + lf]);
        has_grown || fronts.any(|front| is_short || !front.ends_with(b"\r\n") || front.ends_with(b"\n\r\n"))
    }

    /// Whether some has arrived, but not all.
    pub(crate) fn has_begun(&self) -> bool {
        self.searched > 0
    }
}

/// Up to this length, what has arrived is parsed with the end of each line, so that a malformed one is refused at once.
const EACH_LINE_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths at which a parse is due if `text` comes octet by octet.
    fn due(text: &[u8], len_max: usize) -> Vec<usize> {
        let mut search = EndSearch::default();
        (0..=text.len()).filter(|&len| search.is_due(&text[..len], len_max)).collect()
    }

    #[test]
    fn a_parse_is_due_with_each_line_and_when_the_length_has_doubled_rfc9112_2_2() {
        assert!(due(b"", 99).is_empty());
        assert_eq!(due(b"GET / HTTP/1.1\r\na: b\r\n\r\n", 99), [1, 2, 4, 8, 16, 22, 24]);
        assert_eq!(due(b"GET / HTTP/1.1\na", 99), [1, 2, 4, 8, 15]);
        assert_eq!(due(b"GET /////////", 9), [1, 2, 4, 8, 10, 11, 12, 13]);
        assert_eq!(due(b"\r\n", 99), [1, 2]);
    }

    #[test]
    fn a_long_head_is_due_where_it_ends_well_or_badly_rfc9112_2_1() {
        let begun = format!("GET / HTTP/1.1\r\na: {}\r\nb: c", "a".repeat(EACH_LINE_MAX));
        for (rest, expected) in [
            ("\r\nd: e\r\nf: g", None),
            ("\r\n\r\nGET", Some(4)),
            ("\r\nd: e\r\n\r\n", Some(10)),
            ("\nd: e", Some(1)),
            ("\r\n\n", Some(3)),
            ("\r\r\n\r\n", Some(5)),
        ] {
            let text = [&begun, rest].concat();
            let late = due(text.as_bytes(), usize::MAX).into_iter().find(|&len| len > begun.len());
            assert_eq!(late, expected.map(|at| begun.len() + at), "{rest:?}");
            // Wherever the last piece begins, also within the end.
            for cut in begun.len() - 1..text.len() {
                let mut search = EndSearch { searched: cut, parsed: begun.len() };
                let is_seen = expected.is_none_or(|at| cut < begun.len() + at);
                assert_eq!(
                    search.is_due(text.as_bytes(), usize::MAX),
                    expected.is_some() && is_seen,
                    "{rest:?}"
                );
            }
        }
    }

    /// In single octets and at any length, a parse is due for few of them, however short the lines.
    #[test]
    fn the_octets_to_parse_are_linear_in_those_that_arrive() {
        for line in ["a".repeat(1000) + "\r\n", "a: b\r\n".into(), "a".into()] {
            let text = line.repeat((64 << 10) / line.len());
            let parsed: usize =
                due(text.as_bytes(), usize::MAX).into_iter().filter(|len| *len > EACH_LINE_MAX).sum();
            assert!(parsed <= 2 * text.len(), "{parsed} octets");
        }
    }
}
