//! [`CloseReason`]: the content of a close frame (RFC 6455 §5.5.1).

use std::fmt;

use super::close_code::CloseCode;
use super::error::{Error, ProtocolFault};
use super::frame::CONTROL_MAX;

/// The content of a close frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CloseReason {
    /// The code. [`CloseCode::NONE`] for a frame without one.
    pub code: CloseCode,
    /// The reason in words, for logs. Often empty.
    pub text: Box<str>,
}

impl CloseReason {
    /// Reads the payload of a close frame.
    pub(crate) fn parse(payload: &[u8]) -> Result<CloseReason, Error> {
        let (code, text) = match payload {
            [] => return Ok(CloseReason { code: CloseCode::NONE, text: Box::default() }),
            [_] => return Err(ProtocolFault::ClosePayload.into()),
            [high, low, text @ ..] => (u16::from_be_bytes([*high, *low]), text),
        };
        if !CloseCode(code).may_be_sent() {
            return Err(ProtocolFault::CloseCode(code).into());
        }
        let text = std::str::from_utf8(text).map_err(|_| Error::Text)?;
        Ok(CloseReason { code: CloseCode(code), text: text.into() })
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, " {:?}", self.text) }
    }
}

/// The payload of a close frame with `code` and `reason`.
///
/// # Errors
///
/// Fails if the code must not be sent, or the reason exceeds 123 bytes.
pub(crate) fn close_payload(code: CloseCode, reason: &str) -> Result<ClosePayload, Error> {
    let mut payload = ClosePayload { bytes: [0; CONTROL_MAX], len: 0 };
    if !code.may_be_sent() {
        return Err(Error::Code(code));
    }
    let len = 2 + reason.len();
    let room = payload.bytes.get_mut(2..len).ok_or(Error::LongPayload)?;
    room.copy_from_slice(reason.as_bytes());
    payload.bytes[..2].copy_from_slice(&code.0.to_be_bytes());
    payload.len = len;
    Ok(payload)
}

/// The payload of a close frame.
pub(crate) struct ClosePayload {
    bytes: [u8; CONTROL_MAX],
    len: usize,
}

impl ClosePayload {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(payload: &[u8], expected: Result<(u16, &str), Error>) {
        let parsed = CloseReason::parse(payload);
        let parsed = parsed.as_ref().map(|reason| (reason.code.0, &*reason.text)).map_err(Clone::clone);
        assert_eq!(parsed, expected, "{payload:02x?}");
        if let Ok((code, reason)) = expected
            && !payload.is_empty()
        {
            assert_eq!(close_payload(CloseCode(code), reason).unwrap().as_bytes(), payload);
        }
    }

    #[test]
    fn a_close_frame_has_a_code_and_a_reason_rfc6455_5_5_1() {
        check(b"", Ok((1005, "")));
        check(b"\x03\xe8", Ok((1000, "")));
        check(b"\x03\xe8bye \xc3\xa9", Ok((1000, "bye \u{e9}")));
        let long = [b"\x03\xe8".as_slice(), &[b'x'; 123]].concat();
        check(&long, Ok((1000, &"x".repeat(123))));
        check(b"\x03", Err(ProtocolFault::ClosePayload.into()));
        check(b"\x03\xe8\xff", Err(Error::Text));
        check(b"\x03\xe8\xc3", Err(Error::Text));
    }

    #[test]
    fn reserved_codes_are_refused_rfc6455_7_4() {
        for code in
            [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999]
        {
            check(&u16::to_be_bytes(code), Ok((code, "")));
        }
        for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            check(&u16::to_be_bytes(code), Err(ProtocolFault::CloseCode(code).into()));
            assert!(close_payload(CloseCode(code), "").is_err());
        }
        assert!(close_payload(CloseCode::NORMAL, &"x".repeat(124)).is_err());
    }
}
