//! The handover of a server's listening sockets to its successor. The interface is the same without the feature
//! `handover`.

#[cfg(not(all(feature = "handover", unix)))]
mod disabled;
#[cfg(all(feature = "handover", unix))]
mod enabled;

#[cfg(not(all(feature = "handover", unix)))]
pub(crate) use disabled::{Announcement, Handover, StartLimit};
#[cfg(all(feature = "handover", unix))]
pub(crate) use enabled::{Announcement, Handover, StartLimit};
