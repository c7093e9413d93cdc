//! Where a tree's files lie.
//!
//! The first tree lies in the store's own folder. One that was made anew while the store was open ([`renew`](super::renew)) lies in
//! a folder of its own there, with a number. It is the store's tree once the folder says that it is whole, and those before
//! it go then; one that does not say so was cut off.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::base::folder;

/// What such folders are called, before their number.
const NUMBERED: &str = "tree-";
/// The file that says that all of a tree is in a folder, and on disk.
const WHOLE: &str = "whole";

/// The folder of the tree that is the store's.
pub(super) fn of(store: &Path) -> io::Result<PathBuf> {
    let whole = numbered(store)?.into_iter().rev().find(|(_, home)| home.join(WHOLE).exists());
    Ok(whole.map_or_else(|| store.to_owned(), |(_, home)| home))
}

/// A folder for the next tree, which is not there yet.
pub(super) fn next(store: &Path) -> io::Result<PathBuf> {
    let last = numbered(store)?.last().map_or(0, |(number, _)| *number);
    Ok(store.join(format!("{NUMBERED}{}", last + 1)))
}

/// Makes the tree in `home`, all of which is on disk, the store's.
pub(super) fn name_whole(home: &Path) -> io::Result<()> {
    let whole = home.join(WHOLE);
    File::create(&whole)?.sync_all()?;
    folder::sync_entry(&whole)?;
    folder::sync_entry(home)
}

/// Removes every tree that is not the store's.
pub(super) fn forget_others(store: &Path) -> io::Result<()> {
    let home = of(store)?;
    for (_, other) in numbered(store)?.into_iter().filter(|(_, other)| *other != home) {
        forget(&other)?;
    }
    if home != store {
        for file in first(store)? {
            forget(&file)?;
        }
    }
    Ok(())
}

/// Removes a folder or a file, if it is there.
pub(super) fn forget(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What belongs to trees in a store's folder.
pub(super) fn all(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = first(store)?;
    found.extend(numbered(store)?.into_iter().map(|(_, home)| home));
    Ok(found)
}

/// The files of the tree in the store's own folder.
fn first(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store)? {
        let name = entry?.file_name();
        if name == "db" || name == "conf" || name == "blobs" || name.to_string_lossy().starts_with("snap.") {
            found.push(store.join(&name));
        }
    }
    Ok(found)
}

/// The folders of trees that were made anew, the oldest first.
fn numbered(store: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NUMBERED)?.parse().ok());
        found.extend(number.map(|number| (number, store.join(&name))));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(home: &Path) {
        fs::create_dir_all(home).unwrap();
        fs::write(home.join("db"), "tree").unwrap();
    }

    #[test]
    fn the_last_whole_tree_is_the_stores_and_all_others_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        make(store);
        assert_eq!(of(store).unwrap(), store);
        let (first, second) = (store.join("tree-1"), store.join("tree-2"));
        assert_eq!(next(store).unwrap(), first);
        make(&first);
        assert_eq!(of(store).unwrap(), store, "one that is not whole is taken");
        assert_eq!(next(store).unwrap(), second);
        make(&second);
        name_whole(&second).unwrap();
        assert_eq!(of(store).unwrap(), second);
        fs::write(store.join("tree-is-wrong"), "").unwrap();
        forget_others(store).unwrap();
        assert!(second.join("db").exists() && !first.exists() && !store.join("db").exists());
        assert!(store.join("tree-is-wrong").exists());
    }

    #[test]
    fn a_tree_that_was_cut_off_goes_and_the_one_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        make(store);
        make(&store.join("tree-7"));
        forget_others(store).unwrap();
        assert!(store.join("db").exists() && !store.join("tree-7").exists());
    }
}
