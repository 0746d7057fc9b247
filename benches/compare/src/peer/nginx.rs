//! nginx, with what it can answer from its configuration.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs, process};

use super::free_address;
use crate::application::page_json;
use crate::child::Child;
use crate::seat::Seat;

/// Starts nginx as one process that listens at the address which is returned.
pub(super) fn spawn(seat: Seat) -> io::Result<(Child, SocketAddr)> {
    let address = free_address()?;
    let folder = env::temp_dir().join(format!("compare-nginx-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let file = folder.join("nginx.conf");
    let json = String::from_utf8(page_json()).map_err(io::Error::other)?;
    let configuration = TEMPLATE
        .replace("FOLDER", &folder.to_string_lossy())
        .replace("ADDRESS", &address.to_string())
        .replace("JSON", &json);
    fs::write(&file, configuration)?;
    let child = Child::spawn(command(&folder, &file).stderr(process::Stdio::null()), seat)?;
    wait_for(address)?;
    fs::remove_dir_all(&folder)?;
    Ok((child, address))
}

const TEMPLATE: &str = include_str!("../../nginx.conf");

fn command(folder: &Path, file: &Path) -> Command {
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(file);
    command
}

/// nginx does not say when it listens.
fn wait_for(address: SocketAddr) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if tries == TRIES_MAX => return Err(error),
            Err(_) => sleep(PAUSE),
        }
        tries += 1;
    }
}

const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);
