//! [`Baseline`]: the counts that are expected, in a file of lines `name: count`.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The count on record for each row.
pub struct Baseline {
    counts: Vec<(String, u64)>,
    /// The tools that counted, since another compiler writes other instructions.
    tools: String,
}

impl Baseline {
    /// The counts of the file. None, if there is no such file yet.
    ///
    /// # Errors
    ///
    /// A line that is none.
    pub fn read() -> Result<Baseline, String> {
        let text = fs::read_to_string(path()).unwrap_or_default();
        let (notes, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
        let parse = |line: &str| {
            let (name, count) = line.split_once(": ")?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        let counts = lines.iter().map(|line| parse(line).ok_or_else(|| format!("{line:?} is no count")));
        let tools = notes.last().map_or("", |note| note.trim_start_matches("# ")).to_owned();
        Ok(Baseline { counts: counts.collect::<Result<_, _>>()?, tools })
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Expects `count` from now on.
    pub fn set(&mut self, name: &str, count: u64) {
        match self.counts.iter_mut().find(|row| row.0 == name) {
            Some(row) => row.1 = count,
            None => self.counts.push((name.to_owned(), count)),
        }
    }

    /// Writes the counts of these rows down, in this order.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(&self, rows: impl Iterator<Item = &'static str>) -> io::Result<()> {
        let lines: String = rows.filter_map(|name| Some(format!("{name}: {}\n", self.get(name)?))).collect();
        fs::write(path(), format!("{TITLE}\n# {}\n{lines}", tools()))
    }

    /// Says so if other tools are in use than those of the baseline.
    pub fn other_tools(&self) -> Option<String> {
        let (then, now) = (&self.tools, tools());
        (*then != now).then(|| format!("expected by {then}, counted by {now}"))
    }
}

const TITLE: &str = "# Instructions a round, as `cargo regression --accept` wrote them down with";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regression.txt")
}

/// The versions of what makes the instructions, and of what counts them.
fn tools() -> String {
    [version("rustc"), version("valgrind")].join(", ")
}

fn version(tool: &str) -> String {
    let output = Command::new(tool).arg("--version").output();
    output.map_or_else(
        |_| format!("no {tool}"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
