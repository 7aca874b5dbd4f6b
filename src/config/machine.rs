//! Memory of the machine, or of the container that the process runs in.

use std::{fs, path::Path};

/// Bytes that this process may have: the least of the limits of its cgroups and the memory of the machine. The kernel is
/// asked for the latter, because `/proc/meminfo` may be hidden from a service.
pub fn memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits(Path::new("/sys/fs/cgroup"), &groups).into_iter().chain(machine()).min()
}

#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    nix::sys::sysinfo::sysinfo().ok().map(|info| info.ram_total())
}

#[cfg(not(target_os = "linux"))]
fn machine() -> Option<u64> {
    None
}

/// Limits of the cgroups of a process, of whose file `cgroup` this is the text, and of the groups that they are in.
fn limits(root: &Path, groups: &str) -> Vec<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (tree, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be that of the host; the root of the tree is then the container's own group.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let text = fs::read_to_string(tree.join(group).join(file)).unwrap_or_default();
            // `max`, and in the first version a number close to the largest one, is no limit.
            limits.extend(text.trim().parse::<u64>().ok());
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("system.slice/memory.max", "1073741824\n");
        write("system.slice/threadline.service/memory.max", "max\n");
        write("memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
        let found = |groups: &str| limits(root.path(), groups).into_iter().min();
        assert_eq!(found("0::/system.slice/threadline.service\n"), Some(1_073_741_824));
        assert_eq!(found("12:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n0::/\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(found("0::/other\n"), None);
        write("memory.max", "536870912");
        assert_eq!(found("0::/of/the/host\n"), Some(536_870_912));
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20), "a machine has memory");
    }
}
