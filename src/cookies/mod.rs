//! Signed and encrypted cookies, which user agents cannot change unnoticed.
//!
//! ```
//! use corehttp::cookies::Key;
//! use corehttp::{Context, SetCookie};
//!
//! fn visits(ctx: &mut Context, key: &Key) -> corehttp::Result {
//!     let count: u32 = key.signed(ctx.request.cookies()).get("visits").and_then(|text| text.parse().ok()).unwrap_or(0);
//!     key.set_signed(&mut ctx.response, &SetCookie::new_session("visits", &(count + 1).to_string()))?;
//!     Ok(())
//! }
//! ```
//!
//! [`Cookies`](crate::Cookies) and [`SetCookie`](crate::SetCookie) are those without a key, and `session` keeps state on the
//! server instead.

// Floor 5: cookies that user agents cannot change unnoticed, or cannot read either, by the cryptography of the crate
// ring.
//
// In reading order: the key of an application; views of cookies; and the cryptography.

mod cookie_key;
mod keyed_cookies;

mod key_pair;

pub use cookie_key::{Key, KeyError};
pub use keyed_cookies::{PrivateCookies, SignedCookies};
