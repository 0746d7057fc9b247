//! Targets for coverage-guided fuzzing: each takes any octets, and panics if something is wrong with what the crate
//! makes of them. `README.md` says how they are run.

pub mod client;
pub mod content;
pub mod decoding;
pub mod files;
pub mod gateway;
pub mod reports;
pub mod server;

#[path = "../../support/everything.rs"]
mod everything;
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
    ("files", files::run),
    ("gateway", gateway::run),
    ("reports", reports::run),
    ("server", server::run),
];
