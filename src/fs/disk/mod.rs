//! Directories on disk, by the calls of each operating system.
//!
//! All functions here may block. They run on threads that may wait. Each kind of system has a file with the same
//! functions.

mod root_dir;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

#[cfg(target_os = "linux")]
use linux as system;
pub(super) use root_dir::{DiskRoot, Node, RootDir};
#[cfg(all(unix, not(target_os = "linux")))]
use unix as system;
#[cfg(not(unix))]
use windows as system;

pub(super) use self::system::descriptor_limit;
