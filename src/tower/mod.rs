//! Floor 5: services of tower as handlers, such as a `Router` of axum.

mod tower;
mod tower_body;

mod handler_service;
mod head_gate;
mod layer;
mod layer_transform;

pub use handler_service::{HandlerFuture, HandlerService};
pub use layer::layer;
pub use tower::Tower;
pub use tower_body::TowerBody;
