//! Directories on disk, by the calls of each operating system.
//!
//! This module blocks, so it is used on threads that may wait. There is a file for each kind of system, with the same
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
pub(super) use root_dir::{DiskRoot, Entry, Node, RootDir};
#[cfg(all(unix, not(target_os = "linux")))]
use unix as system;
#[cfg(not(unix))]
use windows as system;

pub(super) use self::system::descriptor_limit;
