//! Folders of the commands' files, and private files.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::{Error, Exit, Result, environment};

/// Maximum size of a file written by people, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the folder of `config.toml` and `credentials.toml`.
pub(crate) fn config() -> Result<PathBuf> {
    let found = environment::folder("XDG_CONFIG_HOME", ".config");
    found.map(|folder| folder.join("tollhouse")).ok_or_else(|| no_home_error("XDG_CONFIG_HOME"))
}

/// Returns the folder of the commands' own records: signed payments, and spending per day.
pub(crate) fn state() -> Result<PathBuf> {
    let found = environment::folder("XDG_STATE_HOME", ".local/state");
    found.map(|folder| folder.join("tollhouse")).ok_or_else(|| no_home_error("XDG_STATE_HOME"))
}

fn no_home_error(variable: &str) -> Error {
    Error::usage(format!("cannot find the home folder: set `HOME` or `{variable}` to an absolute path"))
}

/// Reads a text written by people. Returns `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    match open(path) {
        Ok(Some(file)) => text(file, path).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(unread(path, &error)),
    }
}

/// Reads a private text. Returns `None` if the file does not exist.
///
/// # Errors
///
/// The exit code for credentials, if the file is accessible to others or belongs to another user.
pub(crate) fn read_private(path: &Path) -> Result<Option<String>> {
    let as_credential = |error: Error| Error { exit: Exit::Credential, ..error };
    let Some(file) = open(path).map_err(|error| as_credential(unread(path, &error)))? else { return Ok(None) };
    let about = file.metadata().map_err(|error| as_credential(unread(path, &error)))?;
    if about.permissions().mode() & 0o077 != 0 {
        let name = path.display();
        return Err(Error::credential(format!("`{name}` is readable by others")).hint(format!("chmod 600 {name}")));
    }
    if about.uid() != geteuid().as_raw() {
        return Err(Error::credential(format!("`{}` belongs to another user", path.display())));
    }
    text(file, path).map(Some).map_err(as_credential)
}

/// Opens a regular file. Pipes and devices, which could block or never end, are refused.
fn open(path: &Path) -> io::Result<Option<File>> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(io::Error::other("not a regular file")) }
}

fn text(file: File, path: &Path) -> Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unread(path, &error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::refused(format!("`{}` has more than {MAX_BYTES} bytes", path.display())));
    }
    Ok(without_mark(text))
}

/// Removes a byte order mark, which some editors write.
pub(crate) fn without_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

fn unread(path: &Path, error: &io::Error) -> Error {
    Error::refused(format!("`{}` cannot be read: {error}", path.display()))
}

/// Writes a private file atomically, and creates its folder if necessary.
pub(crate) fn write_private(path: &Path, text: &str) -> Result {
    let written = make_folder(path.parent().unwrap_or(Path::new("."))).and_then(|()| replace(path, text, 0o600));
    written.map_err(|error| Error::refused(format!("`{}` cannot be written: {error}", path.display())))
}

/// Replaces a file atomically. A new file gets these permissions.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        _ = fs::remove_file(&temporary);
    }
    written
}

/// Locks a folder against other commands until the result is dropped. Otherwise, of two commands that change a file,
/// one would lose its change.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    let locked = (|| {
        make_folder(folder)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(".lock"))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    })();
    locked.map_err(|error: io::Error| Error::refused(format!("`{}` cannot be locked: {error}", folder.display())))
}

/// Creates a private folder.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_checked_and_written_privately() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/credentials.toml");
        assert!(read_private(&file).unwrap().is_none());
        write_private(&file, "a").unwrap();
        write_private(&file, "b").unwrap();
        assert_eq!(read_private(&file).unwrap().as_deref(), Some("b"));
        for mode in [0o604, 0o640, 0o660, 0o601] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refused = read_private(&file).unwrap_err();
            assert_eq!(refused.exit, Exit::Credential, "{mode:o}");
            assert!(refused.hint.unwrap().starts_with("chmod 600 "));
        }
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn special_and_large_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(read_private(&fifo).is_err());
        assert!(read(folder.path()).is_err());
        assert!(read(Path::new("/dev/zero")).is_err());
        let large = folder.path().join("large");
        fs::write(&large, "a".repeat(1 + usize::try_from(MAX_BYTES).unwrap())).unwrap();
        assert!(read(&large).is_err());
    }
}
