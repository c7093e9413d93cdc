//! Creates private folders and syncs folder entries to disk. Without that sync, a complete file can be missing after a
//! crash.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

/// Creates a folder with mode 0700, so that only its owner can read or enter it. Parent folders get the usual mode. An
/// existing folder is left unchanged.
pub fn make_private(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(of(path))?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Syncs the directory entry of `path` to disk.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    File::open(of(path))?.sync_all()
}

fn of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn private_folder_is_for_its_owner_alone_and_one_that_exists_stays_as_it_is() {
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = tempfile::tempdir().unwrap();
        let (parent, made) = (folder.path().join("parent"), folder.path().join("parent/data"));
        make_private(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        assert_ne!(mode(&parent) & 0o055, 0, "whatever the umask leaves");
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&made).unwrap();
        assert_eq!(mode(&made), 0o755);
        std::fs::write(made.join("file"), "").unwrap();
        assert!(make_private(&made.join("file")).is_err());
    }

    #[test]
    fn path_of_one_part_is_in_the_folder_that_the_host_runs_in() {
        for (path, folder) in [("key", "."), ("data/key", "data"), ("/data/key", "/data"), ("/key", "/"), ("data/", ".")] {
            assert_eq!(of(Path::new(path)), Path::new(folder), "{path}");
        }
    }
}
