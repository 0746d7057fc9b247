//! [`CloseCode`]: why a WebSocket is closed, as a number (RFC 6455 §7.4).

use std::fmt;

/// Why a WebSocket is closed, as a number (RFC 6455 §7.4).
///
/// # Examples
///
/// ```
/// use corehttp::websocket::CloseCode;
///
/// const SIGNED_OUT: CloseCode = CloseCode(4001); // applications choose from 4000 to 4999
/// assert!(SIGNED_OUT.may_be_sent());
/// assert!(!CloseCode::ABNORMAL.may_be_sent());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// 1000: the purpose of the connection is fulfilled.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// 1001: the server stops, or the browser leaves the page.
    pub const AWAY: CloseCode = CloseCode(1001);
    /// 1002: the peer broke RFC 6455.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// 1003: a message of an unaccepted kind, such as binary.
    pub const UNSUPPORTED: CloseCode = CloseCode(1003);
    /// 1005: the close frame has no code, and no reason. The number itself is never sent: to close with it sends an empty
    /// frame.
    pub const NONE: CloseCode = CloseCode(1005);
    /// 1006: the connection ended without a close frame. Never sent.
    pub const ABNORMAL: CloseCode = CloseCode(1006);
    /// 1007: content unfit for its message, such as a text that is not UTF-8.
    pub const INVALID_DATA: CloseCode = CloseCode(1007);
    /// 1008: a message is against a policy.
    pub const POLICY: CloseCode = CloseCode(1008);
    /// 1009: a message is too large.
    pub const TOO_LARGE: CloseCode = CloseCode(1009);
    /// 1011: an unexpected condition.
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);
    /// 1013: the peer should try again later.
    pub const TRY_AGAIN_LATER: CloseCode = CloseCode(1013);

    /// Whether the number may be in a close frame: 1000 to 1003, 1007 to 1014, and 3000 to 4999.
    pub fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
