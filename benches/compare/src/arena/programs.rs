//! [`Programs`]: the entries, built as they are released, where there is what they need.

use std::collections::BTreeMap;
use std::fs;
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
            (ELYSIA, install_elysia()),
            (FASTPYSGI, install_fastpysgi()),
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
/// Bun, with Elysia in a folder below its own.
pub(super) const ELYSIA: &str = "elysia";
/// Python, which has FastPySGI.
pub(super) const FASTPYSGI: &str = "fastpysgi";
pub(super) const NGINX: &str = "nginx";

/// Where cargo builds.
pub(super) fn target() -> PathBuf {
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

/// Installs Bun and Elysia from npm, beside a copy of the application, for which Bun looks there.
fn install_elysia() -> Result<PathBuf, String> {
    let folder = target().join(ELYSIA);
    let copy = |name: &str| fs::copy(Path::new(SOURCES).join(ELYSIA).join(name), folder.join(name));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for name in ["package.json", "package-lock.json", "server.ts"] {
        copy(name).map_err(|error| error.to_string())?;
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    succeed(&mut npm)?;
    // The one package of several that is for this system.
    let packages = fs::read_dir(folder.join("node_modules/@oven")).map_err(|error| error.to_string())?;
    let bun = packages.flatten().map(|package| package.path().join("bin/bun")).find(|bun| bun.exists());
    bun.ok_or_else(|| "npm has no Bun for this system".to_owned())
}

/// Installs FastPySGI from PyPI, in an environment of its own.
fn install_fastpysgi() -> Result<PathBuf, String> {
    let folder = target().join(FASTPYSGI);
    let python = folder.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    let requirements = Path::new(SOURCES).join(FASTPYSGI).join("requirements.txt");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements);
    succeed(&mut pip)?;
    Ok(python)
}

/// The folder of the applications.
pub(super) const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/applications");

fn find_nginx() -> Result<PathBuf, String> {
    succeed(Command::new("nginx").arg("-v")).map(|()| PathBuf::from("nginx"))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|_| format!("{name} is not installed"))?;
    let complaint = || format!("{name} fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(complaint()) }
}
