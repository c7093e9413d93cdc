//! Finds the current tree: in the store's own folder, or in a subfolder that a file names.
//!
//! The first tree is in the store's folder. Each tree that replaces it while a host runs has a subfolder of its own. It
//! becomes current once the file names it; the file is replaced by a rename and synced. So a store that was killed at
//! any moment has exactly one current tree. All others are unfinished or were replaced, and are removed at the next
//! start.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tollhouse_base::fsync_dir;

/// The file that names the folder of the current tree. If it is missing, the current tree is in the store's folder.
const IN_FORCE: &str = "tree-in-force";
/// The prefix of the names of tree folders. A number follows.
const FOLDER: &str = "tree-";
/// Bytes by which a large file is truncated at a time before it is removed. Other syncs wait for each truncation.
const CUT: u64 = 32 * 1024 * 1024;
/// Pause between two truncations.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the folder of the current tree. If that is unknown, returns a folder without a tree.
pub(super) fn of(store: &Path) -> PathBuf {
    match fs::read_to_string(store.join(IN_FORCE)) {
        Ok(name) if number(&name).is_some() => store.join(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => store.to_owned(),
        Ok(_) | Err(_) => store.join(name_of(0)),
    }
}

/// Returns whether the tree in `home` is certainly not the current one.
pub(super) fn is_out_of_force(store: &Path, home: &Path) -> bool {
    match fs::read_to_string(store.join(IN_FORCE)) {
        Ok(name) => number(&name).is_some() && store.join(name) != home,
        Err(error) => error.kind() == io::ErrorKind::NotFound && home != store,
    }
}

/// Creates a folder for a new tree.
pub(super) fn make(store: &Path) -> io::Result<PathBuf> {
    let last = folders(store)?.iter().map(|(number, _)| *number).max().unwrap_or_default();
    let made = store.join(name_of(last + 1));
    fs::create_dir(&made)?;
    Ok(made)
}

/// Makes the tree in `home` current, durably. Its files must be complete on disk.
pub(super) fn put_in_force(store: &Path, home: &Path) -> io::Result<()> {
    let marker = store.join(IN_FORCE);
    if home == store {
        return forget(store);
    }
    // The directory entry of the folder must be on disk too.
    fsync_dir::sync_entry(home)?;
    let unfinished = unfinished(store);
    let mut file = File::create(&unfinished)?;
    file.write_all(home.file_name().unwrap_or_default().as_encoded_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &marker)?;
    fsync_dir::sync_entry(&marker)
}

/// Makes the store's own folder current, so that the next tree is built there.
pub(super) fn forget(store: &Path) -> io::Result<()> {
    let marker = store.join(IN_FORCE);
    is_gone(fs::remove_file(&marker))?;
    fsync_dir::sync_entry(&marker)
}

/// Returns whether a folder contains files of a tree.
pub(super) fn has_tree(home: &Path) -> bool {
    home.join("db").exists() || home.join("conf").exists()
}

/// Lists the files of the tree in a folder.
pub(super) fn files(home: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "db" || name == "conf" || name == "blobs" || name.to_string_lossy().starts_with("snap.") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes every tree except the current one, if that exists.
pub(super) fn clear_others(store: &Path) -> io::Result<()> {
    let home = of(store);
    if !has_tree(&home) {
        return Ok(());
    }
    for (_, folder) in folders(store)? {
        if folder != home {
            fs::remove_dir_all(folder)?;
        }
    }
    if home != store {
        remove(store, store)?;
    }
    is_gone(fs::remove_file(unfinished(store)))
}

/// Removes the tree in a folder, and the folder unless it is the store's own. Large files are removed in parts.
pub(super) fn remove(store: &Path, home: &Path) -> io::Result<()> {
    for path in files(home)? {
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            remove_file(&path)?;
        }
    }
    if home == store { Ok(()) } else { fs::remove_dir_all(home) }
}

fn remove_file(path: &Path) -> io::Result<()> {
    let mut length = path.metadata()?.len();
    while length > CUT {
        length -= CUT;
        File::options().write(true).open(path)?.set_len(length)?;
        std::thread::sleep(PAUSE);
    }
    fs::remove_file(path)
}

/// Lists the tree folders of a store, with their numbers.
fn folders(store: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        found.extend(entry.file_name().to_str().and_then(number).map(|number| (number, entry.path())));
    }
    Ok(found)
}

/// Returns the temporary name of the file that names the current tree.
fn unfinished(store: &Path) -> PathBuf {
    store.join(IN_FORCE).with_extension("tmp")
}

/// Ignores the error that the file did not exist.
pub(super) fn is_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn name_of(number: u32) -> String {
    format!("{FOLDER}{number}")
}

/// Parses the number in the name of a tree folder.
fn number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(FOLDER)?.parse().ok()?;
    (name == name_of(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_is_current_and_the_others_are_removed() {
        let store = tempfile::tempdir().unwrap();
        let store = store.path();
        fs::write(store.join("db"), "first").unwrap();
        fs::create_dir(store.join("journal")).unwrap();
        let second = make(store).unwrap();
        fs::write(second.join("db"), "second").unwrap();
        assert_eq!(of(store), store);
        put_in_force(store, &second).unwrap();
        let third = make(store).unwrap();
        assert_eq!(of(store), second);
        assert!(is_out_of_force(store, &third) && is_out_of_force(store, store) && !is_out_of_force(store, &second));
        clear_others(store).unwrap();
        assert!(second.join("db").exists() && !third.exists() && !store.join("db").exists() && store.join("journal").exists());
        put_in_force(store, store).unwrap();
        assert_eq!(of(store), store);
        clear_others(store).unwrap();
        assert!(second.exists(), "the last tree there is was removed");
    }

    #[test]
    fn an_invalid_folder_name_leads_to_no_tree() {
        let store = tempfile::tempdir().unwrap();
        fs::write(store.path().join("db"), "first").unwrap();
        for name in
            [&b""[..], b"tree-", b"tree-01", b"tree-+1", b"../tree-1", b"tree-1/..", b"tree-99999999999", b"tree-\xff", b"tree-wrong"]
        {
            fs::write(store.path().join(IN_FORCE), name).unwrap();
            assert!(!has_tree(&of(store.path())), "{name:?}");
            assert!(!is_out_of_force(store.path(), &store.path().join("tree-1")), "{name:?}");
        }
    }

    #[test]
    fn large_files_are_removed_completely() {
        let store = tempfile::tempdir().unwrap();
        File::create(store.path().join("db")).unwrap().set_len(3 * CUT + 7).unwrap();
        remove(store.path(), store.path()).unwrap();
        assert!(!has_tree(store.path()));
    }
}
