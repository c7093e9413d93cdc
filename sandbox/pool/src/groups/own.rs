//! The group that this process is in, divided: into one for itself and others for its workers.

use std::{
    fs::{self, File},
    io,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

use rustix::{fs::getxattr, io::Errno};

use super::file::{errno, write};

/// What is wanted of the system (cgroups(7)).
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Where this process goes: none may be in a group that others are made in.
const HOST: &str = "tollhouse-host";

/// What groups of workers begin with. The number of the process follows that made them, and how many it had made before.
const WORKERS: &str = "tollhouse-workers-";

/// How systemd marks a group that is its service's own (`Delegate=yes`): as root, and for who is not.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// How often others may come to where this process was, as it leaves.
const TRIES: usize = 8;

/// The group that this process was started in, ready for others to be made in it. That is done once.
///
/// # Errors
///
/// [`Errno::NOENT`] without groups of version 2, [`Errno::PERM`] where it is not this process's to divide, [`Errno::OPNOTSUPP`] where
/// the system has none of the controllers for it, and what the system refuses.
pub(super) fn divided() -> Result<&'static Path, Errno> {
    static OWN: OnceLock<Result<PathBuf, Errno>> = OnceLock::new();
    let divided = OWN.get_or_init(|| {
        let told = |file| fs::read_to_string(file).unwrap_or_default();
        let own = find(&told("/proc/self/mountinfo"), &told("/proc/self/cgroup")).ok_or(Errno::NOENT)?;
        divide(&own.folder, own.is_all || is_delegated(&own.folder)).map(|()| own.folder)
    });
    divided.as_deref().map_err(|errno| *errno)
}

/// A group that a process is in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) folder: PathBuf,
    /// Whether there is no other one to be seen: the machine's, or a container's.
    pub(super) is_all: bool,
}

/// Where the group of version 2 is that `groups` names, as in cgroups(7), by what is mounted, as in proc_pid_mountinfo(5). Who is started
/// from where a process has gone that divided its group has that group, too.
pub(super) fn find(mounts: &str, groups: &str) -> Option<Own> {
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
        Some(Own { folder: Path::new(point).join(below), is_all: path == Path::new("/") })
    })
}

/// Whether systemd has left a group to the service that is in it.
pub(super) fn is_delegated(group: &Path) -> bool {
    let is_set = |name: &&str| {
        let mut value = [0; 1];
        getxattr(group, *name, &mut value).is_ok_and(|length| length == 1) && value == *b"1"
    };
    DELEGATED.iter().any(is_set)
}

/// Lets groups be made in `group` that have bounds, where it `is_ours`.
pub(super) fn divide(group: &Path, is_ours: bool) -> Result<(), Errno> {
    let offered = fs::read_to_string(group.join("cgroup.controllers")).map_err(|error| errno(&error))?;
    let wanted: Vec<_> = CONTROLLERS.into_iter().filter(|wanted| offered.split_whitespace().any(|offered| offered == *wanted)).collect();
    if wanted.is_empty() {
        return Err(Errno::OPNOTSUPP);
    }
    if !is_ours {
        return Err(Errno::PERM);
    }
    remove_old(group);
    // The machine's own is the one that processes may stay in.
    if group.join("cgroup.type").exists() {
        leave(group).map_err(|error| errno(&error))?;
    }
    let mut passed_on = wanted.iter().map(|controller| write(group, "cgroup.subtree_control", format!("+{controller}")));
    let first = passed_on.next().unwrap_or(Ok(()));
    passed_on.fold(first, |any, next| any.or(next)).map_err(|error| errno(&error))
}

/// Moves all processes of a group to one in it.
fn leave(group: &Path) -> io::Result<()> {
    let host = group.join(HOST);
    fs::create_dir(&host).or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
    for _ in 0..TRIES {
        let there = fs::read_to_string(group.join("cgroup.procs"))?;
        if there.is_empty() {
            return Ok(());
        }
        for process in there.lines() {
            match write(&host, "cgroup.procs", process) {
                Err(error) if Errno::from_io_error(&error) != Some(Errno::SRCH) => return Err(error),
                _ => {}
            }
        }
    }
    Err(Errno::BUSY.into())
}

/// A group for the workers of a pool of this process.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) folder: PathBuf,
    /// Held for as long as there may be workers, so that no other host takes it for one that was left, whatever it sees of processes.
    _lock: File,
}

impl Workers {
    /// # Errors
    ///
    /// The system's.
    pub(super) fn new(own: &Path) -> io::Result<Self> {
        let mut number = 0;
        loop {
            let folder = own.join(format!("{WORKERS}{}-{number}", std::process::id()));
            let made = fs::create_dir(&folder).map(|()| lock(&folder));
            match made {
                Ok(Some(lock)) => return Ok(Self { folder, _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // Another host's, by a number that both have, or taken for one that was left, before it was locked.
                _ => number += 1,
            }
        }
    }
}

/// A group, locked: where no host has it, and it has not been removed.
fn lock(workers: &Path) -> Option<File> {
    let lock = File::open(workers).ok()?;
    lock.try_lock().ok()?;
    workers.exists().then_some(lock)
}

/// Removes what processes left that were killed.
fn remove_old(group: &Path) {
    let is_of_workers = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.starts_with(WORKERS));
    for old in fs::read_dir(group).into_iter().flatten().flatten().filter(is_of_workers) {
        let left = lock(&old.path());
        left.iter().for_each(|_| remove(&old.path()));
    }
}

/// Removes a group of workers, where none is in it any more.
pub(super) fn remove(workers: &Path) {
    let folders = fs::read_dir(workers).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    folders.for_each(|folder| drop(fs::remove_dir(folder.path())));
    let _ = fs::remove_dir(workers);
}
