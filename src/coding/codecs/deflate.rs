//! `deflate` and `gzip`: DEFLATE (RFC 1951) in the formats of zlib (RFC 1950) and of gzip (RFC 1952).

use flate2::{
    Compress, Compression, Crc, Decompress, DecompressError, FlushCompress, FlushDecompress, Status,
};

use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;
use crate::coding::{Coding, CodingError};
use crate::memory::PoolKind;

/// An encoder for `deflate` or `gzip`.
pub(super) struct DeflateEncoder {
    deflate: Compress,
    make: fn(Compression) -> Compress,
    level: Compression,
    /// Whether content has begun, and not ended.
    is_open: bool,
}

impl DeflateEncoder {
    pub(super) fn new_zlib(level: u32) -> DeflateEncoder {
        DeflateEncoder::new(|level| Compress::new_with_window_bits(level, true, WINDOW_BITS), level)
    }

    pub(super) fn new_gzip(level: u32) -> DeflateEncoder {
        DeflateEncoder::new(|level| Compress::new_gzip(level, WINDOW_BITS), level)
    }

    fn new(make: fn(Compression) -> Compress, level: u32) -> DeflateEncoder {
        let level = Compression::new(level.min(9));
        DeflateEncoder { deflate: make(level), make, level, is_open: false }
    }
}

/// 32 KiB, the largest window of DEFLATE.
const WINDOW_BITS: u8 = 15;

impl Encode for DeflateEncoder {
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError> {
        let (total_in, total_out) = (self.deflate.total_in(), self.deflate.total_out());
        let how = match flush {
            Flush::Later => FlushCompress::None,
            Flush::Now => FlushCompress::Sync,
            Flush::End => FlushCompress::Finish,
        };
        self.is_open = true;
        let status = self.deflate.compress(input, room, how).map_err(|_| CodingError::Encoder)?;
        self.is_open = status != Status::StreamEnd;
        let read = (self.deflate.total_in() - total_in) as usize;
        let written = (self.deflate.total_out() - total_out) as usize;
        let is_whole = match flush {
            // If the room was filled, it may have been too small.
            Flush::Later | Flush::Now => read == input.len() && written < room.len(),
            Flush::End => status == Status::StreamEnd,
        };
        Ok(Step { read, written, is_whole })
    }

    fn reset(&mut self) {
        // A reset of zlib-rs does not close an open block, so an encoder that was given up halfway cannot be used again.
        match self.is_open {
            true => self.deflate = (self.make)(self.level),
            false => self.deflate.reset(),
        }
        self.is_open = false;
    }

    fn memory(&self) -> usize {
        PoolKind::deflate_memory(WINDOW_BITS)
    }
}

/// A decoder for `deflate`. Also accepts content without the zlib format, which some senders omit (RFC 9110 §8.4.1.2).
pub(super) struct DeflateDecoder {
    inflate: LazyInflate,
    at: ZlibPart,
    /// Whether there is no zlib header.
    is_bare: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZlibPart {
    Start,
    /// The first octet, which a zlib header and bare DEFLATE may have in common.
    First(u8),
    Data,
    End,
}

impl DeflateDecoder {
    pub(super) fn new() -> DeflateDecoder {
        DeflateDecoder { inflate: LazyInflate::default(), at: ZlibPart::Start, is_bare: false }
    }

    fn inflate(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        let state = self.inflate.state();
        let step = inflate(state, input, room).map_err(|error| match error {
            CodingError::Corrupt if self.is_bare && state.total_out() == 0 => {
                CodingError::NotCoded(Coding::Deflate)
            }
            error => error,
        })?;
        if step.is_whole {
            self.at = ZlibPart::End;
        }
        Ok(step)
    }
}

impl Decode for DeflateDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        match (self.at, input) {
            (ZlibPart::Start, [first, ..]) => {
                self.at = ZlibPart::First(*first);
                Ok(Step { read: 1, ..Step::default() })
            }
            (ZlibPart::First(first), [second, ..]) => {
                self.at = ZlibPart::Data;
                self.is_bare = !is_zlib(first, *second);
                self.inflate.state().reset(!self.is_bare);
                let step = self.inflate(&[first, *second], room)?;
                // There was room for all output of two octets, so an octet that was not read stands after the end.
                if step.read == 2 { Ok(Step { read: 1, ..step }) } else { Err(CodingError::Corrupt) }
            }
            (ZlibPart::Data, _) => self.inflate(input, room),
            (ZlibPart::End, []) => Ok(Step { is_whole: true, ..Step::default() }),
            (ZlibPart::End, _) => Err(CodingError::Corrupt),
            (ZlibPart::Start | ZlibPart::First(_), []) => Ok(Step::default()),
        }
    }

    fn reset(&mut self) {
        self.at = ZlibPart::Start;
    }

    fn memory(&self) -> usize {
        PoolKind::INFLATE_MEMORY
    }
}

/// Whether content that begins with these octets has a zlib header (RFC 1950 §2.2).
fn is_zlib(first: u8, second: u8) -> bool {
    let method = first & 0x0f;
    let window = first >> 4;
    method == 8 && window <= 7 && (u16::from(first) << 8 | u16::from(second)) % 31 == 0
}

/// A state that is made with its first use, since many contents may wait for memory until then.
#[derive(Default)]
struct LazyInflate(Option<Decompress>);

impl LazyInflate {
    fn state(&mut self) -> &mut Decompress {
        self.0.get_or_insert_with(|| Decompress::new(false))
    }
}

/// One step of inflating.
pub(super) fn inflate(inflate: &mut Decompress, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
    let (total_in, total_out) = (inflate.total_in(), inflate.total_out());
    let inflated = inflate.decompress(input, room, FlushDecompress::None);
    let fault = |error: DecompressError| {
        error.needs_dictionary().map_or(CodingError::Corrupt, CodingError::Dictionary)
    };
    let status = inflated.map_err(fault)?;
    Ok(Step {
        read: (inflate.total_in() - total_in) as usize,
        written: (inflate.total_out() - total_out) as usize,
        is_whole: status == Status::StreamEnd,
    })
}

/// A decoder for `gzip`: anything that is not a member is an error, also after a member, unless junk is ignored there.
pub(super) struct GzipDecoder {
    inflate: LazyInflate,
    /// The checksum of the header, and then of the data.
    crc: Crc,
    /// Which optional sections of the header are still to come.
    flags: u8,
    at: MemberPart,
    /// Whether no member has begun yet.
    is_first: bool,
    junk: Junk,
}

/// The treatment of octets after a member that do not begin another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Junk {
    Refused,
    /// Ignored after a member, of which there was none yet.
    Ignored,
    /// There was one.
    IgnoredNow,
}

/// Positions in a member, as in RFC 1952 §2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberPart {
    /// How many of the ten fixed octets of a header were seen. At 0 the content may end.
    Fixed(u8),
    ExtraLen {
        seen: u8,
        len: u16,
    },
    Extra {
        left: u16,
    },
    Name,
    Comment,
    HeaderCrc {
        seen: u8,
        value: u16,
    },
    Data,
    Trailer {
        seen: u8,
        value: u64,
    },
    /// After the last member.
    Junk,
}

impl GzipDecoder {
    pub(super) fn new() -> GzipDecoder {
        GzipDecoder {
            inflate: LazyInflate::default(),
            crc: Crc::new(),
            flags: 0,
            at: MemberPart::Fixed(0),
            is_first: true,
            junk: Junk::Refused,
        }
    }

    /// Takes one octet of a header or trailer.
    fn take(&mut self, octet: u8) -> Result<(), CodingError> {
        let crc = self.crc.sum() as u16;
        if !matches!(self.at, MemberPart::Trailer { .. }) {
            self.crc.update(&[octet]);
        }
        match self.at {
            MemberPart::Fixed(seen) => return self.take_fixed(seen, octet),
            MemberPart::ExtraLen { seen: 0, .. } => {
                self.at = MemberPart::ExtraLen { seen: 1, len: octet.into() }
            }
            MemberPart::ExtraLen { len, .. } => match len | u16::from(octet) << 8 {
                0 => self.begin_next_section(),
                left => self.at = MemberPart::Extra { left },
            },
            MemberPart::Extra { left: 1 } => self.begin_next_section(),
            MemberPart::Extra { left } => self.at = MemberPart::Extra { left: left - 1 },
            MemberPart::Name | MemberPart::Comment if octet != 0 => {}
            MemberPart::Name | MemberPart::Comment => self.begin_next_section(),
            MemberPart::HeaderCrc { seen: 0, .. } => {
                self.at = MemberPart::HeaderCrc { seen: 1, value: u16::from(octet) ^ crc };
            }
            MemberPart::HeaderCrc { value, .. } => return self.check_header(value ^ u16::from(octet) << 8),
            MemberPart::Trailer { seen, value } => {
                let value = value | u64::from(octet) << (8 * seen);
                self.at = MemberPart::Trailer { seen: seen + 1, value };
                return if seen == 7 { self.check_data(value) } else { Ok(()) };
            }
            MemberPart::Data | MemberPart::Junk => {}
        }
        Ok(())
    }

    fn take_fixed(&mut self, seen: u8, octet: u8) -> Result<(), CodingError> {
        let is_good = match seen {
            0 => octet == 0x1f,
            1 => octet == 0x8b,
            2 => octet == DEFLATE,
            3 => octet & RESERVED == 0,
            _ => true,
        };
        match is_good {
            true => {}
            false if self.is_first && seen < 2 => return Err(CodingError::NotCoded(Coding::Gzip)),
            false => return self.begin_junk(),
        }
        self.is_first &= seen < 2;
        if seen == 3 {
            self.flags = octet;
        }
        match seen {
            9 => self.begin_next_section(),
            _ => self.at = MemberPart::Fixed(seen + 1),
        }
        Ok(())
    }

    /// Ends the content before octets that are no member.
    fn begin_junk(&mut self) -> Result<(), CodingError> {
        if self.junk != Junk::IgnoredNow {
            return Err(CodingError::Corrupt);
        }
        self.at = MemberPart::Junk;
        Ok(())
    }

    /// Whether the content may end here.
    fn may_end(&self) -> bool {
        match self.at {
            MemberPart::Fixed(0) | MemberPart::Junk => true,
            MemberPart::Fixed(_) => self.junk == Junk::IgnoredNow,
            _ => false,
        }
    }

    /// Goes on to the next section that the header has, or to the data.
    fn begin_next_section(&mut self) {
        let sections = [
            (EXTRA, MemberPart::ExtraLen { seen: 0, len: 0 }),
            (NAME, MemberPart::Name),
            (COMMENT, MemberPart::Comment),
            (HEADER_CRC, MemberPart::HeaderCrc { seen: 0, value: 0 }),
        ];
        let next = sections.into_iter().find(|(flag, _)| self.flags & flag != 0);
        match next {
            Some((flag, at)) => {
                self.flags &= !flag;
                self.at = at;
            }
            None => self.begin_data(),
        }
    }

    fn begin_data(&mut self) {
        self.crc.reset();
        self.inflate.state().reset(false);
        self.at = MemberPart::Data;
    }

    fn check_header(&mut self, difference: u16) -> Result<(), CodingError> {
        if difference != 0 {
            return Err(CodingError::Corrupt);
        }
        self.begin_data();
        Ok(())
    }

    /// Checks the `trailer`, which is the CRC of the data and its length modulo 2^32.
    fn check_data(&mut self, trailer: u64) -> Result<(), CodingError> {
        if trailer != u64::from(self.crc.sum()) | u64::from(self.crc.amount()) << 32 {
            return Err(CodingError::Corrupt);
        }
        self.crc.reset();
        self.at = MemberPart::Fixed(0);
        if self.junk == Junk::Ignored {
            self.junk = Junk::IgnoredNow;
        }
        Ok(())
    }
}

/// The only compression method.
const DEFLATE: u8 = 8;

/// The flags of §2.3.1.
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

impl Decode for GzipDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        let mut step = Step::default();
        loop {
            if self.at == MemberPart::Data {
                let inflated = inflate(self.inflate.state(), &input[step.read..], room)?;
                self.crc.update(&room[..inflated.written]);
                step.read += inflated.read;
                step.written = inflated.written;
                if inflated.is_whole {
                    self.at = MemberPart::Trailer { seen: 0, value: 0 };
                }
                if !inflated.is_whole || inflated.written > 0 {
                    return Ok(step);
                }
            }
            let Some(octet) = input.get(step.read) else {
                step.is_whole = self.may_end();
                return Ok(step);
            };
            self.take(*octet)?;
            step.read += 1;
        }
    }

    fn ignore_junk(&mut self) {
        self.junk = Junk::Ignored;
    }

    fn reset(&mut self) {
        // The state is reset when data begins.
        let GzipDecoder { inflate: _, crc, flags, at, is_first, junk } = self;
        crc.reset();
        (*flags, *at, *is_first, *junk) = (0, MemberPart::Fixed(0), true, Junk::Refused);
    }

    fn memory(&self) -> usize {
        PoolKind::INFLATE_MEMORY
    }
}
