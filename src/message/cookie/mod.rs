//! State that a user agent keeps for a server (RFC 6265bis): what it gives back, and how it is told.

mod cookies;
mod date;
mod set_cookie;

pub use cookies::Cookies;
pub(super) use set_cookie::is_value;
pub use set_cookie::{InvalidCookie, SameSite, SetCookie};

#[cfg(test)]
mod tests;
