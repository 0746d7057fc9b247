//! [`GzipDecoder`]: decodes one member after the other (RFC 1952).

use flate2::{Crc, Decompress};

use super::deflate;
use crate::coding::CodingError;
use crate::coding::codec::{Decode, Step};

/// A decoder for `gzip`. It is strict: anything that is not a member is an error, also after a member.
pub(super) struct GzipDecoder {
    inflate: Decompress,
    /// The checksum of the header, and then of the data.
    crc: Crc,
    /// Which optional sections of the header are still to come.
    flags: u8,
    at: At,
}

/// Positions in a member, as in RFC 1952 §2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
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
}

impl GzipDecoder {
    pub(super) fn new() -> GzipDecoder {
        GzipDecoder { inflate: Decompress::new(false), crc: Crc::new(), flags: 0, at: At::Fixed(0) }
    }

    /// Takes one octet of a header or trailer.
    fn take(&mut self, octet: u8) -> Result<(), CodingError> {
        let crc = self.crc.sum() as u16;
        if !matches!(self.at, At::Trailer { .. }) {
            self.crc.update(&[octet]);
        }
        match self.at {
            At::Fixed(seen) => return self.take_fixed(seen, octet),
            At::ExtraLen { seen: 0, .. } => self.at = At::ExtraLen { seen: 1, len: octet.into() },
            At::ExtraLen { len, .. } => match len | u16::from(octet) << 8 {
                0 => self.section(),
                left => self.at = At::Extra { left },
            },
            At::Extra { left: 1 } => self.section(),
            At::Extra { left } => self.at = At::Extra { left: left - 1 },
            At::Name | At::Comment if octet != 0 => {}
            At::Name | At::Comment => self.section(),
            At::HeaderCrc { seen: 0, .. } => {
                self.at = At::HeaderCrc { seen: 1, value: u16::from(octet) ^ crc };
            }
            At::HeaderCrc { value, .. } => return self.check_header(value ^ u16::from(octet) << 8),
            At::Trailer { seen, value } => {
                let value = value | u64::from(octet) << (8 * seen);
                self.at = At::Trailer { seen: seen + 1, value };
                return if seen == 7 { self.check_data(value) } else { Ok(()) };
            }
            At::Data => {}
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
        if !is_good {
            return Err(CodingError::Corrupt);
        }
        if seen == 3 {
            self.flags = octet;
        }
        match seen {
            9 => self.section(),
            _ => self.at = At::Fixed(seen + 1),
        }
        Ok(())
    }

    /// Goes on to the next section that the header has, or to the data.
    fn section(&mut self) {
        let sections = [
            (EXTRA, At::ExtraLen { seen: 0, len: 0 }),
            (NAME, At::Name),
            (COMMENT, At::Comment),
            (HEADER_CRC, At::HeaderCrc { seen: 0, value: 0 }),
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
        self.inflate.reset(false);
        self.at = At::Data;
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
        self.at = At::Fixed(0);
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
            if self.at == At::Data {
                let inflated = deflate::inflate(&mut self.inflate, &input[step.read..], room)?;
                self.crc.update(&room[..inflated.written]);
                (step.read, step.written) = (step.read + inflated.read, inflated.written);
                if inflated.is_whole {
                    self.at = At::Trailer { seen: 0, value: 0 };
                }
                if !inflated.is_whole || inflated.written > 0 {
                    return Ok(step);
                }
            }
            let Some(octet) = input.get(step.read) else {
                step.is_whole = self.at == At::Fixed(0);
                return Ok(step);
            };
            self.take(*octet)?;
            step.read += 1;
        }
    }

    fn reset(&mut self) {
        let GzipDecoder { inflate, crc, flags, at } = self;
        inflate.reset(false);
        crc.reset();
        (*flags, *at) = (0, At::Fixed(0));
    }
}
