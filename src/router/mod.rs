//! Floor 5: routes. Which handler answers which path and method.
//!
//! In reading order: how a pattern is written; how a path is spelled; the edges of a tree, and the trees that find a host
//! and a path; handlers of different types under one index; the router, and the macro that makes one.

mod pattern;
mod spelling;

mod edges;
mod table;

mod handler_set;
mod router;
mod routes;

pub use handler_set::{Chain, FromHandler, HandlerSet};
pub use pattern::RouteError;
pub use router::Router;
pub use routes::RouteList;
