//! [`Wish`]: what a message says about the connection that it comes over (RFC 9112 §9.3, §9.6).

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wish {
    Unsaid,
    KeepAlive,
    Close,
}

/// Fields that say so, or only seem to.
pub const CONNECTIONS: &[(&str, Wish)] = &[
    ("", Wish::Unsaid),
    ("", Wish::Unsaid),
    ("", Wish::Unsaid),
    ("connection: \"close\", closed\r\n", Wish::Unsaid),
    ("Connection: Keep-Alive\r\n", Wish::KeepAlive),
    ("connection: x ,\tkeep-alive\r\n", Wish::KeepAlive),
    ("connection: close\r\n", Wish::Close),
    ("connection: keep-alive\r\nCONNECTION: te, CLOSE \r\n", Wish::Close),
];
