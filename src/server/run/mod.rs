//! A running server: its threads, their listeners, its end, and its successor.

mod launch;

mod accept_loop;
mod idle_evictor;
mod server_handle;
mod stop;

mod handover;
mod systemd;

#[cfg(all(feature = "handover", unix))]
pub(super) use handover::Handover;
pub use launch::ServerCore;
pub(crate) use launch::{CORES_MAX, LaunchOptions, launch};
pub use server_handle::ServerHandle;
pub use stop::IntoIoResult;
#[cfg(all(feature = "systemd", unix))]
pub(super) use systemd::Notifier;
