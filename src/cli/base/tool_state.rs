//! `.tollhouse/state.json`: the tool and host that a folder belongs to.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use reqwest::Url;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tollhouse_tool::Slug;

use super::{Error, Result, address, private_files};

/// The state of a tool's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) slug: Slug,
    /// The host that it was published on.
    #[serde(with = "address")]
    pub(crate) host: Url,
    /// The revision that the folder was published as or pulled from.
    pub(crate) revision: u64,
}

/// A folder of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) state: State,
}

fn file(folder: &Path) -> PathBuf {
    folder.join(".tollhouse/state.json")
}

impl Folder {
    /// Finds the nearest tool folder, from the current folder upward.
    pub(crate) fn here() -> Result<Option<Self>> {
        let Ok(here) = env::current_dir() else { return Ok(None) };
        for folder in here.ancestors() {
            if let Some(found) = Self::at(folder)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns this folder if it was published before.
    pub(crate) fn at(folder: &Path) -> Result<Option<Self>> {
        let file = file(folder);
        // A file that another user put into a parent folder must not decide which host is used.
        if fs::metadata(&file).is_ok_and(|about| about.uid() != geteuid().as_raw()) {
            return Ok(None);
        }
        let Some(text) = private_files::read(&file)? else { return Ok(None) };
        let unread = |error| Error::usage(format!("`{}` is not valid: {error}", file.display()));
        Ok(Some(Self { path: folder.to_owned(), state: serde_json::from_str(&text).map_err(unread)? }))
    }

    /// Writes the state of a folder.
    pub(crate) fn note(folder: &Path, state: &State) -> Result {
        let text = serde_json::to_string_pretty(state).map_err(|error| Error::refused(error.to_string()))? + "\n";
        let file = file(folder);
        let written = fs::create_dir_all(folder.join(".tollhouse")).and_then(|()| private_files::replace(&file, &text, 0o644));
        written.map_err(|error| Error::refused(format!("`{}` cannot be written: {error}", file.display())))
    }
}

/// Returns the slug in the `tool.json` of a folder.
pub(crate) fn slug_in(folder: &Path) -> Option<Slug> {
    let text = private_files::read(&folder.join("tool.json")).ok()??;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["slug"].as_str()?.parse().ok()
}

/// Returns the slug of the tool whose folder contains the current folder, whether it was published or not.
pub(crate) fn slug_here() -> Option<Slug> {
    let here = env::current_dir().ok()?;
    slug_in(here.ancestors().find(|folder| folder.join("tool.json").is_file())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Folder::at(folder.path()).unwrap().is_none());
        let state = State { slug: "shout".parse().unwrap(), host: Url::parse("https://a.example").unwrap(), revision: 7 };
        Folder::note(folder.path(), &state).unwrap();
        Folder::note(folder.path(), &state).unwrap();
        assert_eq!(Folder::at(folder.path()).unwrap().unwrap().state, state);
        assert_eq!(fs::read_dir(folder.path().join(".tollhouse")).unwrap().count(), 1);
        fs::write(file(folder.path()), r#"{"slug":"../x","host":"https://a","revision":1}"#).unwrap();
        assert!(Folder::at(folder.path()).is_err());
    }
}
