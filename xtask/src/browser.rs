//! A headless browser for tests of the pages.

use std::path::PathBuf;

use crate::{Failure, args::from_env, packages, shell};

/// Names of the program, with the smallest first.
const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// Returns the program that `CHROMIUM` names, or else one on `PATH`. Installs a Debian package if
/// there is none.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = from_env("CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let found = || NAMES.into_iter().find_map(shell::find);
    if let Some(browser) = found() {
        return Ok(browser);
    }
    // Older Debian releases have only the full browser.
    packages::install(&["chromium-headless-shell"]).or_else(|_| packages::install(&["chromium"]))?;
    found().ok_or_else(|| "no Chromium after it was installed: name one in CHROMIUM".to_owned())
}
