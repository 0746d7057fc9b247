//! [`ChunkedDecoder`], [`encode`]: the chunked coding (RFC 9112 §7.1).

use super::parse::{self, EndSearch, ForbiddenTrailers, Leniency};
use super::{Limits, WireError};
use crate::memory::Arena;
use crate::message::{Headers, is_tchar};

/// How far a chunked body has been decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkedDecoder {
    state: State,
    /// Bytes of extensions in the current chunk, and in the whole body.
    extension: usize,
    extensions: usize,
    /// Framing bytes beyond what is granted to each chunk and its data.
    overhead: usize,
    forbidden: ForbiddenTrailers,
    leniency: Leniency,
}

/// Positions in the grammar of §7.1, by the RFC's own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        digits: u32,
        size: u64,
    },
    Extension {
        state: ExtensionState,
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataEnd {
        lf: bool,
    },
    Trailers(EndSearch),
    Done,
    /// The end of the body is unknown.
    Broken(WireError),
}

/// Positions in a chunk-ext (§7.1.1): `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtensionState {
    /// Blanks after the size: a `;` must follow.
    BeforeSemicolon,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    /// Right after the closing quote.
    Unquoted,
    AfterValue,
}

/// The result of one step: framing at the front of the input, and data after the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// How many bytes are framing, to be skipped.
    pub(crate) framing: usize,
    /// How many bytes after them are data. 0 means that more input is needed, or that the body has ended.
    pub(crate) data: usize,
}

impl ChunkedDecoder {
    /// Makes a decoder that treats forbidden trailers as `forbidden` demands, and faults as `leniency` does.
    pub(crate) fn new(forbidden: ForbiddenTrailers, leniency: Leniency) -> ChunkedDecoder {
        ChunkedDecoder { forbidden, leniency, ..ChunkedDecoder::default() }
    }

    /// Decodes up to the end of the next piece of data. The reported bytes, framing and data, count as consumed.
    ///
    /// The trailer section stays in the input until it is complete, and then goes to `trailers`.
    ///
    /// # Errors
    ///
    /// Fails if the input breaks the grammar or a limit. All further calls then fail with the same error.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<Decoded, WireError> {
        match self.next_chunk(input) {
            Some(decoded) => Ok(decoded),
            None => self.decode_slow_path(input, limits, trailers),
        }
    }

    /// Decodes as [`ChunkedDecoder::decode`] does, where the framing is longer than necessary, or incomplete.
    #[inline(never)]
    fn decode_slow_path(
        &mut self,
        input: &[u8],
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<Decoded, WireError> {
        let decoded = self.advance(input, limits, trailers);
        debug_assert!(
            decoded.is_err() || decoded.is_ok_and(|it| it.framing + it.data <= input.len()),
            "no more is consumed than there was"
        );
        if let Err(error) = decoded {
            // If the same bytes were decoded again from the position reached, they might turn out to be valid.
            self.state = State::Broken(error);
        }
        decoded
    }

    /// Decodes all of `input`, and appends the data to `content`, which may grow to `most` bytes. Returns how much was
    /// consumed.
    ///
    /// # Errors
    ///
    /// As [`ChunkedDecoder::decode`], or if there is more data than allowed, be it only announced.
    pub(crate) fn decode_all(
        &mut self,
        input: &[u8],
        limits: &Limits,
        trailers: &mut Headers,
        most: usize,
        content: &mut Arena,
    ) -> Result<usize, WireError> {
        let mut consumed = 0;
        loop {
            let Decoded { framing, data } = self.decode(&input[consumed..], limits, trailers)?;
            let piece = &input[consumed + framing..][..data];
            let room = most.saturating_sub(content.len());
            // Data that was only announced counts once the input is used up, so that whole chunks pay nothing for it.
            if data > room || (data == 0 && self.left() > room as u64) {
                // This data counts as decoded, but stays in the input: the next call would take it for framing.
                self.state = State::Broken(WireError::BodyTooLarge);
                return Err(WireError::BodyTooLarge);
            }
            content.extend_up_to(piece, room);
            consumed += framing + data;
            if data == 0 {
                return Ok(consumed);
            }
        }
    }

    /// The fast path, for nearly all chunks: the framing between two pieces of data is complete, and as short as
    /// possible. `None` leaves it to [`ChunkedDecoder::decode_slow_path`].
    #[inline]
    pub(crate) fn next_chunk(&mut self, input: &[u8]) -> Option<Decoded> {
        let start = match self.state {
            State::DataEnd { lf: false } if input.starts_with(b"\r\n") => "\r\n".len(),
            State::Size { digits: 0, .. } => 0,
            _ => return None,
        };
        let (len, size) = size_line(&input[start..])?;
        let framing = start + len;
        // Within what is granted to any chunk, so there is nothing to count.
        if size == 0 || self.overhead > 0 || framing > FRAMING_EXCUSED {
            return None;
        }
        let data = self.take_data(size, input.len() - framing);
        Some(Decoded { framing, data })
    }

    #[cold]
    fn advance(
        &mut self,
        input: &[u8],
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<Decoded, WireError> {
        if let State::Broken(error) = self.state {
            return Err(error);
        }
        let mut framing = 0;
        while framing < input.len() && !self.is_done() {
            match self.state {
                State::Data { left } => {
                    let data = self.take_data(left, input.len() - framing);
                    return Ok(Decoded { framing, data });
                }
                State::Trailers(search) => {
                    let parsed = self.parse_trailers(search, &input[framing..], limits, trailers)?;
                    let Some(len) = parsed else { break };
                    framing += len;
                    self.state = State::Done;
                }
                _ => {
                    self.overhead += 1;
                    let byte = input[framing];
                    self.state = self.step(byte, limits).or_else(|error| self.step_over(byte, error))?;
                    framing += 1;
                }
            }
        }
        Ok(Decoded { framing, data: 0 })
    }

    /// Parses the trailer section, if it may be complete.
    fn parse_trailers(
        &mut self,
        mut search: EndSearch,
        section: &[u8],
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<Option<usize>, WireError> {
        let is_due = search.is_due(section, limits.trailers_max);
        self.state = State::Trailers(search);
        if !is_due {
            return Ok(None);
        }
        match parse::trailers(section, limits, self.forbidden, trailers) {
            Err(error) if self.leniency != Leniency::None => {
                self.leniency = Leniency::Used;
                parse::mended_trailers(section, limits, self.forbidden, trailers, error)
            }
            parsed => parsed,
        }
    }

    /// Checks `input`, which remains, if nothing follows it: a part of the trailer section may not have been parsed yet.
    ///
    /// # Errors
    ///
    /// As [`ChunkedDecoder::decode`].
    pub(crate) fn check_unfinished(&self, input: &[u8], limits: &Limits) -> Result<(), WireError> {
        match self.state {
            State::Trailers(_) => {
                parse::trailers(input, limits, self.forbidden, &mut Headers::new()).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// How much data of the current chunk is still to come. More chunks may follow it.
    fn left(&self) -> u64 {
        match self.state {
            State::Data { left } => left,
            _ => 0,
        }
    }

    /// Whether the last chunk and the trailers were read.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether a fault was overlooked.
    pub(crate) fn is_mended(&self) -> bool {
        self.leniency == Leniency::Used
    }

    /// Advances over the data of a chunk of which `left` bytes remain. Returns how many of the next `here` bytes that is.
    fn take_data(&mut self, left: u64, here: usize) -> usize {
        debug_assert!(left > 0, "a chunk without data is the last one");
        let data = usize::try_from(left).unwrap_or(usize::MAX).min(here);
        self.state = match left - data as u64 {
            0 => State::DataEnd { lf: false },
            left => State::Data { left },
        };
        data
    }

    /// Decodes one byte of framing.
    fn step(&mut self, byte: u8, limits: &Limits) -> Result<State, WireError> {
        match (self.state, byte) {
            (State::Size { digits: 1.., size }, b'\r') => Ok(State::SizeEnd { size }),
            (State::Size { digits: 1.., size }, b';') => {
                self.count_extension(ExtensionState::BeforeName, size, limits)
            }
            (State::Size { digits: 1.., size }, b' ' | b'\t') => {
                self.count_extension(ExtensionState::BeforeSemicolon, size, limits)
            }
            (State::Size { digits, size }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(WireError::ChunkSize)?;
                if digits == Limits::CHUNK_DIGITS_MAX {
                    return Err(WireError::ChunkSize);
                }
                Ok(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) })
            }
            (State::Extension { state, size }, b'\r') => match state {
                ExtensionState::Name | ExtensionState::Value | ExtensionState::Unquoted => {
                    Ok(State::SizeEnd { size })
                }
                ExtensionState::BeforeSemicolon => Err(WireError::ChunkSize),
                _ => Err(WireError::ChunkExtension),
            },
            (State::Extension { state, size }, _) => {
                self.count_extension(next_extension_state(state, byte)?, size, limits)
            }
            (State::SizeEnd { size }, b'\n') => self.begin_chunk(size),
            (State::SizeEnd { .. }, _) => Err(WireError::ChunkSize),
            (State::DataEnd { lf: false }, b'\r') => Ok(State::DataEnd { lf: true }),
            (State::DataEnd { lf: true }, b'\n') => Ok(State::default()),
            (State::DataEnd { .. }, _) => Err(WireError::ChunkData),
            (State::Data { .. } | State::Trailers(_) | State::Done | State::Broken(_), _) => {
                unreachable!("these are not read by byte")
            }
        }
    }

    /// Decodes a byte that [`ChunkedDecoder::step`] refuses for `error`, if faults are overlooked, and it is the LF of a line
    /// without CR, or the CR after blanks that follow a size.
    #[cold]
    fn step_over(&mut self, byte: u8, error: WireError) -> Result<State, WireError> {
        use ExtensionState::{BeforeSemicolon, Name, Unquoted, Value};
        if self.leniency == Leniency::None {
            return Err(error);
        }
        self.leniency = Leniency::Used;
        match (self.state, byte) {
            (State::Size { digits: 1.., size }, b'\n')
            | (State::Extension { state: BeforeSemicolon | Name | Value | Unquoted, size }, b'\n') => {
                self.begin_chunk(size)
            }
            (State::Extension { state: BeforeSemicolon, size }, b'\r') => Ok(State::SizeEnd { size }),
            (State::DataEnd { lf: false }, b'\n') => Ok(State::default()),
            _ => Err(error),
        }
    }

    /// Each chunk is granted some framing, plus twice the size of its data; overhead that accumulates beyond the limit
    /// is an attack on our time. The limit is checked only here, so that the result does not depend on where packets
    /// end.
    fn begin_chunk(&mut self, size: u64) -> Result<State, WireError> {
        self.extension = 0;
        let data = usize::try_from(size).unwrap_or(usize::MAX);
        self.overhead = self.overhead.saturating_sub(data.saturating_mul(2).saturating_add(FRAMING_EXCUSED));
        match size {
            _ if self.overhead > Limits::CHUNK_OVERHEAD_MAX => Err(WireError::ChunkOverhead),
            0 => Ok(State::Trailers(EndSearch::default())),
            left => Ok(State::Data { left }),
        }
    }

    fn count_extension(
        &mut self,
        state: ExtensionState,
        size: u64,
        limits: &Limits,
    ) -> Result<State, WireError> {
        self.extension += 1;
        self.extensions += 1;
        if self.extension > Limits::CHUNK_EXTENSION_MAX {
            return Err(WireError::ChunkExtensionTooLong);
        }
        match self.extensions > limits.chunk_extensions_total_max {
            true => Err(WireError::ChunkExtensionsTooLong),
            false => Ok(State::Extension { state, size }),
        }
    }
}

/// The length of the line at the front of `input`, and the size in it, if the line is complete and contains nothing
/// else. `None` leaves a malformed line to [`ChunkedDecoder::step`], which returns the error.
fn size_line(input: &[u8]) -> Option<(usize, u64)> {
    let mut size = 0;
    let longest = Limits::CHUNK_DIGITS_MAX as usize + 1;
    for (at, &byte) in input[..longest.min(input.len())].iter().enumerate() {
        match char::from(byte).to_digit(16) {
            Some(digit) => size = size << 4 | u64::from(digit),
            None => return (at > 0 && input[at..].starts_with(b"\r\n")).then_some((at + "\r\n".len(), size)),
        }
    }
    None
}

const _: () = assert!(Limits::CHUNK_DIGITS_MAX * 4 == u64::BITS, "a chunk size fits u64");

/// The framing bytes that are granted to each chunk.
const FRAMING_EXCUSED: usize = 16;

impl Default for State {
    fn default() -> State {
        State::Size { digits: 0, size: 0 }
    }
}

/// The position after one more byte of a chunk extension.
fn next_extension_state(state: ExtensionState, byte: u8) -> Result<ExtensionState, WireError> {
    match (state, byte) {
        (ExtensionState::BeforeSemicolon, b';') => Ok(ExtensionState::BeforeName),
        (
            ExtensionState::BeforeSemicolon
            | ExtensionState::BeforeName
            | ExtensionState::AfterName
            | ExtensionState::BeforeValue
            | ExtensionState::AfterValue,
            b' ' | b'\t',
        ) => Ok(state),
        // `3 x` and `3 \n` are sizes followed by junk; so is a size that only blanks follow.
        (ExtensionState::BeforeSemicolon, _) => Err(WireError::ChunkSize),
        (ExtensionState::Name, b' ' | b'\t') => Ok(ExtensionState::AfterName),
        (ExtensionState::Value | ExtensionState::Unquoted, b' ' | b'\t') => Ok(ExtensionState::AfterValue),
        (ExtensionState::Name | ExtensionState::AfterName, b'=') => Ok(ExtensionState::BeforeValue),
        (
            ExtensionState::Name
            | ExtensionState::AfterName
            | ExtensionState::Value
            | ExtensionState::Unquoted
            | ExtensionState::AfterValue,
            b';',
        ) => Ok(ExtensionState::BeforeName),
        (ExtensionState::BeforeName | ExtensionState::Name, _) if is_tchar(byte) => Ok(ExtensionState::Name),
        (ExtensionState::BeforeValue, b'"') => Ok(ExtensionState::Quoted),
        (ExtensionState::BeforeValue | ExtensionState::Value, _) if is_tchar(byte) => {
            Ok(ExtensionState::Value)
        }
        (ExtensionState::Quoted, b'"') => Ok(ExtensionState::Unquoted),
        (ExtensionState::Quoted, b'\\') => Ok(ExtensionState::Escaped),
        (ExtensionState::Quoted | ExtensionState::Escaped, b'\t' | b' '..=b'~' | 0x80..) => {
            Ok(ExtensionState::Quoted)
        }
        _ => Err(WireError::ChunkExtension),
    }
}

/// Writes `data`, which is not empty, as a chunk.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, data: &[u8]) {
    encode_size(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Writes the line before a chunk of `size` bytes, which must not be 0: that is the last chunk.
#[inline]
pub(crate) fn encode_size(out: &mut Vec<u8>, size: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    debug_assert!(size > 0, "a chunk without data is the last one");
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4);
    let digits = (0..digits).rev().map(|digit| HEX[size >> (4 * digit) & 0xf]);
    out.extend(digits.chain(*b"\r\n"));
}

/// Writes the last chunk and the trailer section, without fields that are not allowed there.
pub(crate) fn encode_end(out: &mut Vec<u8>, trailers: &Headers) {
    if trailers.is_empty() {
        return out.extend_from_slice(b"0\r\n\r\n");
    }
    out.extend_from_slice(b"0\r\n");
    super::encode::trailers(out, trailers);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that is `wire` is decoded to `expected`, wherever it is cut into packets.
    #[track_caller]
    fn check(wire: &[u8], expected: Result<&[u8], WireError>) {
        for cut in 0..=wire.len() {
            let decoded = decode(&[&wire[..cut], &wire[cut..]]);
            assert_eq!(decoded.as_deref(), expected.as_deref(), "{:?} cut at {cut}", wire.escape_ascii());
        }
    }

    /// The data of a body that comes in `packets`. Nothing after the body may be consumed.
    fn decode(packets: &[&[u8]]) -> Result<Vec<u8>, WireError> {
        let mut decoder = ChunkedDecoder::default();
        let mut trailers = Headers::new();
        let mut input = Vec::new();
        let mut out = Vec::new();
        for packet in packets {
            input.extend_from_slice(packet);
            loop {
                let step = decoder.decode(&input, &Limits::default(), &mut trailers)?;
                out.extend_from_slice(&input[step.framing..][..step.data]);
                input.drain(..step.framing + step.data);
                if step.data == 0 {
                    break;
                }
            }
        }
        match decoder.state {
            State::Done => assert_eq!(input, b"", "nothing is left over"),
            State::Trailers(_) => decoder.check_unfinished(&input, &Limits::default())?,
            _ => assert_eq!(input, b"", "all else is consumed"),
        }
        Ok(out)
    }

    #[test]
    fn the_data_of_chunks_is_put_together_rfc9112_7_1() {
        check(b"5\r\nhello\r\n0\r\n\r\n", Ok(b"hello"));
        check(b"3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n", Ok(b"abc0123456789"));
        check(b"0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", Ok(b""));
        check(b"0000000000000001\r\na\r\n0\r\n\r\n", Ok(b"a"));
        check(b"5\r\nhel", Ok(b"hel"));
    }

    /// The allowance of a chunk with much data covers overhead of the chunks before it.
    #[test]
    fn data_makes_up_for_the_overhead_before_it_rfc9112_7_1() {
        let limits = Limits { chunk_extensions_total_max: usize::MAX, ..Limits::default() };
        let long = format!("1;{}\r\nx\r\n", "e".repeat(60));
        for (between, is_fine) in [("", false), ("1\r\nx\r\n", false), ("40\r\n{}\r\n", true)] {
            let between = between.replace("{}", &"x".repeat(0x40));
            let wire = format!("{long}{between}").repeat(1000) + "0\r\n\r\n";
            let mut decoder = ChunkedDecoder::default();
            let mut content = Arena::default();
            let trailers = &mut Headers::new();
            let decoded = decoder.decode_all(wire.as_bytes(), &limits, trailers, usize::MAX, &mut content);
            let expected = if is_fine { Ok(wire.len()) } else { Err(WireError::ChunkOverhead) };
            assert_eq!(decoded, expected, "{between:?}");
        }
    }

    #[test]
    fn chunk_size_is_hex_digits_only_rfc9112_7_1() {
        let bad: &[&[u8]] = &[
            b"+5",
            b"-5",
            b"0x5",
            b" 5",
            b"\t5",
            b"5 ",
            b"5 \t",
            b"",
            b"5g",
            b"_5",
            b"5_0",
            b"5\n",
            b"5\r\r",
            b"5 5",
            b"5 x",
            b"5\0",
            b"00000000000000005",
            b"ffffffffffffffff0",
            b"\xb2",
        ];
        for size in bad {
            check(&[size, &b"\r\nhello\r\n0\r\n\r\n"[..]].concat(), Err(WireError::ChunkSize));
        }
    }

    #[test]
    fn well_formed_extensions_are_ignored_rfc9112_7_1_1() {
        for extension in [";a", ";a=b", " ; a = b", ";a=\"b c;\\\"\u{e9}\"", ";a;b=c\t;d=\"\"", ";a=\"x\" ;b"]
        {
            check(format!("5{extension}\r\nhello\r\n0{extension}\r\n\r\n").as_bytes(), Ok(b"hello"));
        }
        for extension in [
            ";",
            ";;a",
            ";a=",
            ";=b",
            ";a\nb",
            ";a\0",
            ";a=\"b",
            ";a=\"b\"c",
            ";a b",
            ";a ",
            ";a=b ",
            ";a=\"\n\"",
            ";a,b",
        ] {
            check(format!("5{extension}\r\nhello\r\n0\r\n\r\n").as_bytes(), Err(WireError::ChunkExtension));
        }
        check(b"5;a\r\r\nhello\r\n", Err(WireError::ChunkSize));
    }

    #[test]
    fn chunk_data_ends_with_crlf_and_nothing_else_rfc9112_7_1() {
        for end in ["X", "\n", "\rX", "\r\rX", "lo\r\n", " \r\n"] {
            check(format!("3\r\nhel{end}0\r\n\r\n").as_bytes(), Err(WireError::ChunkData));
        }
    }

    #[test]
    fn trailers_are_checked_and_bounded_rfc9112_7_1_2() {
        for bad in [
            "Content-Length: 1",
            "host: a",
            "Cookie: a",
            "transfer-encoding: chunked",
            "X-Forwarded-For: 1",
            "X_Forwarded_For: 1",
            "forwarded: for=a",
            "True-Client-IP: a",
            "x_real_ip: a",
            "a b: c",
            ": c",
            "a",
            "a: \0",
            "a: b\rc",
            "a : b",
            " a: b",
            "a: b\r\n c",
        ] {
            check(format!("0\r\n{bad}\r\n\r\n").as_bytes(), Err(WireError::Trailer));
        }
        check(b"0\r\na: b\n\n", Err(WireError::Trailer));
        let many = "a: b\r\n".repeat(65);
        check(format!("0\r\n{many}\r\n").as_bytes(), Err(WireError::TooManyTrailers));
        let long = "b".repeat(16 << 10);
        assert_eq!(decode(&[format!("0\r\na: {long}").as_bytes()]), Err(WireError::TrailersTooLarge));
    }

    #[test]
    fn trailers_that_a_response_must_not_have_are_discarded_rfc9112_7_1_2() {
        let decoded = |wire: &str, forbidden| {
            let mut decoder = ChunkedDecoder::new(forbidden, Leniency::None);
            let mut trailers = Headers::new();
            let decoded = decoder.decode(wire.as_bytes(), &Limits::default(), &mut trailers);
            let left = trailers.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(",");
            decoded.map(|step| (step.framing == wire.len() && decoder.is_done(), left))
        };
        for (lines, left) in [
            ("Set-Cookie: a=b\r\n", ""),
            ("x-a: 1\r\nContent-Length: 5\r\nx-b: 2\r\nTRANSFER-ENCODING: x\r\n", "x-a,x-b"),
            ("X-Forwarded-For: 1\r\nx-a: 1\r\n", "x-a"),
            ("cf-connecting-ip: 1\r\nx-a: 1\r\nX_Real_IP: 1\r\n", "x-a"),
        ] {
            let wire = format!("0\r\n{lines}\r\n");
            assert_eq!(decoded(&wire, ForbiddenTrailers::Refused), Err(WireError::Trailer), "{lines}");
            assert_eq!(decoded(&wire, ForbiddenTrailers::Discarded), Ok((true, left.to_owned())), "{lines}");
        }
        // A field that is discarded must be well-formed all the same.
        for lines in
            ["Set-Cookie: a\n", "Set-Cookie : a\r\n", "Host: \0\r\n", " Host: a\r\n", "Host: a\r\n b\r\n"]
        {
            let wire = format!("0\r\nx-a: 1\r\n{lines}\r\n");
            assert_eq!(decoded(&wire, ForbiddenTrailers::Discarded), Err(WireError::Trailer), "{lines:?}");
        }
    }

    /// The data of a body that is decoded leniently, cut at every byte, and whether that was needed.
    #[track_caller]
    fn check_lenient(wire: &str, expected: Result<(&str, bool), WireError>) {
        for cut in 0..=wire.len() {
            let mut decoder = ChunkedDecoder::new(ForbiddenTrailers::Discarded, Leniency::Allowed);
            let (mut content, mut trailers, mut used) = (Arena::default(), Headers::new(), 0);
            let decoded = [cut, wire.len()].into_iter().try_for_each(|end| {
                let input = &wire.as_bytes()[used..end];
                let read =
                    decoder.decode_all(input, &Limits::default(), &mut trailers, usize::MAX, &mut content);
                read.map(|read| used += read)
            });
            let found = decoded.map(|()| {
                assert!(decoder.is_done() && used == wire.len(), "{wire:?} cut at {cut}");
                (str::from_utf8(content.as_slice()).unwrap(), decoder.is_mended())
            });
            assert_eq!(found, expected, "{wire:?} cut at {cut}");
        }
    }

    #[test]
    fn a_lenient_decoder_overlooks_a_missing_cr_and_blanks_after_a_size_rfc9112_7_1() {
        check_lenient("5\r\nhello\r\n0\r\n\r\n", Ok(("hello", false)));
        check_lenient("5 ;a=b\r\nhello\r\n0\r\n\r\n", Ok(("hello", false)));
        check_lenient("5\nhello\n0\n\n", Ok(("hello", true)));
        check_lenient("5\nhello\r\n0\r\n\r\n", Ok(("hello", true)));
        check_lenient("5\r\nhello\n0\r\n\r\n", Ok(("hello", true)));
        check_lenient("5\r\nhello\r\n0\r\n\n", Ok(("hello", true)));
        check_lenient("5  \t\r\nhello\r\n0 \r\n\r\n", Ok(("hello", true)));
        check_lenient("5 \nhello\r\n0\r\n\r\n", Ok(("hello", true)));
        check_lenient("5;a\nhello\r\n0;a=b\n\r\n", Ok(("hello", true)));
        check_lenient("5;a=\"b\"\nhello\r\n0\r\na: b\nc d: e\n\n", Ok(("hello", true)));
        for (wire, error) in [
            (" 5\r\nhello\r\n", WireError::ChunkSize),
            ("+5\r\nhello\r\n", WireError::ChunkSize),
            ("0x5\r\nhello\r\n", WireError::ChunkSize),
            ("\nhello\r\n", WireError::ChunkSize),
            ("5 5\r\nhello\r\n", WireError::ChunkSize),
            ("5\rhello\r\n", WireError::ChunkSize),
            ("5;\nhello\r\n", WireError::ChunkExtension),
            ("5;a=\"\n\"\r\nhello\r\n", WireError::ChunkExtension),
            ("5\r\nhello0\r\n\r\n", WireError::ChunkData),
            ("5\r\nhello\rX", WireError::ChunkData),
            ("5\r\nhell\n0\r\n\r\n", WireError::ChunkData),
            ("0\r\nContent-Length : 5\r\n\r\n", WireError::Trailer),
        ] {
            let decoded = |leniency| {
                let mut decoder = ChunkedDecoder::new(ForbiddenTrailers::Discarded, leniency);
                let mut trailers = Headers::new();
                let content = &mut Arena::default();
                decoder.decode_all(wire.as_bytes(), &Limits::default(), &mut trailers, 99, content)
            };
            assert_eq!(decoded(Leniency::Allowed), Err(error), "{wire:?}");
            assert_eq!(decoded(Leniency::None), Err(error), "{wire:?}");
        }
    }

    /// The size line alone exceeds the limit, before a byte of the data has arrived.
    #[test]
    fn data_beyond_the_limit_is_refused_as_soon_as_it_is_announced_rfc9112_7_1() {
        for (wire, is_fine) in [
            ("a\r\n", true),
            ("b\r\n", false),
            ("FFFFFFFFFF\r\n", false),
            ("ffffffffffffffff\r\n", false),
            ("4\r\n0123\r\n6\r\n", true),
            ("4\r\n0123\r\n7\r\n", false),
            ("4\r\n0123\r\n6\r\n01", true),
            ("4\r\n0123\r\nfffffffffffffffe\r\n01", false),
            ("4;a=b\r\n0123\r\n7;a=b\r\n", false),
        ] {
            for cut in 0..=wire.len() {
                let mut decoder = ChunkedDecoder::default();
                let mut content = Arena::default();
                let limits = Limits::default();
                let trailers = &mut Headers::new();
                let mut decode = |part: &str| {
                    decoder.decode_all(part.as_bytes(), &limits, trailers, 10, &mut content).map(drop)
                };
                let decoded = decode(&wire[..cut]).and_then(|()| decode(&wire[cut..]));
                let expected = if is_fine { Ok(()) } else { Err(WireError::BodyTooLarge) };
                assert_eq!(decoded, expected, "{wire:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn well_formed_framing_is_bounded_too() {
        let long = format!("5;{}\r\n", "a".repeat(4 << 10));
        assert_eq!(decode(&[long.as_bytes()]), Err(WireError::ChunkExtensionTooLong));
        let each = format!("1;{}\r\na\r\n", "a".repeat(4000)).repeat(5);
        assert_eq!(decode(&[each.as_bytes()]), Err(WireError::ChunkExtensionsTooLong));
        let tiny = "1\r\na\r\n".repeat(100_000);
        assert_eq!(decode(&[tiny.as_bytes()]).map(|data| data.len()), Ok(100_000));
        let padded = "0000000000000001;a=bcdefgh\r\na\r\n".repeat(2_000);
        assert_eq!(decode(&[padded.as_bytes()]), Err(WireError::ChunkOverhead));
    }

    #[test]
    fn encoded_chunks_decode_again() {
        let mut wire = Vec::new();
        for size in [1, 15, 16, 255, 4096, 70_000] {
            encode_size(&mut wire, size);
            wire.extend(vec![b'x'; size]);
            wire.extend(b"\r\n");
        }
        let mut trailers = Headers::new();
        // A peer refuses a body for the first and the last of these (RFC 9110 §6.5.1).
        for name in ["Host", "x-sum", "content-type"] {
            trailers.set(name, 7).unwrap();
        }
        encode_end(&mut wire, &trailers);
        assert!(wire.starts_with(b"1\r\nx\r\nf\r\n") && wire.ends_with(b"\r\n0\r\nx-sum: 7\r\n\r\n"));
        assert_eq!(decode(&[&wire]).map(|data| data.len()), Ok(1 + 15 + 16 + 255 + 4096 + 70_000));
    }
}
