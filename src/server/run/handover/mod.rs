//! How the listening sockets of a server pass to the process that takes its place. With one interface whether or not the
//! feature `handover` is on.

#[cfg(not(all(feature = "handover", unix)))]
mod disabled;
#[cfg(all(feature = "handover", unix))]
mod enabled;

#[cfg(not(all(feature = "handover", unix)))]
pub(crate) use disabled::{Announcement, Handover, StartLimit};
#[cfg(all(feature = "handover", unix))]
pub(crate) use enabled::{Announcement, Handover, StartLimit};
