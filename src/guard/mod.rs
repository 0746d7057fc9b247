//! Floor 5: guards around handlers, which refuse a request before its body is received.
//!
//! In reading order: a handler behind a guard; the guards; and the memory of one of them.

mod guarded;

mod concurrency_limit;
mod cross_origin;
mod https_redirect;
mod load_shed;
mod rate_limit;

mod client_table;

pub use concurrency_limit::ConcurrencyLimit;
pub use cross_origin::CrossOriginProtection;
pub use guarded::Guarded;
pub use https_redirect::HttpsRedirect;
pub use load_shed::LoadShed;
pub use rate_limit::RateLimit;
