//! The cost of observing: a line for each request, and counts by route and status. Each server is measured with and without.

mod comparison;
mod observed;

mod actix;
mod axum;
mod corehttp;

pub(crate) use comparison::compare;
pub(crate) use observed::Observed;

/// The route that all of them have, and [`REQUEST`] is for. `/metrics` has the counts of servers that are observed.
const ROUTE: &str = "/users/{id}";
