//! A browser without a window, to look at pages with.

use std::path::PathBuf;

use crate::{Failure, args::from_env, packages, shell};

/// What it is called, the lightest first.
const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// What `CHROMIUM` names, else what is on `PATH`, else a package of Debian.
///
/// # Errors
///
/// How to install one, where we may not.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = from_env("CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let found = || NAMES.into_iter().find_map(shell::find);
    if let Some(browser) = found() {
        return Ok(browser);
    }
    // Older releases have the whole one alone.
    packages::install(&["chromium-headless-shell"]).or_else(|_| packages::install(&["chromium"]))?;
    found().ok_or_else(|| "no Chromium after it was installed: name one in CHROMIUM".to_owned())
}
