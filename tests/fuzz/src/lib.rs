//! Targets for coverage-guided fuzzing: each takes any octets, and panics if something is wrong with what the crate
//! makes of them. `README.md` says how they are run.

pub mod client;
pub mod content;
pub mod decoding;
pub mod fields;
pub mod files;
pub mod gateway;
pub mod handover;
pub mod proxies;
pub mod reports;
pub mod server;
pub mod uploads;
pub mod websocket;

#[path = "../../support/everything.rs"]
mod everything;
mod heard;
mod memory;
#[path = "../../oracle/mod.rs"]
mod oracle;
mod script;
mod settings;
mod wired;

pub use settings::draw;

/// A function that takes any octets.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("client", client::run),
    ("content", content::run),
    ("decoding", decoding::run),
    ("fields", fields::run),
    ("files", files::run),
    ("gateway", gateway::run),
    ("handover", handover::run),
    ("proxies", proxies::run),
    ("reports", reports::run),
    ("server", server::run),
    ("uploads", uploads::run),
    ("websocket", websocket::run),
];
