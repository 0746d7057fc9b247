//! h2o, with files, for it has no other responses that are static.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;

use nix::unistd::Uid;

use super::{free_address, wait_for};
use crate::application::HELLO;
use crate::child::{Child, bound};
use crate::pinned_core::PinnedCore;

/// Starts h2o with one thread that listens at the address which is returned.
pub(super) fn spawn(pinned_core: PinnedCore) -> io::Result<(Child, SocketAddr)> {
    let (address, folder) = (free_address()?, tempfile::tempdir()?);
    let file = folder.path().join("h2o.conf");
    // As root it would become somebody else, who may not read the folder; and only root may say who it becomes.
    let user = if Uid::effective().is_root() { "user: root" } else { "" };
    let configuration = TEMPLATE
        .replace("FOLDER", &folder.path().to_string_lossy())
        .replace("PORT", &address.port().to_string())
        .replace("USER", user);
    fs::write(&file, configuration)?;
    fs::write(folder.path().join("hello.txt"), HELLO)?;
    let mut command = bound("h2o")?;
    command.arg("-c").arg(&file).stderr(Stdio::null());
    let child = Child::spawn(&mut command, pinned_core)?.with_folder(folder);
    wait_for(address)?;
    Ok((child, address))
}

const TEMPLATE: &str = include_str!("../../h2o.conf");
