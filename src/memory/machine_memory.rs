//! [`machine_memory`]: how much memory this process may take.

use std::path::Path;
use std::sync::OnceLock;

/// Returns how many bytes of memory the machine has, or the control group of this process if that may take less. 2 GiB
/// where the system does not tell.
///
/// Looked up once: a group whose bound is changed later is not noticed.
pub(crate) fn machine_memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let bytes = if cfg!(target_os = "linux") { linux_memory(Path::new("/")) } else { None };
        bytes.unwrap_or(UNKNOWN).try_into().unwrap_or(usize::MAX)
    })
}

const UNKNOWN: u64 = 2 << 30;

/// The memory that a Linux system with this root tells of.
fn linux_memory(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| group_memory(root, line)).min();
    let machine = std::fs::read_to_string(root.join("proc/meminfo")).ok();
    let of_machine = machine.as_deref().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1 << 10)
    });
    of_groups.into_iter().chain(of_machine).min()
}

/// The least bound of a group and those that it is in. `line` names one of a hierarchy: `0::/path` (version 2), or
/// `4:memory:/path` (version 1). A container may see its own group as the root, whatever its name is.
fn group_memory(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let (mount, group) = (root.join(mount), Path::new(group.trim_start_matches('/')));
    let bounds = group.ancestors().filter_map(|group| -> Option<u64> {
        std::fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok()
    });
    bounds.min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A system with these files.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<u64>) {
        let root = std::env::temp_dir().join(format!("corehttp-{}-memory", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(linux_memory(&root), expected, "{files:?}");
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn the_least_bound_counts() {
        let machine = ("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\n");
        let group = ("proc/self/cgroup", "0::/a/b\n");
        check(&[], None);
        check(&[machine], Some(1000 << 10));
        check(&[machine, group, ("sys/fs/cgroup/a/b/memory.max", "max\n")], Some(1000 << 10));
        check(&[machine, group, ("sys/fs/cgroup/a/b/memory.max", "4096\n")], Some(4096));
        check(
            &[
                machine,
                group,
                ("sys/fs/cgroup/a/memory.max", "1024\n"),
                ("sys/fs/cgroup/a/b/memory.max", "4096\n"),
            ],
            Some(1024),
        );
        check(&[group, ("sys/fs/cgroup/memory.max", "2048\n")], Some(2048));
        let of_version_1 = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a\n");
        check(&[of_version_1, ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n")], Some(8192));
        check(&[machine, ("proc/self/cgroup", "nonsense\n0:\n")], Some(1000 << 10));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_memory() > 16 << 20);
    }
}
