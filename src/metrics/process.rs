//! [`ProcessInfo`]: the memory, the CPU time, the descriptors and the start of this process.

use std::fs;

use super::metrics_writer::Writer;
use crate::descriptors::makes_room_after;

/// The resources that the process has taken, by the files of Linux in `/proc`. `None` on other systems.
pub(super) struct ProcessInfo {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) open_fds: Option<u64>,
    /// `None` also if there is no limit.
    max_fds: Option<u64>,
    /// Seconds since 1970.
    started: Option<f64>,
}

impl ProcessInfo {
    pub(super) fn read() -> ProcessInfo {
        let stat = read("/proc/self/stat");
        ProcessInfo {
            resident_bytes: read("/proc/self/status").and_then(|status| resident(&status)),
            cpu_seconds: stat.as_ref().and_then(|stat| cpu_seconds(stat)),
            open_fds: open_fds(),
            max_fds: max_fds(),
            started: stat.and_then(|stat| started(&stat, &read("/proc/stat")?)),
        }
    }

    /// Writes the metrics that all clients of Prometheus have.
    pub(super) fn write(&self, writer: &mut Writer) {
        if let Some(bytes) = self.resident_bytes {
            let help = "Resident memory of the process.";
            writer.gauge("process_resident_memory_bytes", help).value(&[], bytes as f64);
        }
        if let Some(seconds) = self.cpu_seconds {
            let help = "CPU time of the process, for itself and in the system.";
            writer.counter("process_cpu_seconds_total", help).value(&[], seconds);
        }
        if let Some(fds) = self.open_fds {
            writer.gauge("process_open_fds", "Open file descriptors.").value(&[], fds as f64);
        }
        if let Some(fds) = self.max_fds {
            let help = "How many file descriptors may be open.";
            writer.gauge("process_max_fds", help).value(&[], fds as f64);
        }
        if let Some(seconds) = self.started {
            let help = "When the process began, in seconds since 1970.";
            writer.gauge("process_start_time_seconds", help).value(&[], seconds);
        }
        let help = "The version of the crate, by its label.";
        writer.gauge("corehttp_build_info", help).value(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    }
}

/// Reads a file, once more if there was no descriptor and idle connections close. No core waits until they have.
fn read(path: &str) -> Option<String> {
    match fs::read_to_string(path) {
        Err(error) if makes_room_after(&error) => fs::read_to_string(path).ok(),
        text => text.ok(),
    }
}

/// How many descriptors are open: the size of their directory. On Linux before 6.2, where it is 0, they are counted, but
/// `None` is returned for more than a thousand: a core would be halted for as long as it counts.
fn open_fds() -> Option<u64> {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).ok()?.len() {
        0 => count_fds(fs::read_dir(folder).ok()?),
        size => Some(size),
    }
}

/// The directory that is read takes a descriptor, too.
fn count_fds(entries: impl Iterator) -> Option<u64> {
    let count = entries.take(COUNTED_MAX + 1).count();
    (count <= COUNTED_MAX).then(|| (count as u64).saturating_sub(1))
}

const COUNTED_MAX: usize = 1000;

/// The line is `VmRSS:     1234 kB`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The 14th and the 15th field, in ticks of 10 ms on all architectures. The second field, the name, is in parentheses and
/// may have any characters.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

/// By a call that needs no descriptor, since the number is wanted most when there is none.
#[cfg(unix)]
fn max_fds() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn max_fds() -> Option<u64> {
    None
}

/// The 22nd field, in ticks since the start of the machine, which is the line `btime` of the other file.
fn started(stat: &str, system: &str) -> Option<f64> {
    let ticks: f64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + ticks / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read() {
        assert_eq!(resident("Name:\ta\nVmRSS:\t    2 kB\nRssAnon:\t 1 kB\n"), Some(2048));
        assert_eq!((resident("VmRSS:"), resident("")), (None, None));
        let counted = [1, COUNTED_MAX, COUNTED_MAX + 1].map(|count| count_fds(0..count));
        assert_eq!(counted, [Some(0), Some(COUNTED_MAX as u64 - 1), None]);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 99";
        assert_eq!((cpu_seconds(stat), cpu_seconds("7 (a) S 1")), (Some(3.0), None));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 150 99";
        assert_eq!(started(stat, "cpu 1\nbtime 1000\n"), Some(1001.5));
        assert_eq!((started(stat, "cpu 1\n"), started("7 (a) S 1", "btime 1\n")), (None, None));
    }
}
