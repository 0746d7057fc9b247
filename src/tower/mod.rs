//! Services of tower as handlers, such as a `Router` of axum; its layers as middleware; and the client as a service.
//!
//! ```no_run
//! use corehttp::Server;
//! use corehttp::tower::Tower;
//!
//! fn main() -> corehttp::Result {
//!     let app = axum::Router::new().route("/", axum::routing::get(|| async { "Hello, World!" }));
//!     Server::bind("[::]:8080").run(Tower::new(app))
//! }
//! ```
//!
//! [`layer`] makes middleware of a layer. A [`Client`](crate::Client) is a `tower::Service` itself.

// Floor 5: services of tower as handlers, such as a `Router` of axum.

mod tower;
mod tower_body;

mod handler_service;
mod head_gate;
mod layer;
mod layer_transform;
mod wrapped_body;

pub use handler_service::{HandlerFuture, HandlerService};
pub use layer::layer;
pub use tower::Tower;
pub use tower_body::TowerBody;
