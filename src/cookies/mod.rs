//! Floor 5: cookies that user agents cannot change unnoticed, or cannot read either, by the cryptography of the crate
//! ring.
//!
//! In reading order: the key of an application; views of cookies; and the cryptography.

mod cookie_key;
mod keyed_cookies;

mod key_pair;

pub use cookie_key::{InvalidKey, Key};
pub use keyed_cookies::{PrivateCookies, SignedCookies};
