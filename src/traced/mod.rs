//! Floor 5: spans of the crate `tracing` for the exchanges of a server.

mod traced;
