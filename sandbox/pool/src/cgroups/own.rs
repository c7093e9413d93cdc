//! Divides the control group of this process into one for the host and others for its workers.

use std::{
    fs::{self, File},
    io,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

use rustix::{fs::getxattr, io::Errno};

use super::file::{errno, write};

/// The controllers that are used (cgroups(7)).
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Group that this process moves to. A group with subgroups must not contain processes.
const HOST: &str = "tollhouse-host";

/// Prefix of the groups of workers. The id of the process and a counter follow.
const WORKERS: &str = "tollhouse-workers-";

/// Attributes that mark a group as delegated by systemd (`Delegate=yes`): for root, and for other
/// users.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// Maximum attempts to move processes out of the group while new ones appear.
const MOVE_ATTEMPTS: usize = 8;

/// Returns the group that this process was started in, prepared for subgroups. The preparation
/// happens once.
///
/// # Errors
///
/// [`Errno::NOENT`] without groups of version 2, [`Errno::PERM`] if the group does not belong to
/// this process, [`Errno::OPNOTSUPP`] if none of the controllers is available, or the error of the
/// system.
pub(super) fn own_group() -> Result<&'static Path, Errno> {
    static OWN: OnceLock<Result<PathBuf, Errno>> = OnceLock::new();
    let own_group = OWN.get_or_init(|| {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let own = find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup")).ok_or(Errno::NOENT)?;
        split(&own.folder, own.covers_machine || is_delegated(&own.folder)).map(|()| own.folder)
    });
    own_group.as_deref().map_err(|errno| *errno)
}

/// A group that a process is in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnGroup {
    pub(super) folder: PathBuf,
    /// Whether this is the root of the visible hierarchy, of the machine or of a container.
    pub(super) covers_machine: bool,
}

/// Finds the folder of the version 2 group that `groups` (cgroups(7)) names, in the mounts of
/// `mounts` (proc_pid_mountinfo(5)). A process that was started from the host's own subgroup gets
/// the parent group.
pub(super) fn find(mounts: &str, groups: &str) -> Option<OwnGroup> {
    let path = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let path = path.parent().filter(|_| path.ends_with(HOST)).unwrap_or(path);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root).ok().filter(|_| kind.starts_with("cgroup2 "))?;
        Some(OwnGroup { folder: Path::new(point).join(below), covers_machine: path == Path::new("/") })
    })
}

/// Returns whether systemd has delegated a group to its service.
pub(super) fn is_delegated(group: &Path) -> bool {
    let is_set = |name: &&str| {
        let mut value = [0; 1];
        getxattr(group, *name, &mut value).is_ok_and(|length| length == 1) && value == *b"1"
    };
    DELEGATED.iter().any(is_set)
}

/// Enables the controllers for subgroups of `group`. `is_ours`: whether the group belongs to this
/// process.
pub(super) fn split(group: &Path, is_ours: bool) -> Result<(), Errno> {
    let offered = fs::read_to_string(group.join("cgroup.controllers")).map_err(|error| errno(&error))?;
    let requested: Vec<_> =
        CONTROLLERS.into_iter().filter(|requested| offered.split_whitespace().any(|offered| offered == *requested)).collect();
    if requested.is_empty() {
        return Err(Errno::OPNOTSUPP);
    }
    if !is_ours {
        return Err(Errno::PERM);
    }
    remove_old(group);
    // Only the machine's root group can keep its processes.
    if group.join("cgroup.type").exists() {
        move_processes(group).map_err(|error| errno(&error))?;
    }
    let mut enabled = requested.iter().map(|controller| write(group, "cgroup.subtree_control", format!("+{controller}")));
    let first = enabled.next().unwrap_or(Ok(()));
    enabled.fold(first, |any, next| any.or(next)).map_err(|error| errno(&error))
}

/// Moves all processes of a group to the host's subgroup.
fn move_processes(group: &Path) -> io::Result<()> {
    let host = group.join(HOST);
    fs::create_dir(&host).or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
    for _ in 0..MOVE_ATTEMPTS {
        let processes = fs::read_to_string(group.join("cgroup.procs"))?;
        if processes.is_empty() {
            return Ok(());
        }
        for process in processes.lines() {
            match write(&host, "cgroup.procs", process) {
                Err(error) if Errno::from_io_error(&error) != Some(Errno::SRCH) => return Err(error),
                _ => {}
            }
        }
    }
    Err(Errno::BUSY.into())
}

/// The group of the workers of one pool of this process.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) folder: PathBuf,
    /// Locked as long as there can be workers, so that no other host removes the group as
    /// abandoned, even if it cannot see our processes.
    _lock: File,
}

impl Workers {
    /// Creates the group for workers, in the group of this process.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(super) fn new(own: &Path) -> io::Result<Self> {
        let mut number = 0;
        loop {
            let folder = own.join(format!("{WORKERS}{}-{number}", std::process::id()));
            let created = fs::create_dir(&folder).map(|()| lock(&folder));
            match created {
                Ok(Some(lock)) => return Ok(Self { folder, _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // Another host with the same process id has this group, or it was removed as
                // abandoned before it was locked.
                _ => number += 1,
            }
        }
    }
}

/// Locks a group. Returns `None` if another host holds the lock or the group has been removed.
fn lock(workers: &Path) -> Option<File> {
    let lock = File::open(workers).ok()?;
    lock.try_lock().ok()?;
    workers.exists().then_some(lock)
}

/// Removes the groups that killed processes left behind.
fn remove_old(group: &Path) {
    let is_of_workers = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.starts_with(WORKERS));
    for old in fs::read_dir(group).into_iter().flatten().flatten().filter(is_of_workers) {
        let unused = lock(&old.path());
        unused.iter().for_each(|_| remove(&old.path()));
    }
}

/// Removes the group of a pool's workers if no process is left in it.
pub(super) fn remove(workers: &Path) {
    let folders = fs::read_dir(workers).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    folders.for_each(|folder| drop(fs::remove_dir(folder.path())));
    let _ = fs::remove_dir(workers);
}
