//! Stores a credential for a profile. Anything that could prevent that is detected before there is a credential to
//! lose. Until then, no profile is added: a command that fails leaves none behind.

use std::{fs::File, path::PathBuf};

use reqwest::Url;
use tollhouse_config::HiddenValue;

use super::base::{Config, CredentialFile, Result, Role, Session, credentials, private_files, profile};

/// The place for a credential, locked against other processes.
pub(crate) struct CredentialLock {
    file: PathBuf,
    stored: CredentialFile,
    pub(crate) name: String,
    _alone: File,
}

impl CredentialLock {
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

    /// Prepares to store a credential for the profile with this name. A new profile is added with the credential.
    pub(crate) fn at(session: &Session, name: String) -> Result<Self> {
        let alone = private_files::lock(&private_files::config()?)?;
        let file = credentials::file()?;
        let stored = CredentialFile::read(&file)?;
        // Write the file unchanged, so that an unwritable folder is noticed before there is a credential to lose.
        stored.write(&file)?;
        let config = profile::file()?;
        if Config::read(&config)?.get(&name).is_none() {
            profile::check_addition(&config, &name, session.client.base())?;
        }
        Ok(Self { file, stored, name, _alone: alone })
    }

    /// Stores the credential, and adds the profile if it does not exist.
    pub(crate) fn keep(mut self, url: &Url, role: Role, credential: HiddenValue) -> Result {
        self.stored.keep(&self.name, url, role, credential);
        // The credential first: a profile can be added by hand.
        self.stored.write(&self.file)?;
        let config = profile::file()?;
        if Config::read(&config)?.get(&self.name).is_some() {
            return Ok(());
        }
        let is_stored = || format!("the credential is in `{}`, for the profile {}", self.file.display(), self.name);
        profile::add(&config, &self.name, url).map_err(|error| error.more([is_stored()]))
    }
}
