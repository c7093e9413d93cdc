//! Who may read what has keys in it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::finding::Finding;

/// Bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Files with keys in a data folder.
const KEYS: [&str; 4] = ["admin-token", "master-key", "receipt-key.pem", "receipt-keys-retired.json"];

/// Looks at the data folder, at files of keys that settings name, and at those of whoever types, as far as they are there.
#[must_use]
pub fn examine(data: &Path, named: &[PathBuf], own: &[PathBuf]) -> Vec<Finding> {
    let mut found: Vec<_> = open_to_others("keys", data, "700").into_iter().collect();
    let keys = KEYS.map(|name| data.join(name)).into_iter().chain(named.iter().cloned());
    found.extend(keys.filter_map(|path| open_to_others("keys", &path, "600")));
    if found.is_empty() && data.is_dir() {
        found.push(Finding::ok("keys", format!("nobody but its owner reads those of `{}`", data.display())));
    }
    for path in own.iter().filter(|path| path.exists()) {
        let well = || Finding::ok("profiles", format!("nobody but its owner reads `{}`", path.display()));
        found.push(open_to_others("profiles", path, "600").unwrap_or_else(well));
    }
    found
}

/// Whether others may do anything with it. One that is not there has no secret.
fn open_to_others(part: &'static str, path: &Path, mode: &str) -> Option<Finding> {
    let about = fs::metadata(path).ok()?;
    let others = about.permissions().mode() & OTHERS;
    let (read, shown) = (others & 0o044 != 0, path.display());
    (others != 0).then(|| {
        let what = if read { "readable" } else { "reachable" };
        Finding::warn(
            part,
            format!("`{shown}` is {what} by others (mode {:04o})", about.permissions().mode() & 0o7777),
            format!("chmod {mode} {shown}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::finding::Level;

    #[test]
    fn what_others_may_read_is_told_with_how_to_keep_it_from_them() {
        let folder = tempfile::tempdir().unwrap();
        let (data, profiles) = (folder.path().join("data"), folder.path().join("profiles"));
        let own = [profiles.join("credentials.toml"), profiles.join("pay.key")];
        assert!(examine(&data, &[], &own).is_empty(), "nothing is there");
        for made in [&data, &profiles] {
            fs::create_dir(made).unwrap();
            fs::set_permissions(made, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let (key, [credentials, pays]) = (data.join("master-key"), &own);
        for (path, mode) in [(&key, 0o600), (credentials, 0o600), (pays, 0o600)] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert!(examine(&data, &[], &own).iter().all(|found| found.level == Level::Ok));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(credentials, fs::Permissions::from_mode(0o604)).unwrap();
        fs::set_permissions(pays, fs::Permissions::from_mode(0o640)).unwrap();
        let found = examine(&data, &[], &own);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|found| found.level == Level::Warn && found.text.contains("readable by others")), "{found:?}");
        assert_eq!(found[1].remedies, [format!("chmod 600 {}", credentials.display())]);
    }
}
