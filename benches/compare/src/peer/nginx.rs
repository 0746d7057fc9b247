//! nginx, with what it can answer from its configuration.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::{free_address, wait_for};
use crate::application::page_json;
use crate::child::Child;
use crate::seat::Seat;

/// Starts nginx as one process that listens at the address which is returned.
pub(super) fn spawn(seat: Seat) -> io::Result<(Child, SocketAddr)> {
    let (address, folder) = (free_address()?, tempfile::tempdir()?);
    let file = folder.path().join("nginx.conf");
    let json = String::from_utf8(page_json()).map_err(io::Error::other)?;
    let configuration = TEMPLATE
        .replace("FOLDER", &folder.path().to_string_lossy())
        .replace("ADDRESS", &address.to_string())
        .replace("JSON", &json);
    fs::write(&file, configuration)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(&file).stderr(Stdio::null());
    let child = Child::spawn(&mut command, seat)?.with_folder(folder);
    wait_for(address)?;
    Ok((child, address))
}

const TEMPLATE: &str = include_str!("../../nginx.conf");
