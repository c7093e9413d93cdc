//! A command's session with a host: which host, as whom, and how to print.

use reqwest::Url;
use tollhouse_tool::Slug;

use super::{
    Client, Config, CredentialFile, Credentials, Error, Folder, GlobalArgs, Output, Profile, Result, address, credentials, host_name,
    is_loopback,
    profile::{self, DEFAULT_URL},
    tool_state,
};

/// The context of a command.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) out: Output,
    pub(crate) client: Client,
    /// Name of the profile, if there is one.
    pub(crate) name: Option<String>,
    /// Whether that profile is in `config.toml`, and not only named for this command.
    pub(crate) is_stored: bool,
    pub(crate) profile: Profile,
    /// The tool folder that contains the current folder.
    pub(crate) folder: Option<Folder>,
    /// Whether the host is the running `dev` of the current folder, which the user has not named.
    pub(crate) is_dev: bool,
}

/// How the host was chosen.
#[derive(Debug, PartialEq, Eq)]
enum HostChoice {
    /// By the name of a profile. Its address can be overridden.
    Profile(String),
    /// By address only.
    Address(Url),
    /// By the tool folder, without anything from the user.
    Folder(Url),
}

impl Session {
    /// Chooses the host. Flags override the environment, which overrides the tool folder, which overrides
    /// `config.toml`.
    ///
    /// # Errors
    ///
    /// An unknown profile, malformed files, or credentials that others can read.
    pub(crate) fn open(global: &GlobalArgs) -> Result<Self> {
        // Without a home folder nothing is stored, and everything must be given.
        let config = profile::file().map_or_else(|_| Ok(Config::default()), |file| Config::read(&file))?;
        let folder = Folder::here()?;
        let expected = chosen_host(global, &config, folder.as_ref())?;
        // An address in the environment does not apply to a profile named by a flag.
        let names_profile = global.profile.as_ref().is_some_and(|given| given.by_flag);
        let address = global.url.as_ref().filter(|given| given.by_flag || !names_profile).map(|given| given.value.clone());
        let mut is_stored = false;
        let (name, profile, trusted) = match expected {
            HostChoice::Profile(name) => {
                is_stored = config.get(&name).is_some();
                let profile = match address {
                    Some(url) => Profile { url: url.clone(), ..config.get(&name).cloned().unwrap_or_else(|| Profile::of(url)) },
                    None => config.named(&name)?.clone(),
                };
                (Some(name), profile, true)
            }
            HostChoice::Address(url) => (None, Profile::of(url), true),
            HostChoice::Folder(url) => (None, Profile::of(url), false),
        };
        let credentials = if trusted { shown(name.as_deref(), &profile.url)? } else { Credentials::default() };
        let client = Client::new(profile.url.clone(), credentials, global.role, global.plain_http)?;
        Ok(Self { out: Output::new(global.json), client, name, is_stored, profile, folder, is_dev: false })
    }

    /// Returns the tool: the named one, else that of the folder.
    ///
    /// # Errors
    ///
    /// There is neither. For the folder of a tool that was never published, the error has a hint.
    pub(crate) fn slug(&self, named: Option<Slug>) -> Result<Slug> {
        let of_folder = || self.folder.as_ref().map(|folder| folder.state.slug.clone());
        named.or_else(of_folder).ok_or_else(|| match tool_state::slug_here() {
            Some(slug) => Error::usage(format!("`{slug}` was never published from this folder")).hint("publish it: tollhouse deploy"),
            None => Error::usage("name a tool: this folder was never published"),
        })
    }

    /// Names the host on standard error if it is the running `dev`.
    pub(crate) fn name_dev(&self) {
        if self.is_dev && !self.out.json {
            self.out.note(&format!("(dev, {})", self.client.base().authority()));
        }
    }

    /// Returns the name under which spending is counted: that of a stored profile. A profile name made up for one
    /// command does not count, because it would have a daily limit of its own.
    pub(crate) fn spends_as(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| self.is_stored)
    }

    /// Formats the host for people.
    pub(crate) fn host(&self) -> String {
        match &self.name {
            Some(name) => format!("{} (profile {name})", host_name(self.client.base())),
            None => host_name(self.client.base()).to_owned(),
        }
    }
}

fn chosen_host(global: &GlobalArgs, config: &Config, folder: Option<&Folder>) -> Result<HostChoice> {
    let at = |url: &Url| config.of(url).map_or_else(|| HostChoice::Address(url.clone()), |(name, _)| HostChoice::Profile(name.to_owned()));
    let (profile, url) = (global.profile.as_ref(), global.url.as_ref());
    let by_flag = (profile.filter(|given| given.by_flag), url.filter(|given| given.by_flag));
    if let Some(name) = by_flag.0 {
        return Ok(HostChoice::Profile(name.value.clone()));
    }
    if let Some(url) = by_flag.1.or(url) {
        return Ok(at(&url.value));
    }
    if let Some(name) = profile {
        return Ok(HostChoice::Profile(name.value.clone()));
    }
    if let Some(host) = folder.map(|folder| &folder.state.host) {
        return match at(host) {
            HostChoice::Address(url) if is_loopback(&url) => Ok(HostChoice::Folder(url)),
            // The author of the folder chose the host, so nothing is sent to it unless the user names it.
            HostChoice::Address(url) => {
                let error = Error::usage(format!("this folder belongs to {}, which no profile uses", host_name(&url)));
                Err(error.hint(format!("sign in to that host: tollhouse login --url {}", host_name(&url))))
            }
            known => Ok(known),
        };
    }
    if let Some((name, _)) = config.usual() {
        return Ok(HostChoice::Profile(name.to_owned()));
    }
    let url = address::parse(DEFAULT_URL).map_err(Error::usage)?;
    Ok(at(&url))
}

/// Returns the credentials for the host: those in the environment, else the stored ones.
fn shown(name: Option<&str>, url: &Url) -> Result<Credentials> {
    let given = Credentials::of_environment();
    let Some(name) = name else { return Ok(given) };
    let stored = credentials::file().and_then(|file| CredentialFile::read(&file)).map(|stored| stored.of(name, url));
    match stored {
        Ok(stored) => Ok(given.over(stored)),
        // Credentials in the environment are enough, even if the files cannot be read.
        Err(_) if !given.is_empty() => Ok(given),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::global::GivenValue, *};

    fn global(profile: Option<(&str, bool)>, url: Option<(&str, bool)>) -> GlobalArgs {
        GlobalArgs {
            profile: profile.map(|(name, by_flag)| GivenValue { value: name.to_owned(), by_flag }),
            url: url.map(|(url, by_flag)| GivenValue { value: Url::parse(url).unwrap(), by_flag }),
            ..GlobalArgs::default()
        }
    }

    fn folder(host: &str) -> Folder {
        let state = super::super::tool_state::State { slug: "shout".parse().unwrap(), host: Url::parse(host).unwrap(), revision: 1 };
        Folder { path: "/".into(), state }
    }

    #[test]
    fn flags_override_the_environment_and_the_folder() {
        let config: Config =
            toml::from_str("default = \"a\"\n[profiles.a]\nurl = \"https://a.test\"\n[profiles.b]\nurl = \"https://b.test\"\n").unwrap();
        let (none, of_b, of_c) = (Config::default(), folder("https://b.test"), folder("https://c.test"));
        let named = |name: &str| HostChoice::Profile(name.to_owned());
        let address = |url: &str| HostChoice::Address(Url::parse(url).unwrap());
        let expected = |global: GlobalArgs, config: &Config, folder| chosen_host(&global, config, folder).unwrap();
        assert_eq!(expected(global(Some(("b", true)), Some(("https://a.test", false))), &config, None), named("b"));
        assert_eq!(expected(global(Some(("b", false)), Some(("https://a.test", true))), &config, None), named("a"));
        assert_eq!(expected(global(None, Some(("https://c.test", false))), &config, Some(&of_b)), address("https://c.test"));
        assert_eq!(expected(global(Some(("a", false)), None), &config, Some(&of_b)), named("a"));
        assert_eq!(expected(global(None, None), &config, Some(&of_b)), named("b"));
        assert_eq!(expected(global(None, None), &config, None), named("a"));
        assert_eq!(expected(global(None, None), &none, None), address("http://127.0.0.1:4020"));
        assert_eq!(expected(global(None, Some(("https://c.test", true))), &config, Some(&of_c)), address("https://c.test"));
    }

    #[test]
    fn foreign_folder_does_not_choose_the_host() {
        let none = Config::default();
        let request = |host| chosen_host(&global(None, None), &none, Some(&folder(host)));
        assert_eq!(request("https://evil.test").unwrap_err().status(), 2);
        assert_eq!(request("http://127.0.0.1:9").unwrap(), HostChoice::Folder(Url::parse("http://127.0.0.1:9").unwrap()));
    }
}
