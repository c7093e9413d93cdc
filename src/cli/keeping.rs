//! Keeping a credential for a profile: what could go wrong with that is found before there is one to lose.

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

/// Where a credential is to be kept. Nobody else keeps one meanwhile.
pub(crate) struct Keeping {
    file: PathBuf,
    kept: Kept,
    pub(crate) name: String,
    _alone: File,
}

impl Keeping {
    /// For the session's profile, or one that is made for its host.
    ///
    /// # Errors
    ///
    /// Files that do not read, that others can read, or that cannot be written.
    pub(crate) fn of(session: &Session) -> Result<Self> {
        let name = match &session.name {
            Some(name) => name.clone(),
            None => Config::read(&profile::file()?)?.new_name(session.client.base()),
        };
        Self::at(session, name)
    }

    /// For the profile of this name, which is made where there is none.
    ///
    /// # Errors
    ///
    /// As of [`Keeping::of`].
    pub(crate) fn at(session: &Session, name: String) -> Result<Self> {
        let alone = places::lock(&places::config()?)?;
        let file = credentials::file()?;
        let kept = Kept::read(&file)?;
        // Written once as it is: a folder that takes no file is found before there is something to lose.
        kept.write(&file)?;
        let config = profile::file()?;
        if Config::read(&config)?.get(&name).is_none() {
            profile::add(&config, &name, session.client.base())?;
        }
        Ok(Self { file, kept, name, _alone: alone })
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn keep(mut self, url: &Url, role: Role, credential: Hidden) -> Result {
        self.kept.keep(&self.name, url, role, credential);
        self.kept.write(&self.file)
    }
}
