//! What the commands take from the environment that is no flag: credentials, which are never an argument, and what every program of
//! a terminal heeds. Settings of a host stay in `config`.

use std::{env, ffi::OsString, path::PathBuf};

use tollhouse_config::Hidden;

/// A builder's key.
pub(crate) const BUILDER_KEY: &str = "TOLLHOUSE_BUILDER_KEY";
/// The admin's token.
pub(crate) const ADMIN_TOKEN: &str = "TOLLHOUSE_ADMIN_TOKEN";
/// The token of a developer credit.
pub(crate) const CREDIT: &str = "TOLLHOUSE_CREDIT";
/// Which host.
pub(crate) const URL: &str = "TOLLHOUSE_URL";
/// Which profile.
pub(crate) const PROFILE: &str = "TOLLHOUSE_PROFILE";
/// File with the key that pays.
pub(crate) const PAY_KEY_FILE: &str = "TOLLHOUSE_PAY_KEY_FILE";

/// All that is named as settings of a host are, and are the commands'.
pub(crate) const NAMES: &[&str] = &[BUILDER_KEY, ADMIN_TOKEN, CREDIT, URL, PROFILE, PAY_KEY_FILE];

/// A variable that is set, and to something.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// A text that nobody is to see. What is no text is nothing.
pub(crate) fn hidden(name: &str) -> Option<Hidden> {
    set(name)?.into_string().ok().map(|text| text.trim_end_matches(['\r', '\n']).to_owned().into())
}

/// A path, as it is given.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    set(name).map(PathBuf::from)
}

/// A folder of the XDG base directories, or where it is below the user's own. What is not absolute is nothing, as the specification has it.
pub(crate) fn folder(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = path(name).filter(|path| path.is_absolute());
    given.or_else(|| path("HOME").filter(|home| home.is_absolute()).map(|home| home.join(below_home)))
}

/// Whether `NO_COLOR` asks for none, or the terminal has none.
pub(crate) fn is_plain() -> bool {
    set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb")
}

/// Whether there is a screen that a browser could open on.
pub(crate) fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"].iter().any(|name| set(name).is_some())
}

/// The user's browser, where the environment names one.
pub(crate) fn browser() -> Option<OsString> {
    set("BROWSER")
}
