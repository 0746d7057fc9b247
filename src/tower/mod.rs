//! Floor 5: services of tower as handlers, such as a `Router` of axum.

mod tower;

mod tower_body;

pub use tower::Tower;
pub use tower_body::TowerBody;
