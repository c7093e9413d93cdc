//! Checks who can read files that contain keys.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::finding::Finding;

/// Permission bits of everybody except the owner.
const OTHERS: u32 = 0o077;

/// Files with keys in a data folder.
const KEYS: [&str; 4] = ["admin-token", "master-key", "receipt-key.pem", "receipt-keys-retired.json"];

/// Checks the data folder, and key files named in settings, if they exist.
pub fn examine(data: &Path, named: &[PathBuf]) -> Vec<Finding> {
    let describe = |path: &Path, mode: &str| {
        let (how, is) = open_to_others(path)?;
        let shown = path.display();
        Some(Finding::warn("keys", format!("`{shown}` is {how} by others (mode {is:04o})"), format!("chmod {mode} {shown}")))
    };
    let mut found: Vec<_> = describe(data, "700").into_iter().collect();
    let keys = KEYS.map(|name| data.join(name)).into_iter().chain(named.iter().cloned());
    found.extend(keys.filter_map(|path| describe(&path, "600")));
    if found.is_empty() && data.is_dir() {
        found.push(Finding::ok("keys", format!("only the owner can read the keys in `{}`", data.display())));
    }
    found
}

/// Checks a file with keys in the user's profile. Returns `None` if it does not exist.
pub fn of_profile(profile: Option<&str>, path: &Path) -> Option<Finding> {
    let name = path.file_name().filter(|_| path.exists())?.to_string_lossy();
    let found = match open_to_others(path) {
        Some((how, _)) => Finding::warn("profile", format!("{name} is {how} by others"), format!("chmod 600 {}", path.display())),
        None => Finding::ok("profile", format!("only its owner can read {name}")),
    };
    Some(Finding { of: profile.map(str::to_owned), ..found })
}

/// Returns what others may do with a file and its mode, or `None` if nothing. A missing file has no secret.
fn open_to_others(path: &Path) -> Option<(&'static str, u32)> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    let others = mode & OTHERS;
    (others != 0).then_some((if others & 0o044 != 0 { "readable" } else { "reachable" }, mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn readable_keys_are_reported_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let (data, profiles) = (folder.path().join("data"), folder.path().join("profiles"));
        let credentials = profiles.join("credentials.toml");
        let own = || of_profile(Some("prod"), &credentials);
        assert!(examine(&data, &[]).is_empty() && own().is_none(), "nothing is there");
        for made in [&data, &profiles] {
            fs::create_dir(made).unwrap();
            fs::set_permissions(made, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let (key, named) = (data.join("master-key"), profiles.join("named"));
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in [&key, &named, &credentials] {
            fs::write(path, "").unwrap();
            set(path, 0o600);
        }
        assert!(examine(&data, std::slice::from_ref(&named)).iter().chain(&own()).all(|found| found.level == Level::Ok));
        set(&key, 0o640);
        set(&named, 0o601);
        set(&credentials, 0o604);
        let found = examine(&data, &[named]);
        assert!(found.len() == 2 && found.iter().all(|found| found.level == Level::Warn), "{found:?}");
        assert!(
            found[0].text.contains("is readable by others (mode 0640)") && found[1].text.contains("is reachable by others"),
            "{found:?}"
        );
        let expected = format!("warn  profile prod: credentials.toml is readable by others → chmod 600 {}", credentials.display());
        assert_eq!(own().unwrap().to_string(), expected);
    }
}
