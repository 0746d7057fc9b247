//! Chapters that are longer than a page: a whole service, the open internet, operation, databases, defaults, features, and
//! the idioms of other crates.

#[doc = include_str!("docs/databases.md")]
pub mod databases {}

#[doc = include_str!("docs/defaults.md")]
pub mod defaults {}

#[doc = include_str!("docs/features.md")]
pub mod features {}

#[doc = include_str!("docs/open_internet.md")]
pub mod open_internet {}

#[doc = include_str!("docs/operations.md")]
#[cfg(all(feature = "access-log", feature = "metrics", feature = "tls"))]
pub mod operations {}

#[doc = include_str!("docs/whole_service.md")]
#[cfg(all(
    feature = "access-log",
    feature = "json",
    feature = "metrics",
    feature = "session",
    feature = "tracing"
))]
pub mod whole_service {}

#[doc = include_str!("docs/coming_from.md")]
#[cfg(all(
    feature = "access-log",
    feature = "form",
    feature = "fs",
    feature = "json",
    feature = "session",
    feature = "tower",
    feature = "tracing",
    feature = "websocket"
))]
pub mod coming_from {}
