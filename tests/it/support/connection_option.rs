//! [`ConnectionOption`]: what a message says about the connection that it comes over (RFC 9112 §9.3, §9.6).

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConnectionOption {
    Absent,
    KeepAlive,
    Close,
}

/// Fields that say so, or only seem to.
pub const CONNECTIONS: &[(&str, ConnectionOption)] = &[
    ("", ConnectionOption::Absent),
    ("", ConnectionOption::Absent),
    ("", ConnectionOption::Absent),
    ("connection: \"close\", closed\r\n", ConnectionOption::Absent),
    ("Connection: Keep-Alive\r\n", ConnectionOption::KeepAlive),
    ("connection: x ,\tkeep-alive\r\n", ConnectionOption::KeepAlive),
    ("connection: close\r\n", ConnectionOption::Close),
    ("connection: keep-alive\r\nCONNECTION: te, CLOSE \r\n", ConnectionOption::Close),
];
