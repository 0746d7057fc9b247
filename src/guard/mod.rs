//! Floor 5: guards refuse a request before its body is received. `Hsts` and `RequestId` set a field.
//!
//! In reading order: these, and the counts of two of them.

mod concurrency_limit;
mod cross_origin;
mod hsts;
mod https_redirect;
mod rate_limit;
mod request_id;
mod shared_rate_limit;

mod client_table;
mod rate_store;

pub use concurrency_limit::ConcurrencyLimit;
pub use cross_origin::CrossOriginProtection;
pub use hsts::Hsts;
pub use https_redirect::HttpsRedirect;
pub use rate_limit::RateLimit;
pub use rate_store::{RateDecision, RateQuota, RateStore};
pub use request_id::RequestId;
pub use shared_rate_limit::{OnStoreFailure, SharedRateLimit};
