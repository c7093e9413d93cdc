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
    std::fs::create_dir_all(parent_of(path))?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

/// Syncs the directory entry of `path` to disk.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    File::open(parent_of(path))?.sync_all()
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn new_folder_is_private_and_existing_one_is_unchanged() {
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = tempfile::tempdir().unwrap();
        let (parent, folder_path) = (folder.path().join("parent"), folder.path().join("parent/data"));
        make_private(&folder_path).unwrap();
        assert_eq!(mode(&folder_path), 0o700);
        assert_ne!(mode(&parent) & 0o055, 0, "whatever the umask leaves");
        std::fs::set_permissions(&folder_path, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&folder_path).unwrap();
        assert_eq!(mode(&folder_path), 0o755);
        std::fs::write(folder_path.join("file"), "").unwrap();
        assert!(make_private(&folder_path.join("file")).is_err());
    }

    #[test]
    fn parent_of_a_bare_name_is_the_current_folder() {
        for (path, folder) in [("key", "."), ("data/key", "data"), ("/data/key", "/data"), ("/key", "/"), ("data/", ".")] {
            assert_eq!(parent_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }
}
