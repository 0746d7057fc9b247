//! [`Request`], and what its fields ask for: ranges, conditions, kinds of content (RFC 9110 §11 to §14).

mod request;

mod authorization;
mod forward;
mod negotiation;
mod precondition;
mod range;
mod via;

mod matched_route;
mod path_params;

pub(crate) use matched_route::{NO_PATTERN, RoutePattern};
pub use path_params::PathParams;
pub(crate) use precondition::{PreconditionResult, Validators, evaluate_preconditions};
pub(crate) use range::{RangeSelection, may_send_range};
pub use request::Request;
pub(crate) use request::{RequestDraft, RequestLineDraft};
