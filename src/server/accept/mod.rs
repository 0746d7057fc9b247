//! How the connections of one core come in: accepted here or handed off by another core, within the limits.

mod accept_loop;

pub(super) use accept_loop::{AcceptLoop, CoreListener, CoreSender, Dispatch, Handoff, NEXT_CORES};
