//! The folder that a file is in, whose entry for it has to be on disk too: a file that is there whole may else be gone after a crash.

use std::{fs::File, io, path::Path};

/// Puts the entry of `path` in its folder on disk.
pub(crate) fn sync_entry(path: &Path) -> io::Result<()> {
    File::open(of(path))?.sync_all()
}

fn of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_one_part_is_in_the_folder_that_the_host_runs_in() {
        for (path, folder) in [("key", "."), ("data/key", "data"), ("/data/key", "/data"), ("/key", "/"), ("data/", ".")] {
            assert_eq!(of(Path::new(path)), Path::new(folder), "{path}");
        }
    }
}
