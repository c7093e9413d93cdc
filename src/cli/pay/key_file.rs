//! The file of the key that pays: readable by its owner only, written once, and never overwritten.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use tollhouse_base::fsync_dir::sync_entry;
use tollhouse_money::payer::PayKey;
use zeroize::Zeroizing;

use crate::base::{Error, Result, environment, private_files};

/// Returns the path of the key file: the one named on the command line, else the environment's, else the profile's,
/// else the default that all other profiles share.
pub(crate) fn path(named: Option<&Path>, of_profile: Option<&Path>) -> Result<PathBuf> {
    let by_home = |path: &Path| match path.strip_prefix("~") {
        Ok(below) => environment::path("HOME").map(|home| home.join(below)).ok_or_else(|| Error::usage("cannot resolve `~`: set `HOME`")),
        Err(_) => Ok(path.to_owned()),
    };
    match (named, environment::path(environment::PAY_KEY_FILE), of_profile) {
        (Some(named), _, _) => Ok(named.to_owned()),
        (None, Some(given), _) => Ok(given),
        (None, None, Some(of_profile)) => by_home(of_profile),
        (None, None, None) => Ok(private_files::config()?.join("pay.key")),
    }
}

/// Reads the key.
///
/// # Errors
///
/// A missing file, one that others can read, or one without a key: an error with the exit code of credentials.
pub(crate) fn read(path: &Path) -> Result<PayKey> {
    let name = path.display();
    let text = Zeroizing::new(private_files::read_private(path)?.ok_or_else(|| {
        Error::credential(format!("no payment key in `{name}`")).hint("create one: tollhouse key new, then tollhouse key fund 1")
    })?);
    text.trim().parse().map_err(|_| Error::credential(format!("`{name}` does not contain a key (32 bytes in hex)")))
}

/// Creates a new key in a new file.
///
/// # Errors
///
/// The file exists, or cannot be written.
pub(crate) fn create(path: &Path) -> Result<PayKey> {
    let key = PayKey::generate().ok_or_else(|| Error::refused("the system does not provide random numbers"))?;
    let text = Zeroizing::new(format!("0x{}\n", *key.secret()));
    let written = (|| {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_files::make_folder(folder)?;
        }
        // The key is written to another file and then linked to its name, which fails if the name exists. A key file is
        // therefore always complete.
        let alongside = path.with_extension(format!("new-{}", std::process::id()));
        _ = std::fs::remove_file(&alongside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&alongside)?;
        let linked = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| std::fs::hard_link(&alongside, path));
        _ = std::fs::remove_file(&alongside);
        linked?;
        sync_entry(path)
    })();
    match written {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::refused(format!("`{}` already exists, and keys are never overwritten", path.display()))
                .hint("name another file: --key-file FILE"))
        }
        Err(error) => Err(Error::refused(format!("`{}` cannot be written: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::base::error::Exit;

    #[test]
    fn key_file_is_private_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/pay.key");
        assert_eq!(read(&file).unwrap_err().exit, Exit::Credential);
        let key = create(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&file).unwrap().address(), key.address());
        assert_eq!(create(&file).unwrap_err().exit, Exit::Refused);
        assert_eq!(read(&file).unwrap().address(), key.address(), "it is what it was");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&file).unwrap_err().exit, Exit::Credential, "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "0x12").unwrap();
        let refused = read(&file).unwrap_err();
        assert!(!format!("{refused:?}").contains("0x12"), "{refused:?}");
    }
}
