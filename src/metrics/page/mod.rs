//! The page that shows metrics to people: the handler, what its script is sent, and the script, style and text.

mod metrics_page;
mod snapshot;

pub use metrics_page::Page;
