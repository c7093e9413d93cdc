//! Stores a credential for a profile. Anything that could prevent that is detected before there is a credential to
//! lose.

use std::{fs::File, path::PathBuf};

use reqwest::Url;
use tollhouse_config::Hidden;

use super::base::{
    credentials::{self, Kept},
    error::Result,
    global::Role,
    places,
    profile::{self, Config},
    session::Session,
};

/// The place for a credential, locked against other processes.
pub(crate) struct Keeping {
    file: PathBuf,
    kept: Kept,
    pub(crate) name: String,
    _alone: File,
}

impl Keeping {
    /// Prepares to store a credential for the session's profile, or for a new one for its host.
    ///
    /// # Errors
    ///
    /// Files that are malformed, readable by others, or not writable.
    pub(crate) fn of(session: &Session) -> Result<Self> {
        let name = match &session.name {
            Some(name) => name.clone(),
            None => Config::read(&profile::file()?)?.new_name(session.client.base()),
        };
        Self::at(session, name)
    }

    /// Prepares to store a credential for the profile with this name, which is created if necessary.
    ///
    /// # Errors
    ///
    /// The same as for [`Keeping::of`].
    pub(crate) fn at(session: &Session, name: String) -> Result<Self> {
        let alone = places::lock(&places::config()?)?;
        let file = credentials::file()?;
        let kept = Kept::read(&file)?;
        // Write the file unchanged, so that an unwritable folder is noticed before there is a credential to lose.
        kept.write(&file)?;
        let config = profile::file()?;
        if Config::read(&config)?.get(&name).is_none() {
            profile::add(&config, &name, session.client.base())?;
        }
        Ok(Self { file, kept, name, _alone: alone })
    }

    /// Stores the credential.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(crate) fn keep(mut self, url: &Url, role: Role, credential: Hidden) -> Result {
        self.kept.keep(&self.name, url, role, credential);
        self.kept.write(&self.file)
    }
}
