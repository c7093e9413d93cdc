//! Flags of every command that uses a host: which host, as whom, and the output format.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use reqwest::Url;
use serde::Serialize;

use super::{Error, Result, address, environment};

/// The kind of credential to use if there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Role {
    /// The builder key.
    #[serde(rename = "builder_key")]
    Builder,
    /// The admin token.
    #[serde(rename = "admin_token")]
    Admin,
    /// The token of a developer credit.
    #[serde(rename = "credit")]
    Credit,
}

/// A value, and whether it came from the command line or from the environment.
#[derive(Debug, Clone)]
pub(crate) struct GivenValue<T> {
    pub(crate) value: T,
    pub(crate) by_flag: bool,
}

/// The values of the common flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct GlobalArgs {
    pub(crate) profile: Option<GivenValue<String>>,
    pub(crate) url: Option<GivenValue<Url>>,
    /// Whether to print one document, or one object per line, instead of tables.
    pub(crate) json: bool,
    pub(crate) role: Option<Role>,
    /// Whether a credential may be sent over plain http to another machine.
    pub(crate) plain_http: bool,
}

const HEADING: &str = "Host and output";

fn args() -> [Arg; 5] {
    [
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document, or one object per line"),
        Arg::new("profile").long("profile").value_name("NAME").env(environment::PROFILE).help("Profile in `config.toml`"),
        Arg::new("url").long("url").value_name("URL").env(environment::URL).value_parser(address::Address).help("Address of the host"),
        Arg::new("role")
            .long("as")
            .value_name("ROLE")
            .value_parser(["builder", "admin", "credit"])
            .help("Credential to use if there are several"),
        Arg::new("plain_http")
            .long("allow-plain-http")
            .action(ArgAction::SetTrue)
            .help("Send credentials unencrypted over http to another machine"),
    ]
    .map(|arg| arg.help_heading(HEADING))
}

/// Adds the common flags to the commands in `asking`, both before and after their names, and `--json` to all others
/// except those in `silent`. A command's own flag with the same name takes precedence.
pub(crate) fn given_to(command: Command, asking: &[String], silent: &[&str]) -> Command {
    let command = command.args(args());
    command.mut_subcommands(|sub| {
        if silent.contains(&sub.get_name()) {
            return sub;
        }
        let asks = asking.iter().any(|name| name == sub.get_name());
        let is_taken = |arg: &Arg| (asks || arg.get_id() == "json") && sub.get_arguments().all(|own| own.get_long() != arg.get_long());
        let taken: Vec<_> = args().into_iter().filter(is_taken).map(|arg| arg.global(true)).collect();
        sub.args(taken)
    })
}

impl GlobalArgs {
    /// Reads the flags from all levels. Those after the command's name take precedence.
    pub(crate) fn of(given: &ArgMatches) -> Self {
        let levels: Vec<_> = std::iter::successors(Some(given), |level| level.subcommand().map(|(_, below)| below)).collect();
        Self::at(&levels)
    }

    /// Reads only the flags before the command's name, for commands that use no host and have flags of their own.
    pub(crate) fn in_front(given: &ArgMatches) -> Self {
        Self::at(&[given])
    }

    fn at(levels: &[&ArgMatches]) -> Self {
        Self {
            profile: value(levels, "profile"),
            url: value(levels, "url"),
            json: is_set(levels, "json"),
            role: value::<String>(levels, "role").and_then(|role| Role::named(&role.value)),
            plain_http: is_set(levels, "plain_http"),
        }
    }

    /// Returns whether the command line names a host.
    pub(crate) fn names_a_host(&self) -> bool {
        self.url.as_ref().is_some_and(|given| given.by_flag) || self.profile.as_ref().is_some_and(|given| given.by_flag)
    }

    /// Fails if a host or an identity was given to a local command that supports `--json`.
    pub(crate) fn here(&self) -> Result {
        Self { json: false, ..self.clone() }.none()
    }

    /// Fails if a common flag was given to a command that uses no host.
    pub(crate) fn none(&self) -> Result {
        let by_flag = |given: Option<bool>| given == Some(true);
        let message = [
            ("--profile", by_flag(self.profile.as_ref().map(|given| given.by_flag))),
            ("--url", by_flag(self.url.as_ref().map(|given| given.by_flag))),
            ("--json", self.json),
            ("--as", self.role.is_some()),
            ("--allow-plain-http", self.plain_http),
        ];
        match message.into_iter().find(|(_, message)| *message) {
            Some((flag, _)) => Err(Error::usage(format!("`{flag}` is only for commands that use a host"))),
            None => Ok(()),
        }
    }
}

fn value<T: Clone + Send + Sync + 'static>(levels: &[&ArgMatches], id: &str) -> Option<GivenValue<T>> {
    let at = |level: &&ArgMatches| {
        // A flag of another type is the command's own.
        let value = level.try_get_one::<T>(id).ok()??.clone();
        Some(GivenValue { value, by_flag: level.value_source(id) == Some(ValueSource::CommandLine) })
    };
    let all: Vec<_> = levels.iter().filter_map(at).collect();
    all.iter().rfind(|given| given.by_flag).or(all.last()).cloned()
}

fn is_set(levels: &[&ArgMatches], id: &str) -> bool {
    levels.iter().any(|level| matches!(level.try_get_one::<bool>(id), Ok(Some(true))))
}

impl Role {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "builder" => Self::Builder,
            "admin" => Self::Admin,
            "credit" => Self::Credit,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> GlobalArgs {
        let sub = |name: &'static str| Command::new(name);
        let call = sub("call").arg(Arg::new("input").long("json"));
        let command = Command::new("tollhouse").subcommands([sub("serve"), sub("payouts").subcommand(sub("list")), call]);
        let command = given_to(command, &["payouts", "call"].map(str::to_owned), &["man"]);
        command.clone().debug_assert();
        GlobalArgs::of(&command.try_get_matches_from([&["tollhouse"], words].concat()).unwrap())
    }

    #[test]
    fn global_flags_work_before_and_after_the_command() {
        for words in [&["--json", "payouts", "list"][..], &["payouts", "--json", "list"], &["payouts", "list", "--json"]] {
            assert!(read(words).json, "{words:?}");
        }
        let both = read(&["--url", "http://a", "payouts", "list", "--url", "http://b"]).url.unwrap();
        assert_eq!((both.value.as_str(), both.by_flag), ("http://b/", true));
        assert_eq!(read(&["payouts", "list", "--as", "admin"]).role, Some(Role::Admin));
    }

    #[test]
    fn own_flag_of_a_command_takes_precedence() {
        assert!(!read(&["call", "--json", "{}"]).json);
        assert!(read(&["--json", "call", "--json", "{}"]).json);
    }

    #[test]
    fn local_command_rejects_global_flags() {
        assert_eq!(read(&["--json", "serve"]).none().unwrap_err().status(), 2);
        assert!(read(&["serve"]).none().is_ok());
    }
}
