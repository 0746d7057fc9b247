//! [`count`]: which system calls does a process make, how often, and how many in vain?

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// One system call's row in strace's table.
pub struct Row {
    pub name: String,
    pub calls: u64,
    /// Calls that achieved nothing, such as a read of an empty socket.
    pub errors: u64,
}

/// The system calls of a process during `work`, the most frequent first; `None` without strace.
pub fn count(process: u32, work: impl FnOnce()) -> Option<Vec<Row>> {
    let path = std::env::temp_dir().join(format!("corehttp-bench-strace-{process}"));
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "name,calls,errors", "-o"]).arg(&path).arg("-p").arg(process.to_string());
    let mut strace = command.stderr(Stdio::piped()).spawn().ok()?;
    // Kept to the end: strace speaks of each new thread, and dies if nobody could hear it.
    let (mut said, mut speech) = (String::new(), BufReader::new(strace.stderr.take()?));
    speech.read_line(&mut said).ok()?;
    if said.contains("attached") {
        work();
    }
    // An interrupt, and nothing harder, makes strace let go and write its table.
    Command::new("kill").args(["-INT", &strace.id().to_string()]).status().ok()?;
    strace.wait().ok()?;
    let table = fs::read_to_string(&path).ok()?;
    fs::remove_file(&path).ok()?;
    let mut rows: Vec<Row> = table.lines().filter_map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    (!rows.is_empty()).then_some(rows)
}

/// `recvfrom   1234   5`, where no third column means no errors.
fn row(line: &str) -> Option<Row> {
    let mut columns = line.split_whitespace();
    let name = columns.next().filter(|name| *name != "total")?.to_owned();
    let calls = columns.next()?.parse().ok()?;
    let errors = columns.next().map_or(Some(0), |errors| errors.parse().ok())?;
    Some(Row { name, calls, errors })
}
