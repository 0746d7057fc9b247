//! Counts the instructions of a process, by valgrind's callgrind.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many instructions this program executes when it is called with `args`. callgrind leaves its file at `notes`.
///
/// # Errors
///
/// Says why nothing could be counted.
pub fn count(args: &[&str], notes: &Path) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", notes.display()));
    command.arg(env::current_exe().map_err(|error| error.to_string())?).args(args);
    // The environment lies on the stack, and moves what lies behind it.
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    let output = command.output().map_err(|error| format!("valgrind is needed: {error}"))?;
    if !output.status.success() {
        return Err(format!("{args:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let notes = fs::read_to_string(notes).map_err(|error| error.to_string())?;
    let total = notes.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "callgrind counted nothing".to_owned())
}

/// A folder for notes, beside this program.
pub fn folder() -> PathBuf {
    let program = env::current_exe().expect("a program knows where it is");
    let folder = program.with_file_name("callgrind");
    fs::create_dir_all(&folder).expect("what was built there can be written beside");
    folder
}
