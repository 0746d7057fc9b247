//! Floor 5: routes. Which handler answers which path and method.
//!
//! In reading order: how a pattern is written; how a path is spelled; the edges of a tree, and the trees that find a host
//! and a path; handlers of different types under one index; the router, and the macro that makes one; links, and lists of routes.

mod pattern;
mod spelling;

mod edges;
mod table;

mod handler_set;
mod outcome;
mod router;
mod routes;

mod link;
mod route_info;

pub use handler_set::{Chain, FromHandler, HandlerSet};
pub use link::{Link, LinkError, LinkValues};
pub use pattern::RouteError;
pub use route_info::RouteInfo;
pub use router::Router;
pub use routes::{ListedRoute, RouteList};
