//! Environment variables of the commands: credentials, which are never arguments, and common variables of terminal
//! programs. A host's settings are in `config`.

use std::{env, ffi::OsString, path::PathBuf};

use tollhouse_config::HiddenValue;

/// A builder's key.
pub(crate) const BUILDER_KEY: &str = "TOLLHOUSE_BUILDER_KEY";
pub(crate) const ADMIN_TOKEN: &str = "TOLLHOUSE_ADMIN_TOKEN";
/// The token of a developer credit.
pub(crate) const CREDIT: &str = "TOLLHOUSE_CREDIT";
/// URL of the host.
pub(crate) const URL: &str = "TOLLHOUSE_URL";
/// Name of the profile in `config.toml`.
pub(crate) const PROFILE: &str = "TOLLHOUSE_PROFILE";
/// File with the key that pays.
pub(crate) const PAY_KEY_FILE: &str = "TOLLHOUSE_PAY_KEY_FILE";

/// Variables of the commands that are named like settings of a host.
pub(crate) const NAMES: &[&str] = &[BUILDER_KEY, ADMIN_TOKEN, CREDIT, URL, PROFILE, PAY_KEY_FILE];

/// Returns a variable that is set and not empty.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns a secret. A value that is not valid text is ignored.
pub(crate) fn hidden(name: &str) -> Option<HiddenValue> {
    set(name)?.into_string().ok().map(|text| text.trim_end_matches(['\r', '\n']).to_owned().into())
}

/// Returns a variable as a path.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    set(name).map(PathBuf::from)
}

/// Returns a folder of the XDG base directories, or its default in the home folder. Relative paths are ignored, as the
/// specification requires.
pub(crate) fn folder(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = path(name).filter(|path| path.is_absolute());
    given.or_else(|| path("HOME").filter(|home| home.is_absolute()).map(|home| home.join(below_home)))
}

/// Returns whether output must be plain: `NO_COLOR` is set, or the terminal has no colors.
pub(crate) fn is_plain() -> bool {
    set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb")
}

/// Returns whether there is a display on which a browser could open.
pub(crate) fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"].iter().any(|name| set(name).is_some())
}

/// Returns the user's browser, if it is set.
pub(crate) fn browser() -> Option<OsString> {
    set("BROWSER")
}
