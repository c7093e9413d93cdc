//! `config.toml`: the user's hosts by name, with spending limits.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use reqwest::Url;
use serde::Deserialize;
use tollhouse_config::ParseError;
use tollhouse_tool::MicroUsd;

use super::{Error, Result, address, private_files, same_place};

/// The default host: one on this machine, as `serve` starts it.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:4020";

/// Default limit per call: 0.10 USD.
pub(crate) const DEFAULT_MAX: MicroUsd = MicroUsd(100_000);

/// Default limit per day: 5.00 USD.
pub(crate) const DEFAULT_DAILY: MicroUsd = MicroUsd(5_000_000);

/// The contents of `config.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The default profile.
    default: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// A host with spending limits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    #[serde(with = "address")]
    pub(crate) url: Url,
    /// Maximum price of one call. Default: 0.10 USD.
    #[serde(default = "max")]
    pub(crate) max_usd: MicroUsd,
    /// Maximum spending per day. Default: 5.00 USD.
    #[serde(default = "daily")]
    pub(crate) daily_usd: MicroUsd,
    /// File with the key that pays. `~/` is the home folder.
    pub(crate) key_file: Option<PathBuf>,
    /// The only network to pay on, such as `eip155:8453`.
    pub(crate) network: Option<String>,
    /// The only token to pay with, by address or symbol. Default: every known token of the network.
    pub(crate) asset: Option<String>,
    /// A node of that network, for reading the key's balance.
    #[serde(default, deserialize_with = "address::node")]
    pub(crate) rpc_url: Option<Url>,
}

fn max() -> MicroUsd {
    DEFAULT_MAX
}

fn daily() -> MicroUsd {
    DEFAULT_DAILY
}

impl Profile {
    /// Returns a profile with defaults for a host.
    pub(crate) fn of(url: Url) -> Self {
        Self { url, max_usd: DEFAULT_MAX, daily_usd: DEFAULT_DAILY, key_file: None, network: None, asset: None, rpc_url: None }
    }
}

pub(crate) fn file() -> Result<PathBuf> {
    Ok(private_files::config()?.join("config.toml"))
}

impl Config {
    /// Reads the file. Without one, there are no profiles.
    ///
    /// # Errors
    ///
    /// The file is malformed or has unknown keys.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = private_files::read(file)?.unwrap_or_default();
        let unread = |error| Error::usage(format!("`{}` is not valid: {}", file.display(), ParseError::of(&text, &error)));
        let config: Self = toml::from_str(&text).map_err(unread)?;
        if let Some(name) = config.default.as_ref().filter(|name| !config.profiles.contains_key(*name)) {
            return Err(Error::usage(format!("the default profile `{name}` does not exist in `{}`", file.display())));
        }
        Ok(config)
    }

    /// Returns the profile with this name.
    ///
    /// # Errors
    ///
    /// An unknown name. The message lists the existing ones.
    pub(crate) fn named(&self, name: &str) -> Result<&Profile> {
        let known = || self.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let unknown = || {
            Error::usage(format!("there is no profile `{name}`")).hint(match &*known() {
                "" => "tollhouse login --profile NAME --url URL".to_owned(),
                known => format!("available: {known}"),
            })
        };
        self.profiles.get(name).ok_or_else(unknown)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// Returns a name for a new profile: `default` for the first one, the host's name for others.
    pub(crate) fn new_name(&self, url: &Url) -> String {
        let port = || url.port().map(|port| format!(":{port}")).unwrap_or_default();
        if self.profiles.is_empty() { "default".to_owned() } else { format!("{}{}", url.host_str().unwrap_or("host"), port()) }
    }

    /// Returns the profile of a host: the default if it is for that host, else the first by name.
    pub(crate) fn of(&self, url: &Url) -> Option<(&str, &Profile)> {
        let is_of = |profile: &Profile| same_place(&profile.url, url);
        self.usual().filter(|(_, profile)| is_of(profile)).or_else(|| self.all().find(|(_, profile)| is_of(profile)))
    }

    /// Returns the default profile: the configured one, else the one named `default`, else the only one.
    pub(crate) fn usual(&self) -> Option<(&str, &Profile)> {
        let name = self.default.as_deref().unwrap_or("default");
        let only = || if self.profiles.len() == 1 { self.all().next() } else { None };
        self.profiles.get_key_value(name).map(|(name, profile)| (name.as_str(), profile)).or_else(only)
    }

    /// Returns all profiles, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.profiles.iter().map(|(name, profile)| (name.as_str(), profile))
    }
}

/// Checks that a profile can be appended to the file, which stays unchanged.
///
/// # Errors
///
/// As for [`add`].
pub(crate) fn check_addition(file: &Path, name: &str, url: &Url) -> Result {
    addition(file, name, url)?;
    match OpenOptions::new().append(true).open(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(file, &error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Appends a profile to the file, keeping what people wrote.
///
/// # Errors
///
/// The file would become invalid, or it cannot be written.
pub(crate) fn add(file: &Path, name: &str, url: &Url) -> Result {
    let more = addition(file, name, url)?;
    let added = (|| {
        if let Some(folder) = file.parent() {
            private_files::make_folder(folder)?;
        }
        OpenOptions::new().append(true).create(true).open(file)?.write_all(more.as_bytes())
    })();
    added.map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> Error {
    Error::refused(format!("`{}` cannot be written: {error}", file.display()))
}

/// Returns the text of a new profile at the end of the file.
///
/// # Errors
///
/// The file would become invalid.
fn addition(file: &Path, name: &str, url: &Url) -> Result<String> {
    let before = private_files::read(file)?.unwrap_or_default();
    let gap = if before.is_empty() {
        ""
    } else if before.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let (name, url) = (toml::Value::from(name), toml::Value::from(url.as_str()));
    let more = format!("{gap}[profiles.{name}]\nurl = {url}\n");
    if toml::from_str::<Config>(&format!("{before}{more}")).is_err() {
        let error = Error::usage(format!("`{}` defines its profiles in an inline table, so no profile can be appended", file.display()));
        return Err(error.hint(format!("add this to the table: {name} = {{ url = {url} }}")));
    }
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn profile_has_spending_limits_with_defaults() {
        let config = config(
            "[profiles.a]\nurl = \"https://a.example\"\n[profiles.b]\nurl = \"https://b.example\"\nmax_usd = 1.5\ndaily_usd = 20\nnetwork = \"eip155:8453\"\nkey_file = \"k\"\n",
        );
        let (a, b) = (config.named("a").unwrap(), config.named("b").unwrap());
        assert_eq!((a.max_usd, a.daily_usd), (MicroUsd(100_000), MicroUsd(5_000_000)));
        assert_eq!((b.max_usd, b.daily_usd), (MicroUsd(1_500_000), MicroUsd(20_000_000)));
        assert_eq!(config.named("c").unwrap_err().hint.as_deref(), Some("available: a, b"));
        for text in
            ["[profiles.a]\nurl = \"a\"", "[profiles.a]\nmax_usd = 1", "[profiles.a]\nurl = \"http://a\"\nmaxUsd = 1", "profile = 1"]
        {
            assert!(toml::from_str::<Config>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn default_profile_is_configured_or_named_or_the_only_one() {
        let name = |text| config(text).usual().map(|(name, _)| name.to_owned());
        assert_eq!(name("[profiles.a]\nurl = \"http://a\""), Some("a".to_owned()));
        assert_eq!(name("[profiles.a]\nurl = \"http://a\"\n[profiles.b]\nurl = \"http://b\""), None);
        assert_eq!(name("[profiles.a]\nurl = \"http://a\"\n[profiles.default]\nurl = \"http://b\""), Some("default".to_owned()));
        assert_eq!(name("default = \"b\"\n[profiles.a]\nurl = \"http://a\"\n[profiles.b]\nurl = \"http://b\""), Some("b".to_owned()));
        let (a, with_path) = (Url::parse("http://a").unwrap(), Url::parse("http://a/base").unwrap());
        let both = config("[profiles.a]\nurl = \"http://a/\"\n[profiles.b]\nurl = \"http://b\"");
        assert_eq!(both.of(&a).map(|(name, _)| name), Some("a"));
        assert!(both.of(&with_path).is_none());
    }

    #[test]
    fn profile_is_appended_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/config.toml");
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        check_addition(&file, "odd \"name\"", &url).unwrap();
        assert!(!file.exists() && !folder.path().join("made").exists());
        add(&file, "odd \"name\"", &url).unwrap();
        std::fs::write(&file, format!("# mine\n{}# end", std::fs::read_to_string(&file).unwrap())).unwrap();
        add(&file, "two", &url).unwrap();
        let config = Config::read(&file).unwrap();
        assert!(config.get("odd \"name\"").is_some() && config.get("two").is_some());
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("# mine\n"));
    }

    #[test]
    fn file_with_inline_profiles_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let text = "profiles = { one = { url = \"http://127.0.0.1:1\" } }\n";
        std::fs::write(&file, text).unwrap();
        check_addition(&file, "two", &Url::parse("http://127.0.0.1:2").unwrap()).unwrap_err();
        let refused = add(&file, "two", &Url::parse("http://127.0.0.1:2").unwrap()).unwrap_err();
        assert_eq!(refused.hint.as_deref(), Some("add this to the table: \"two\" = { url = \"http://127.0.0.1:2/\" }"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        std::fs::write(&file, text.replace(" }\n", ", \"two\" = { url = \"http://127.0.0.1:2/\" } }\n")).unwrap();
        assert!(Config::read(&file).unwrap().get("two").is_some());
    }
}
