//! nginx, with what it can answer from its configuration.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;

use super::{free_address, wait_for};
use crate::child::{Child, bound};
use crate::pinned_core::PinnedCore;

/// Starts nginx as one process that listens at the address which is returned.
pub(super) fn spawn(pinned_core: PinnedCore) -> io::Result<(Child, SocketAddr)> {
    let (address, folder) = (free_address()?, tempfile::tempdir()?);
    let file = folder.path().join("nginx.conf");
    let configuration =
        TEMPLATE.replace("FOLDER", &folder.path().to_string_lossy()).replace("ADDRESS", &address.to_string());
    fs::write(&file, configuration)?;
    let mut command = bound("nginx")?;
    command.arg("-p").arg(folder.path()).arg("-c").arg(&file).stderr(Stdio::null());
    let child = Child::spawn(&mut command, pinned_core)?.with_folder(folder);
    wait_for(address)?;
    Ok((child, address))
}

const TEMPLATE: &str = include_str!("../../nginx.conf");
