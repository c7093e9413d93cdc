//! `credentials.toml`: credentials, stored separately from the profiles and readable only by their owner. Each is sent
//! only to the host that it is for.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use reqwest::Url;
use serde::{Deserialize, Serialize, Serializer};
use tollhouse_config::HiddenValue;

use super::{Error, Result, Role, address, environment, private_files, same_place};

/// Credentials for a host, at most one of each kind.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "CredentialFields")]
pub(crate) struct Credentials(BTreeMap<Role, HiddenValue>);

/// The fields of the file that contain credentials. A map of all fields would claim unknown ones too.
#[derive(Deserialize)]
struct CredentialFields {
    builder_key: Option<HiddenValue>,
    admin_token: Option<HiddenValue>,
    credit: Option<HiddenValue>,
}

impl From<CredentialFields> for Credentials {
    fn from(CredentialFields { builder_key, admin_token, credit }: CredentialFields) -> Self {
        let all = [(Role::Builder, builder_key), (Role::Admin, admin_token), (Role::Credit, credit)];
        Self(all.into_iter().filter_map(|(role, credential)| Some((role, credential?))).collect())
    }
}

impl Serialize for Credentials {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(role, credential)| (role, credential.expose())))
    }
}

impl Credentials {
    pub(crate) fn get(&self, role: Role) -> Option<&HiddenValue> {
        self.0.get(&role)
    }

    /// Returns credentials that contain only this one.
    pub(crate) fn only(role: Role, credential: HiddenValue) -> Self {
        Self(BTreeMap::from([(role, credential)]))
    }

    /// Returns the credentials in the environment, which override stored ones.
    pub(crate) fn of_environment() -> Self {
        let all = [Role::Builder, Role::Admin, Role::Credit].into_iter();
        Self(all.filter_map(|role| Some((role, environment::hidden(role.variable())?))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these credentials, with `others` filling in missing ones.
    pub(crate) fn over(self, mut others: Self) -> Self {
        others.0.extend(self.0);
        others
    }
}

impl Role {
    /// Returns the kind of a credential by its form. An admin token has no particular form.
    pub(crate) fn of(credential: &str) -> Self {
        if credential.starts_with("bk_") {
            Self::Builder
        } else if credential.starts_with("dc_") {
            Self::Credit
        } else {
            Self::Admin
        }
    }

    /// Returns its header, its name for people and its environment variable.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Builder => ["x-builder-key", "builder key", environment::BUILDER_KEY],
            Self::Admin => ["x-admin-token", "admin token", environment::ADMIN_TOKEN],
            Self::Credit => ["x-developer-credit", "developer credit", environment::CREDIT],
        }
    }

    /// Returns the header for it.
    pub(crate) fn header(self) -> &'static str {
        self.names()[0]
    }

    /// Returns its name for people.
    pub(crate) fn label(self) -> &'static str {
        self.names()[1]
    }

    /// Returns its environment variable.
    pub(crate) fn variable(self) -> &'static str {
        self.names()[2]
    }
}

/// The contents of the file, by profile.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct CredentialFile(BTreeMap<String, Entry>);

#[derive(Serialize, Deserialize)]
struct Entry {
    /// The host that they are for.
    #[serde(with = "address")]
    url: Url,
    #[serde(flatten)]
    credentials: Credentials,
    /// Other fields, for example those of a newer release. They stay in the file.
    #[serde(flatten)]
    others: toml::Table,
}

pub(crate) fn file() -> Result<PathBuf> {
    Ok(private_files::config()?.join("credentials.toml"))
}

impl CredentialFile {
    /// Reads the file. Without one, there are no credentials.
    ///
    /// # Errors
    ///
    /// The file is readable by others or malformed.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = zeroize::Zeroizing::new(private_files::read_private(file)?.unwrap_or_default());
        // The parser's message would repeat lines of the file.
        toml::from_str(&text).map_err(|_| Error::credential(format!("`{}` is not valid: repair it, or log in again", file.display())))
    }

    pub(crate) fn write(&self, file: &Path) -> Result {
        let text = toml::to_string(self).map(zeroize::Zeroizing::new).map_err(|error| Error::refused(error.to_string()))?;
        private_files::write_private(file, &text)
    }

    /// Returns the credentials of a profile, if they are for this host.
    pub(crate) fn of(mut self, name: &str, url: &Url) -> Credentials {
        let entry = self.0.remove(name).filter(|entry| same_place(&entry.url, url));
        entry.map(|entry| entry.credentials).unwrap_or_default()
    }

    /// Stores a credential. Credentials stored under the same name for another host are removed.
    pub(crate) fn keep(&mut self, name: &str, url: &Url, role: Role, credential: HiddenValue) {
        let entry = || Entry { url: url.clone(), credentials: Credentials::default(), others: toml::Table::new() };
        let stored = self.0.entry(name.to_owned()).or_insert_with(entry);
        if !same_place(&stored.url, url) {
            *stored = entry();
        }
        stored.credentials.0.insert(role, credential);
    }

    /// Removes all credentials. Returns whether there were any.
    pub(crate) fn forget_all(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }

    /// Removes one or all credentials of a profile. Returns whether there were any.
    pub(crate) fn forget(&mut self, name: &str, role: Option<Role>) -> bool {
        let Some(mut entry) = self.0.remove(name) else { return false };
        let Some(role) = role else { return true };
        let forgotten = entry.credentials.0.remove(&role);
        if !entry.credentials.is_empty() || !entry.others.is_empty() {
            self.0.insert(name.to_owned(), entry);
        }
        forgotten.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_is_used_only_for_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.toml");
        let (here, there) = (Url::parse("https://a.example").unwrap(), Url::parse("https://a.example:444").unwrap());
        let mut stored = CredentialFile::read(&file).unwrap();
        stored.keep("prod", &here, Role::Builder, "bk_1".to_owned().into());
        stored.keep("prod", &here, Role::Credit, "dc_1".to_owned().into());
        stored.write(&file).unwrap();
        let read = || CredentialFile::read(&file).unwrap();
        assert_eq!(read().of("prod", &here).get(Role::Builder).map(HiddenValue::expose), Some("bk_1"));
        assert!(read().of("prod", &there).is_empty() && read().of("other", &here).is_empty());
        let mut stored = read();
        assert!(stored.forget("prod", Some(Role::Builder)) && !stored.forget("prod", Some(Role::Admin)) && !stored.forget("other", None));
        stored.keep("prod", &there, Role::Admin, "t".to_owned().into());
        assert!(stored.of("prod", &there).get(Role::Credit).is_none(), "what was for another host is gone");
    }

    #[test]
    fn unknown_fields_stay_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.toml");
        let text = "[prod]\nurl = \"https://a.example/\"\nbuilder_key = \"bk_1\"\nnewer = 7\n\n[prod.more]\nnote = \"kept\"\n";
        private_files::write_private(&file, text).unwrap();
        let here = Url::parse("https://a.example").unwrap();
        let mut stored = CredentialFile::read(&file).unwrap();
        stored.keep("prod", &here, Role::Credit, "dc_1".to_owned().into());
        stored.write(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("newer = 7") && text.contains("note = \"kept\""), "{text}");
        let mut stored = CredentialFile::read(&file).unwrap();
        for role in [Role::Builder, Role::Credit] {
            assert!(stored.forget("prod", Some(role)));
        }
        stored.write(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("newer = 7") && !text.contains("bk_1") && !text.contains("dc_1"), "{text}");
        assert!(CredentialFile::read(&file).unwrap().of("prod", &here).is_empty());
    }

    #[test]
    fn error_does_not_repeat_a_malformed_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.toml");
        private_files::write_private(&file, "[prod]\nbuilder_key = \"bk_secret\n").unwrap();
        let Err(error) = CredentialFile::read(&file) else { panic!("it read") };
        assert!(!format!("{error:?}").contains("bk_secret"));
    }
}
