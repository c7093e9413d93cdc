//! Resources of this machine, or of the control groups of this process if these have less.

use std::{fs, path::Path};

/// Mount point of control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// Lists the control groups of this process.
const OWN: &str = "/proc/self/cgroup";

/// The resources of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Maximum number of processes and threads. `u64::MAX` if nothing limits it.
    pub tasks: u64,
}

impl Machine {
    /// Returns the resources available to this process.
    #[must_use]
    pub fn this() -> Self {
        let info = rustix::system::sysinfo();
        let machine = Self { memory_bytes: u64::from(info.mem_unit).saturating_mul(info.totalram), tasks: u64::MAX };
        machine.within(Path::new(GROUPS), &fs::read_to_string(OWN).unwrap_or_default())
    }

    /// Reduces the resources to the limits of the groups that `own` names (cgroups(7)). Groups of
    /// version 2 are at the root or in `unified`, those of version 1 in a folder for each
    /// controller.
    fn within(self, root: &Path, own: &str) -> Self {
        own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).fold(self, |remaining, (controllers, path)| {
            let lowest = |folders: &[&str], file, known| {
                folders.iter().filter_map(|folder| lowest_limit(&root.join(folder), path, file)).fold(known, u64::min)
            };
            match controllers {
                "" => Self {
                    memory_bytes: lowest(&["", "unified"], "memory.max", remaining.memory_bytes),
                    tasks: lowest(&["", "unified"], "pids.max", remaining.tasks),
                },
                "memory" => Self { memory_bytes: lowest(&["memory"], "memory.limit_in_bytes", remaining.memory_bytes), ..remaining },
                "pids" => Self { tasks: lowest(&["pids"], "pids.max", remaining.tasks), ..remaining },
                _ => remaining,
            }
        })
    }
}

/// Returns the lowest number in `file` of the group at `path` and of its ancestors. In a container,
/// the path can be outside the visible tree. The root is then the group.
fn lowest_limit(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Machine = Machine { memory_bytes: 8_000, tasks: u64::MAX };

    fn groups(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn limits_of_own_and_parent_groups_apply() {
        let root = groups(&[
            ("memory.max", "max\n"),
            ("a/memory.max", "5000\n"),
            ("a/b/memory.max", "6000\n"),
            ("a/b/pids.max", "77\n"),
            ("other/memory.max", "1\n"),
        ]);
        assert_eq!(ALL.within(root.path(), "0::/a/b\n"), Machine { memory_bytes: 5_000, tasks: 77 });
        assert_eq!(ALL.within(root.path(), "0::/\n"), ALL);
        assert_eq!(ALL.within(root.path(), "0::/../elsewhere\n"), ALL);
        assert_eq!(ALL.within(root.path(), ""), ALL);
    }

    #[test]
    fn groups_of_version_1_have_a_folder_for_each_controller() {
        let root = groups(&[
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/memory.limit_in_bytes", "4000\n"),
            ("pids/pids.max", "max\n"),
            ("pids/a/pids.max", "50\n"),
            ("unified/memory.max", "7000\n"),
        ]);
        let own = |path: &str| format!("9:name=systemd:/\n8:pids:{path}\n4:memory:{path}\n1:cpu:/\n0::/\n");
        assert_eq!(ALL.within(root.path(), &own("/a")), Machine { memory_bytes: 4_000, tasks: 50 });
        assert_eq!(ALL.within(root.path(), &own("/as/the/machine/calls/it")), Machine { memory_bytes: 7_000, ..ALL });
    }

    #[test]
    fn memory_of_this_machine_is_read() {
        assert!(Machine::this().memory_bytes > 64 << 20, "this process uses more");
    }
}
