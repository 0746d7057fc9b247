//! Floor 5: routes. They lead a path and a method to a handler.
//!
//! In reading order: the pattern, the spelling of a path, the edges of a tree, the trees of hosts and paths, the handlers under
//! one index, the router and its macro, links, and lists of routes.

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
