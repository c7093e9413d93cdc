//! Checks the disk of the data folder: free space, kind of file system, and how long a commit waits for it.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, StatVfs, fdatasync, open, statfs, statvfs};

use super::finding::Finding;

/// Number of writes that are measured. The median is reported.
const WRITES: usize = 9;
/// Size of each write in bytes: about a commit.
const WRITTEN: usize = 4_096;
/// Duration of a commit above which payers notice.
const SLOW: Duration = Duration::from_millis(20);

const IN_MEMORY: Option<&str> = Some("it is in memory, and the store is lost when the machine stops: use a disk");
const IN_CONTAINER: Option<&str> = Some("if it belongs to a container, it is deleted with the container: mount a volume there");
const OVER_NETWORK: Option<&str> = Some("a network file system is not safe for the store: use a local disk or a database");
const BY_SERVER: Option<&str> = Some("only its server knows whether data is on a disk: use a local disk or a database");

/// File systems by their magic number (statfs(2)), with a remedy if they are unsuitable for a store.
const KINDS: &[(u64, &str, Option<&str>)] = &[
    (0xef53, "ext4", None),
    (0x5846_5342, "xfs", None),
    (0x9123_683e, "btrfs", None),
    (0x2fc1_2fc1, "zfs", None),
    (0xf2f5_2010, "f2fs", None),
    (0xca45_1a4e, "bcachefs", None),
    (0x0102_1994, "tmpfs", IN_MEMORY),
    (0x8584_58f6, "ramfs", IN_MEMORY),
    (0x794c_7630, "overlayfs", IN_CONTAINER),
    (0x6969, "nfs", OVER_NETWORK),
    (0xff53_4d42, "cifs", OVER_NETWORK),
    (0xfe53_4d42, "smb2", OVER_NETWORK),
    (0x6573_5546, "fuse", BY_SERVER),
    (0x0102_1997, "9p", BY_SERVER),
];

/// Checks the disk of `data`, which need not exist yet. Commits are refused below `kept_free` bytes. Leaves nothing
/// behind.
pub fn examine(data: &Path, kept_free: u64) -> Vec<Finding> {
    let folder = there(data);
    let mut found = vec![match statfs(&folder) {
        // Magic numbers have 32 bits, whatever the type of the field.
        Ok(disk) => kind(&folder, disk.f_type.cast_unsigned() & 0xffff_ffff),
        Err(error) => Finding::error("disk", &error, format!("check `{}`", folder.display())),
    }];
    if let Ok(disk) = statvfs(&folder) {
        found.push(free(&disk, kept_free));
    }
    found.push(match writes(&folder) {
        Ok(elapsed) => speed(elapsed),
        Err(error) => Finding::fail(
            "disk",
            format!("`{}` cannot be written to: {error}", folder.display()),
            "let the user that runs the host write there, or set TOLLHOUSE_DATA to another folder",
        ),
    });
    found
}

/// Returns the folder, or its nearest ancestor that exists.
fn there(data: &Path) -> PathBuf {
    let whole = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    whole.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn kind(folder: &Path, number: u64) -> Finding {
    let known = KINDS.iter().find(|(known, ..)| *known == number);
    let name = known.map_or_else(|| format!("a file system of kind {number:#x}"), |(_, name, _)| (*name).to_owned());
    let text = format!("`{}` is on {name}", folder.display());
    match known.and_then(|(_, _, remedy)| *remedy) {
        Some(remedy) => Finding::warn("disk", text, remedy),
        None => Finding::ok("disk", text),
    }
}

fn free(disk: &StatVfs, kept_free: u64) -> Finding {
    let bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let text = format!("{} MiB are free", bytes >> 20);
    let remedy = format!("free some space: below {} MiB the store rejects commits (TOLLHOUSE_STORE_FREE_BYTES)", kept_free >> 20);
    if bytes < kept_free {
        return Finding::fail("disk", text, remedy);
    }
    // File systems that allocate inodes dynamically report none.
    if disk.f_files > 0 && disk.f_favail == 0 {
        return Finding::fail(
            "disk",
            "no file can be created, because no inode is left",
            "remove files, or recreate the file system with more inodes",
        );
    }
    if bytes < kept_free.saturating_mul(4) { Finding::warn("disk", text, remedy) } else { Finding::ok("disk", text) }
}

fn speed(elapsed: Duration) -> Finding {
    let text = format!("a write takes {:.2} ms to reach the disk", elapsed.as_secs_f64() * 1_000.0);
    if elapsed > SLOW {
        return Finding::warn(
            "disk",
            text,
            "every group of commits waits that long: a dedicated disk, or one with a protected write cache, is faster",
        );
    }
    Finding::ok("disk", text)
}

/// Returns the median time of some writes to disk.
fn writes(folder: &Path) -> io::Result<Duration> {
    let mut file = File::from(nameless(folder)?);
    let mut elapsed = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let started = Instant::now();
        file.write_all(&[0; WRITTEN])?;
        fdatasync(&file)?;
        elapsed.push(started.elapsed());
    }
    elapsed.sort_unstable();
    Ok(elapsed[WRITES / 2])
}

/// Creates a file without a name, which disappears with this process. If the file system does not support that, the
/// file is removed at once.
fn nameless(folder: &Path) -> io::Result<OwnedFd> {
    let how = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = open(folder, how | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR) {
        return Ok(file);
    }
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let file = open(&path, how | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn missing_folder_is_examined_at_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let found = examine(&folder.path().join("not/yet"), 1);
        assert!(found.len() == 3 && found.iter().all(|finding| finding.level != Level::Fail), "{found:?}");
        assert!(found[0].text.contains(&folder.path().display().to_string()), "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(examine(folder.path(), u64::MAX)[1].level, Level::Fail, "less is free than is kept free");
    }

    #[test]
    fn tmpfs_and_network_disks_are_reported() {
        let level = |number| kind(Path::new("/"), number).level;
        assert_eq!([level(0xef53), level(0x0102_1994), level(0x6969), level(7)], [Level::Ok, Level::Warn, Level::Warn, Level::Ok]);
        assert_eq!((speed(Duration::from_millis(21)).level, speed(SLOW).level), (Level::Warn, Level::Ok));
    }
}
