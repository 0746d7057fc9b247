//! [`Programs`]: the entries, built as they are released, where there is what they need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that were built, by name; or why one was not.
pub(crate) struct Programs {
    built: BTreeMap<&'static str, Result<PathBuf, String>>,
}

impl Programs {
    /// Builds what has changed.
    pub(crate) fn build() -> Programs {
        let rust = build_rust();
        let program = |name: &str| rust.as_ref().map(|folder| folder.join(name)).map_err(String::clone);
        let built = [
            (ARENA, program("arena")),
            (RUST_PEERS, program("peers")),
            (GO_PEER, build_go()),
            (NGINX, find_nginx()),
        ];
        Programs { built: built.into() }
    }

    pub(super) fn find(&self, name: &str) -> Result<&Path, &str> {
        self.built[name].as_deref().map_err(String::as_str)
    }
}

/// The entry of this crate, which is its example.
pub(super) const ARENA: &str = "arena";
pub(super) const RUST_PEERS: &str = "peers";
pub(super) const GO_PEER: &str = "fasthttp";
pub(super) const NGINX: &str = "nginx";

/// Where cargo builds.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned()
}

/// Returns the folder of the programs.
fn build_rust() -> Result<PathBuf, String> {
    let target = target();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/applications/Cargo.toml");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--manifest-path", manifest, "--target-dir"]).arg(&target);
    succeed(&mut cargo)?;
    Ok(target.join("release"))
}

fn build_go() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("arena-go");
    let mut go = Command::new("go");
    go.args(["build", "-o"])
        .arg(&program)
        .arg("./arena")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
    succeed(&mut go)?;
    Ok(program)
}

fn find_nginx() -> Result<PathBuf, String> {
    succeed(Command::new("nginx").arg("-v")).map(|()| PathBuf::from("nginx"))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|_| format!("{name} is not installed"))?;
    let complaint = || format!("{name} fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(complaint()) }
}
