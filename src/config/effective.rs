//! The output of `serve --check`: every setting with its value and source. Nothing is started, and secrets are never
//! shown.

use std::{collections::BTreeMap, ffi::OsString, fs, io, net::SocketAddr, ops::Range, path::Path};

use clap::{
    Arg, ArgMatches, Args as _, Command, FromArgMatches as _,
    builder::{OsStringValueParser, Resettable},
    parser::ValueSource,
};
use serde::Serialize;
use tollhouse_base::error_chain::full_message;
use toml::{Spanned, Value};

use super::{
    Flags, ParseError,
    environment::misspelled,
    error::{SettingsError, line_of},
};

/// Suffixes of defaults in the help text: one that differs on loopback, and one that differs with a database.
const NONE_ON_LOOPBACK: &str = ", and none when listening on loopback";
const ON_A_DATABASE: &str = ", on a database ";

/// The source of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is what it says")]
pub enum SettingSource {
    Flag,
    Environment,
    File,
    Default,
}

/// A setting in the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectiveSetting {
    /// Its key in the file. The flag has `--` before it.
    pub name: String,
    /// Its value. `None` if it has none or is secret.
    pub value: Option<String>,
    /// Whether it has a value that is not shown.
    pub hidden: bool,
    /// The source of the value.
    pub from: SettingSource,
    /// The flag, variable, or line of the file.
    pub at: Option<String>,
}

/// A setting with which the host does not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvalidSetting {
    /// The places where it is set: several, or none, if settings conflict with each other.
    pub at: Vec<String>,
    /// Why it is invalid.
    #[serde(rename = "why")]
    pub reason: String,
}

/// The result of the check.
#[derive(Debug, Default, Serialize)]
pub struct SettingsReport {
    /// All settings, in the order of `--help`.
    pub settings: Vec<EffectiveSetting>,
    /// The invalid settings. A host would not start with them.
    pub wrong: Vec<InvalidSetting>,
    /// Variables that are named like settings but are not. A host starts and logs them.
    pub unknown: Vec<String>,
}

/// Makes the settings of `serve` accept any text, so that invalid ones can be reported with their source.
#[must_use]
pub fn raw_settings(command: Command) -> Command {
    let text = |arg: Arg| if arg.get_env().is_some() { arg.value_parser(OsStringValueParser::new()) } else { arg };
    command.mut_subcommand("serve", |serve| serve.mut_args(text))
}

/// Checks the settings `given` to `serve`, parsed by a command from [`raw_settings`], and the settings file.
#[must_use]
pub fn look(command: &Command, given: &ArgMatches, path: &Path) -> SettingsReport {
    let own = Flags::augment_args(Command::new("serve"));
    let mut checked = SettingsReport { unknown: misspelled(command), ..SettingsReport::default() };
    let file = match SettingsFile::read(path) {
        Ok(file) => file,
        Err(wrong) => {
            checked.wrong.push(wrong);
            SettingsFile::default()
        }
    };
    checked.wrong.extend(file.unknown());
    let mut words = vec![OsString::from("serve")];
    for arg in own.get_arguments() {
        let setting = GivenSetting::of(arg, given, &file);
        if let Some(reason) = setting.refused(&own) {
            checked.wrong.push(InvalidSetting { at: setting.effective.at.clone().into_iter().collect(), reason });
        }
        words.extend(setting.words);
        if !arg.is_hide_set() || setting.effective.from != SettingSource::Default {
            checked.settings.push(setting.effective);
        }
    }
    if checked.wrong.is_empty() {
        let refused = together(&own, words, path);
        let wrong: Vec<_> = refused.iter().map(|error| checked.blame_settings(&own, error)).collect();
        checked.wrong = wrong;
    }
    checked.settle();
    checked
}

/// Returns why settings that are valid on their own conflict with each other or name something that does not exist.
fn together(own: &Command, words: Vec<OsString>, path: &Path) -> Vec<String> {
    let given = without_environment(own).try_get_matches_from(words).and_then(|given| Flags::from_arg_matches(&given));
    let flags = match given {
        Ok(flags) => flags,
        Err(error) => return vec![first_line(&error)],
    };
    let flags = match flags.over_file(path) {
        Ok(flags) => flags,
        Err(error) => return vec![full_message(&error)],
    };
    let listen = flags.host.listen.unwrap_or(super::host::LISTEN);
    let filter = flags.host.log.as_deref().map(tracing_subscriber::EnvFilter::try_new);
    let filter = filter.and_then(Result::err).map(|error| format!("`TOLLHOUSE_LOG` is invalid: {error}"));
    let parts: [Result<(), SettingsError>; 11] = [
        flags.host.base_url().map(drop),
        flags.host.database().map(drop),
        flags.host.bucket().map(drop),
        flags.account.resolve().map(drop),
        flags.secret.resolve().and_then(|secrets| secrets.check()),
        flags.money.resolve(listen, true).map(drop),
        flags.sandbox.resolve().map(drop),
        flags.http.resolve(listen.ip()).map(drop),
        flags.mcp.resolve(listen, true).map(drop),
        flags.catalog.resolve().map(drop),
        flags.telemetry.resolve(listen.ip(), None).map(drop),
    ];
    parts.into_iter().filter_map(Result::err).map(|error| full_message(&error)).chain(filter).collect()
}

impl SettingsReport {
    /// Attributes an error to settings: each one whose variable, flag or value occurs in the message and that was set. A
    /// value between backticks can have any characters.
    fn blame_settings(&self, own: &Command, error: &str) -> InvalidSetting {
        let words: Vec<&str> = error.split(|c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c))).collect();
        let named = |arg: &Arg, reported: &EffectiveSetting| {
            let names = [
                arg.get_env().and_then(|name| name.to_str()).map(str::to_owned),
                Some(format!("--{}", reported.name)),
                reported.value.clone(),
            ];
            let is_quoted = reported.value.as_ref().is_some_and(|value| error.contains(&format!("`{value}`")));
            is_quoted || names.into_iter().flatten().any(|name| words.contains(&&*name))
        };
        let of = |name: &str| own.get_arguments().find(|arg| arg.get_long() == Some(name));
        let blamed = self.settings.iter().filter(|reported| of(&reported.name).is_some_and(|arg| named(arg, reported)));
        InvalidSetting { at: blamed.filter_map(|reported| reported.at.clone()).collect(), reason: without_credentials(error) }
    }

    /// Resolves defaults that depend on another setting.
    fn settle(&mut self) {
        let value = |name: &str| self.settings.iter().find(|reported| reported.name == name);
        let listen = value("listen").and_then(|reported| reported.value.as_deref()?.parse::<SocketAddr>().ok());
        let proxies = value("trusted-proxies").is_some_and(|reported| reported.from != SettingSource::Default);
        let on_loopback = listen.is_none_or(|listen| listen.ip().is_loopback()) && !proxies;
        let on_a_database = value("store").is_some_and(|reported| reported.hidden);
        for reported in self.settings.iter_mut().filter(|reported| reported.from == SettingSource::Default) {
            let Some(text) = &reported.value else { continue };
            if let Some(max) = text.strip_suffix(NONE_ON_LOOPBACK) {
                reported.value = Some(if on_loopback { "none, listening on loopback".to_owned() } else { max.to_owned() });
            } else if let Some((alone, shared)) = text.split_once(ON_A_DATABASE) {
                reported.value = Some(if on_a_database { shared } else { alone }.to_owned());
            }
        }
    }
}

/// A setting, with the command-line arguments that are equivalent to it.
struct GivenSetting {
    effective: EffectiveSetting,
    words: Vec<OsString>,
    secret: bool,
    in_file: Option<Value>,
}

impl GivenSetting {
    fn of(arg: &Arg, given: &ArgMatches, file: &SettingsFile) -> Self {
        let name = arg.get_long().unwrap_or_default().to_owned();
        let secret = arg.is_hide_env_values_set();
        let env = || arg.get_env().map(|name| name.to_string_lossy().into_owned());
        let id = arg.get_id().as_str();
        let raw: Vec<OsString> = given.get_raw(id).into_iter().flatten().map(OsString::from).collect();
        let from = match given.value_source(id) {
            Some(ValueSource::CommandLine) => SettingSource::Flag,
            Some(ValueSource::EnvVariable) => SettingSource::Environment,
            Some(_) | None if file.values.contains_key(&name) => SettingSource::File,
            Some(_) | None => SettingSource::Default,
        };
        let joined = || raw.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(",");
        let word = |value: &OsString| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let words = || raw.iter().map(word).collect();
        let (value, at, words, in_file) = match from {
            SettingSource::Flag => (Some(joined()), Some(format!("--{name}")), words(), None),
            SettingSource::Environment => (Some(joined()), env(), words(), None),
            SettingSource::File => {
                let spanned = &file.values[&name];
                (Some(shown(spanned.get_ref())), Some(file.at(spanned.span())), vec![], Some(spanned.get_ref().clone()))
            }
            SettingSource::Default => (default_of(arg), None, vec![], None),
        };
        let hidden = secret && value.is_some() && from != SettingSource::Default;
        let value = value.filter(|_| !hidden).map(|value| without_credentials(&value));
        Self { effective: EffectiveSetting { name, value, hidden, from, at }, words, secret, in_file }
    }

    /// Returns why the setting is invalid regardless of the others.
    fn refused(&self, own: &Command) -> Option<String> {
        let reason = match &self.in_file {
            Some(value) => {
                let alone = toml::Table::from_iter([(self.effective.name.clone(), value.clone())]).to_string();
                Flags::read(&alone).err().map(|error| error.message().to_owned())
            }
            None if self.words.is_empty() => None,
            None => {
                let words = std::iter::once(OsString::from("serve")).chain(self.words.iter().cloned());
                let given = without_environment(own).try_get_matches_from(words).and_then(|given| Flags::from_arg_matches(&given));
                given.err().map(|error| first_line(&error))
            }
        };
        reason.map(
            |reason| {
                if self.secret { format!("the value of `{}` is invalid", self.effective.name) } else { without_credentials(&reason) }
            },
        )
    }
}

/// The settings in a file, with the place of each.
#[derive(Default)]
struct SettingsFile {
    path: String,
    text: String,
    values: BTreeMap<String, Spanned<Value>>,
}

impl SettingsFile {
    /// Reads the file. A missing file has no settings.
    fn read(path: &Path) -> Result<Self, InvalidSetting> {
        let at = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(InvalidSetting { at: vec![at], reason: format!("the file cannot be read: {error}") }),
        };
        match toml::from_str(&text) {
            Ok(values) => Ok(Self { path: at, text, values }),
            Err(error) => {
                let ParseError { line, reason } = ParseError::of(&text, &error);
                Err(InvalidSetting { at: vec![format!("{at}:{line}")], reason: format!("the file is not valid TOML: {reason}") })
            }
        }
    }

    fn at(&self, span: Range<usize>) -> String {
        format!("{}:{}", self.path, line_of(&self.text, span.start))
    }

    fn unknown(&self) -> impl Iterator<Item = InvalidSetting> {
        let unknown = self.values.iter().filter(|(key, _)| !Flags::has(key));
        unknown.map(|(key, value)| InvalidSetting { at: vec![self.at(value.span())], reason: format!("`{key}` is not a setting") })
    }
}

fn without_environment(own: &Command) -> Command {
    own.clone().mut_args(|arg| arg.env(Resettable::Reset))
}

/// Returns the default as stated in `--help`.
fn default_of(arg: &Arg) -> Option<String> {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    help.strip_suffix(']')?.split_once("[default: ").map(|(_, reported)| reported.to_owned())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => value.to_string(),
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Removes user names, passwords and queries from URLs in `text`, because they may contain keys.
fn without_credentials(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '`' | '\'' | '"' | ',');
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let (address, behind) = after.split_at(after.find(ends).unwrap_or(after.len()));
        let authority = address.find(['/', '?', '#']).unwrap_or(address.len());
        let host = address[..authority].rfind('@').map_or(0, |at| at + 1);
        let query = address.find('?').unwrap_or(address.len());
        clean.push_str(before);
        if host > 0 {
            clean.push_str("…@");
        }
        clean.push_str(&address[host..query.max(host)]);
        if query < address.len() {
            clean.push_str("?…");
        }
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_credentials() {
        for (text, clean) in [
            ("https://user:pass@a.example/b?key=1", "https://…@a.example/b?…"),
            ("base=https://a.example/?k=1,polygon=https://b@c", "base=https://a.example/?…,polygon=https://…@c"),
            ("`https://k@a.example` is none", "`https://…@a.example` is none"),
            ("no address, https://", "no address, https://"),
            ("https://a.example/p@q", "https://a.example/p@q"),
        ] {
            assert_eq!(without_credentials(text), clean);
        }
    }
}
