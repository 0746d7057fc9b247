//! State that a user agent keeps for a server (RFC 6265bis): how it is set, and how it is sent back.

mod cookies;
mod set_cookie;

pub use cookies::Cookies;
pub use set_cookie::{InvalidCookie, RawSetCookie, SameSite, SetCookie};
pub(super) use set_cookie::{is_value, quoted};

#[cfg(test)]
mod tests;
