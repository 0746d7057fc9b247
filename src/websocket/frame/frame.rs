//! [`FrameHeader`]: the head of a frame (RFC 6455 §5.2); and masking (§5.3).

use super::error::ProtocolFault;
use crate::wire::FrameStart;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// The kinds of frames (§5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpCode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xa,
}

impl OpCode {
    fn from_bits(bits: u8) -> Result<OpCode, ProtocolFault> {
        Ok(match bits {
            0x0 => OpCode::Continuation,
            0x1 => OpCode::Text,
            0x2 => OpCode::Binary,
            0x8 => OpCode::Close,
            0x9 => OpCode::Ping,
            0xa => OpCode::Pong,
            reserved => return Err(ProtocolFault::OpCode(reserved)),
        })
    }

    pub(crate) fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) opcode: OpCode,
    /// Whether the frame is the last one of its message.
    pub(crate) is_final: bool,
    /// Whether the message that the frame begins is compressed: RSV1 (RFC 7692 §6).
    pub(crate) is_compressed: bool,
    pub(crate) mask: Option<Mask>,
    /// How long the payload is.
    pub(crate) len: u64,
}

impl FrameHeader {
    /// Parses a head that the peer of `side` has sent. Returns its length, too; `None` if more of it is to come. An
    /// error is found as soon as its octet is there.
    ///
    /// # Errors
    ///
    /// Fails if a reserved bit is set, but RSV1 if messages may be compressed, or if the opcode is reserved; if a
    /// control frame is fragmented, compressed, or longer than 125 bytes; if a frame of a client is not masked, or one
    /// of a server is; and if the length is not written in the shortest way, or exceeds 63 bits.
    pub(crate) fn parse(
        bytes: &[u8],
        side: Side,
        may_compress: bool,
    ) -> Result<Option<(FrameHeader, usize)>, ProtocolFault> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let opcode = OpCode::from_bits(first & 0x0f)?;
        let is_compressed = first & RSV1 != 0;
        let may_have_rsv1 = may_compress && matches!(opcode, OpCode::Text | OpCode::Binary);
        if first & (RSV2 | RSV3) != 0 || is_compressed && !may_have_rsv1 {
            return Err(ProtocolFault::ReservedBits);
        }
        let is_final = first & FIN != 0;
        if opcode.is_control() && !is_final {
            return Err(ProtocolFault::FragmentedControl);
        }
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        match (side, second & MASKED != 0) {
            (Side::Server, false) => return Err(ProtocolFault::Unmasked),
            (Side::Client, true) => return Err(ProtocolFault::Masked),
            _ => {}
        }
        let least = match second & !MASKED {
            126 | 127 if opcode.is_control() => return Err(ProtocolFault::LongControl),
            127 if bytes.get(2).is_some_and(|octet| octet & 0x80 != 0) => return Err(ProtocolFault::Length),
            127 => 1 << 16,
            126 => 126,
            _ => 0,
        };
        let Some((FrameStart { payload_len: len, .. }, start_len)) = FrameStart::parse(bytes) else {
            return Ok(None);
        };
        // A shorter form would do.
        if len < least {
            return Err(ProtocolFault::Length);
        }
        let (mask, end) = match side {
            Side::Client => (None, start_len),
            Side::Server => match bytes.get(start_len..).and_then(<[u8]>::first_chunk) {
                Some(key) => (Some(Mask::new(*key)), start_len + 4),
                None => return Ok(None),
            },
        };
        Ok(Some((FrameHeader { opcode, is_final, is_compressed, mask, len }, end)))
    }

    /// Appends the head to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let FrameHeader { opcode, is_final, is_compressed, mask, len } = *self;
        debug_assert!(!opcode.is_control() || is_final && len < 126, "a control frame is short and whole");
        let first = opcode as u8 | if is_final { FIN } else { 0 } | if is_compressed { RSV1 } else { 0 };
        let masked = if mask.is_some() { MASKED } else { 0 };
        match len {
            0..126 => out.extend_from_slice(&[first, len as u8 | masked]),
            126..0x1_0000 => {
                let [high, low] = (len as u16).to_be_bytes();
                out.extend_from_slice(&[first, 126 | masked, high, low]);
            }
            _ => {
                out.extend_from_slice(&[first, 127 | masked]);
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
        if let Some(mask) = mask {
            out.extend_from_slice(&mask.key());
        }
    }
}

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
const RSV2: u8 = 0x20;
const RSV3: u8 = 0x10;
const MASKED: u8 = 0x80;

/// A control frame has no longer payload (§5.5).
pub(crate) const CONTROL_MAX: usize = 125;

/// A masking key, rotated to the octet that is masked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask([u8; 4]);

impl Mask {
    pub(crate) fn new(key: [u8; 4]) -> Mask {
        Mask(key)
    }

    fn key(self) -> [u8; 4] {
        self.0
    }

    /// Masks `bytes`, or removes their mask, which is the same.
    pub(crate) fn apply(&mut self, bytes: &mut [u8]) {
        let Mask(key) = self;
        let narrow = u32::from_ne_bytes(*key);
        let wide = u64::from(narrow) << 32 | u64::from(narrow);
        let (pairs, rest) = bytes.as_chunks_mut::<16>();
        for pair in pairs {
            *pair = (u128::from_ne_bytes(*pair) ^ (u128::from(wide) << 64 | u128::from(wide))).to_ne_bytes();
        }
        let (words, rest) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
        }
        let (halves, rest) = rest.as_chunks_mut::<4>();
        for half in halves {
            *half = (u32::from_ne_bytes(*half) ^ narrow).to_ne_bytes();
        }
        for (octet, key) in rest.iter_mut().zip(*key) {
            *octet ^= key;
        }
        // As a number, the key is rotated without a call.
        *key = u32::from_le_bytes(*key).rotate_right(u8::BITS * rest.len() as u32).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head that a server reads from `bytes`, which may be cut at every byte.
    #[track_caller]
    fn check(bytes: &[u8], side: Side, expected: Result<(OpCode, u64), ProtocolFault>) {
        for cut in 0..bytes.len() {
            match FrameHeader::parse(&bytes[..cut], side, true) {
                Ok(parsed) => assert_eq!(parsed, None, "{bytes:02x?} cut at {cut}"),
                Err(error) => assert_eq!(Err(error), expected, "{bytes:02x?} cut at {cut}"),
            }
        }
        let parsed = FrameHeader::parse(bytes, side, true);
        let header = parsed.map(|parsed| {
            let (header, len) = parsed.expect("a whole head");
            assert_eq!(len, bytes.len(), "{bytes:02x?}");
            let mut again = Vec::new();
            header.encode(&mut again);
            assert_eq!(again, bytes);
            (header.opcode, header.len)
        });
        assert_eq!(header, expected, "{bytes:02x?}");
    }

    #[test]
    fn heads_are_read_strictly_rfc6455_5_2() {
        use OpCode::{Binary, Close, Continuation, Ping, Pong, Text};
        use Side::Client;
        check(&[0x81, 0], Client, Ok((Text, 0)));
        check(&[0x02, 125], Client, Ok((Binary, 125)));
        check(&[0x80, 126, 0, 126], Client, Ok((Continuation, 126)));
        check(&[0x82, 126, 0xff, 0xff], Client, Ok((Binary, 0xffff)));
        check(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], Client, Ok((Binary, 0x1_0000)));
        check(
            &[0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            Client,
            Ok((Binary, i64::MAX as u64)),
        );
        for (octet, control) in [(0x88, Close), (0x89, Ping), (0x8a, Pong)] {
            check(&[octet, 125], Client, Ok((control, 125)));
            check(&[octet, 126], Client, Err(ProtocolFault::LongControl));
            check(&[octet, 127], Client, Err(ProtocolFault::LongControl));
            check(&[octet & 0x7f], Client, Err(ProtocolFault::FragmentedControl));
            check(&[octet | 0x40], Client, Err(ProtocolFault::ReservedBits));
        }
        for reserved in [0x3, 0x4, 0x5, 0x6, 0x7, 0xb, 0xc, 0xd, 0xe, 0xf] {
            check(&[0x80 | reserved], Client, Err(ProtocolFault::OpCode(reserved)));
            check(&[reserved], Client, Err(ProtocolFault::OpCode(reserved)));
        }
        for bits in [0x10, 0x20, 0x30, 0x50, 0x60, 0x70] {
            check(&[0x81 | bits], Client, Err(ProtocolFault::ReservedBits));
        }
        check(&[0xc1, 1], Client, Ok((Text, 1)));
        check(&[0xc0], Client, Err(ProtocolFault::ReservedBits));
        for len in 0..126u8 {
            check(&[0x82, 126, 0, len], Client, Err(ProtocolFault::Length));
        }
        check(&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], Client, Err(ProtocolFault::Length));
        check(&[0x82, 127, 0x80], Client, Err(ProtocolFault::Length));
    }

    #[test]
    fn clients_mask_and_servers_do_not_rfc6455_5_1() {
        check(&[0x81, 0x80, 1, 2, 3, 4], Side::Server, Ok((OpCode::Text, 0)));
        check(&[0x82, 0xfe, 1, 0, 1, 2, 3, 4], Side::Server, Ok((OpCode::Binary, 256)));
        check(&[0x81, 0x00], Side::Server, Err(ProtocolFault::Unmasked));
        check(&[0x88, 0x02], Side::Server, Err(ProtocolFault::Unmasked));
        check(&[0x81, 0x80], Side::Client, Err(ProtocolFault::Masked));
        check(&[0x8a, 0x85], Side::Client, Err(ProtocolFault::Masked));
    }

    #[test]
    fn without_the_extension_no_message_is_compressed_rfc7692_6() {
        for octet in [0xc1, 0x42, 0xc0, 0xc8] {
            assert_eq!(FrameHeader::parse(&[octet], Side::Client, false), Err(ProtocolFault::ReservedBits));
        }
    }

    #[test]
    fn a_mask_goes_on_where_it_was_cut_rfc6455_5_3() {
        let (key, plain): ([u8; 4], Vec<u8>) = ([1, 2, 0x80, 0xff], (0..40).collect());
        let expected: Vec<u8> =
            plain.iter().zip(key.iter().cycle()).map(|(octet, key)| octet ^ key).collect();
        for cut in 0..=plain.len() {
            let mut mask = Mask::new(key);
            let mut masked = plain.clone();
            mask.apply(&mut masked[..cut]);
            mask.apply(&mut masked[cut..]);
            assert_eq!(masked, expected, "cut at {cut}");
        }
    }
}
