//! [`FrameStart`]: how long is a frame of WebSocket? (RFC 6455 §5.2)
//!
//! A gateway only passes frames on, and needs no more than this. The feature `websocket` checks the rest of a head.

/// The first octets of a frame, up to the length of its payload. The masking key and the payload follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameStart {
    /// One of 16 kinds, six of which have a meaning.
    pub(crate) opcode: u8,
    pub(crate) is_masked: bool,
    pub(crate) payload_len: u64,
}

impl FrameStart {
    /// The opcode of a close frame, after which its sender sends no other (§5.5.1).
    pub(crate) const CLOSE: u8 = 0x8;

    /// More octets are never needed.
    pub(crate) const LEN_MAX: usize = 10;

    /// Reads the start of a frame, whether or not it is valid. Returns its length, too; `None` if more of it is to come.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(FrameStart, usize)> {
        let [first, second, rest @ ..] = bytes else { return None };
        let (payload_len, len) = match second & !MASKED {
            126 => (u16::from_be_bytes(*rest.first_chunk()?).into(), 4),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), 10),
            short => (short.into(), 2),
        };
        let is_masked = second & MASKED != 0;
        Some((FrameStart { opcode: first & OPCODE, is_masked, payload_len }, len))
    }
}

const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that starts with `bytes`, which may be cut at every byte, and has others after them.
    #[track_caller]
    fn check(bytes: &[u8], opcode: u8, is_masked: bool, payload_len: u64) {
        for cut in 0..bytes.len() {
            assert_eq!(FrameStart::parse(&bytes[..cut]), None, "{bytes:02x?} cut at {cut}");
        }
        let start = FrameStart { opcode, is_masked, payload_len };
        let more = [bytes, &[0xff; 8]].concat();
        for here in [bytes, &more] {
            assert_eq!(FrameStart::parse(here), Some((start, bytes.len())), "{here:02x?}");
        }
        assert!(bytes.len() <= FrameStart::LEN_MAX);
    }

    #[test]
    fn a_frame_has_one_of_three_lengths_rfc6455_5_2() {
        check(&[0x81, 0], 0x1, false, 0);
        check(&[0x02, 125], 0x2, false, 125);
        check(&[0x88, 0x82], FrameStart::CLOSE, true, 2);
        check(&[0xff, 126, 0x01, 0x02], 0xf, false, 0x102);
        check(&[0x80, 0xfe, 0xff, 0xff], 0x0, true, 0xffff);
        check(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], 0x2, false, 0x1_0000);
        check(&[0x82, 0xff, 1, 2, 3, 4, 5, 6, 7, 8], 0x2, true, 0x0102_0304_0506_0708);
    }

    #[test]
    fn lengths_that_are_not_valid_are_lengths() {
        check(&[0x81, 126, 0, 1], 0x1, false, 1);
        check(&[0x89, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0x9, false, u64::MAX);
    }
}
