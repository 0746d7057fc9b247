//! Floor 5: guards, which are middleware that refuses a request before its body is received; and a field that keeps
//! requests from the clear.
//!
//! In reading order: the guards and the field; and where two of them count.

mod concurrency_limit;
mod cross_origin;
mod hsts;
mod https_redirect;
mod load_shed;
mod rate_limit;
mod shared_rate_limit;

mod client_table;
mod rate_store;

pub use concurrency_limit::ConcurrencyLimit;
pub use cross_origin::CrossOriginProtection;
pub use hsts::Hsts;
pub use https_redirect::HttpsRedirect;
pub use load_shed::LoadShed;
pub use rate_limit::RateLimit;
pub use rate_store::{RateDecision, RateQuota, RateStore};
pub use shared_rate_limit::{OnStoreFailure, SharedRateLimit};
