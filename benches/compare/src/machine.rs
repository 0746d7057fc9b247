//! [`Machine`]: where and with what the figures were made.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::available_parallelism;

use serde::Serialize;

use crate::peer::Foreign;

#[derive(Serialize)]
pub(crate) struct Machine {
    /// When it was looked at, in UTC.
    pub(crate) date: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// In MiB.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// How its TCP controls congestion, over loopback too: bbr paces what it sends, and cubic does not.
    pub(crate) congestion: String,
    /// How busy the machine was with other things when it began: processes that want a core, over a minute.
    pub(crate) load: f64,
    /// Of the library.
    pub(crate) commit: String,
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn look(foreign: &Foreign) -> Machine {
        let file = |path| fs::read_to_string(path).unwrap_or_default();
        let memory = field(&file("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
        Machine {
            date: said("date", &["-u", "+%FT%TZ"]),
            processor: field(&file("/proc/cpuinfo"), "model name"),
            cores: available_parallelism().map_or(1, usize::from),
            memory: memory / 1024,
            kernel: known(&file("/proc/sys/kernel/osrelease")),
            congestion: known(&file("/proc/sys/net/ipv4/tcp_congestion_control")),
            load: file("/proc/loadavg").split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0.0),
            commit: said("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]),
            versions: versions(foreign),
        }
    }
}

/// The value after `name:` in a file of `/proc`.
fn field(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    known(line.split_once(':').map_or("", |(_, value)| value))
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(|_| known(""), |output| known(&String::from_utf8_lossy(&output.stdout)))
}

/// The text that was found, or a remark that none was.
fn known(found: &str) -> String {
    match found.trim() {
        "" => "unknown".to_owned(),
        found => found.to_owned(),
    }
}

fn versions(foreign: &Foreign) -> BTreeMap<String, String> {
    let crates = CRATES.iter().map(|name| (name.to_string(), locked(name).to_owned()));
    let mut versions: BTreeMap<String, String> = crates.collect();
    versions.insert("rustc".into(), said("rustc", &["--version"]));
    if let Ok((_, go)) = &foreign.go {
        versions.insert("go".into(), go.clone());
        let required = GO_MOD.lines().find_map(|line| line.split_once("fasthttp "));
        versions.insert("fasthttp".into(), required.map_or("unknown", |(_, version)| version).to_owned());
    }
    for (name, said) in [("nginx", &foreign.nginx), ("h2o", &foreign.h2o), ("strace", &foreign.strace)] {
        versions.extend(said.as_ref().ok().map(|version| (name.to_owned(), version.clone())));
    }
    versions
}

const CRATES: [&str; 11] = [
    "actix-web",
    "axum",
    "corehttp",
    "hyper",
    "hyper-util",
    "may_minihttp",
    "mio",
    "ntex",
    "reqwest",
    "tokio",
    "ureq",
];

const GO_MOD: &str = include_str!("../go/go.mod");
const LOCK: &str = include_str!("../Cargo.lock");

/// The version of a crate that this was built with.
fn locked(name: &str) -> &'static str {
    let start = format!("name = \"{name}\"\nversion = \"");
    let rest = LOCK.split_once(&start).map_or("unknown", |(_, rest)| rest);
    rest.split('"').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::{CRATES, field, locked, said};

    #[test]
    fn what_no_file_and_no_program_says_is_unknown() {
        let kept = "processor\t: 0\nmodel name\t: AMD EPYC\n";
        assert_eq!(field(kept, "model name"), "AMD EPYC");
        // As on ARM.
        assert_eq!(field("processor\t: 0\n", "model name"), "unknown");
        assert_eq!(said("echo", &["abc1234"]), "abc1234");
        // As git outside of a clone.
        assert_eq!(said("sh", &["-c", "echo not a repository >&2; exit 128"]), "unknown");
        assert_eq!(said("no-such-program", &[]), "unknown");
    }

    #[test]
    fn the_version_of_each_crate_is_known() {
        for name in CRATES {
            assert!(
                locked(name).starts_with(|first: char| first.is_ascii_digit()),
                "{name}: {}",
                locked(name)
            );
        }
        assert_eq!(locked("hyper2"), "unknown");
    }
}
