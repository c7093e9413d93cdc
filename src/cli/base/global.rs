//! What every command takes that speaks to a host: which host, as whom, and how it is told.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use reqwest::Url;

use super::{
    address, environment,
    error::{Error, Result},
};

/// As whom a command asks, where more than one credential is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// By the builder's key.
    Builder,
    /// By the admin's token.
    Admin,
    /// By the token of a developer credit.
    Credit,
}

/// Something, and how it was said: on the command line, or by the environment.
#[derive(Debug, Clone)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) by_flag: bool,
}

/// What was said to all commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Global {
    pub(crate) profile: Option<Given<String>>,
    pub(crate) url: Option<Given<Url>>,
    /// One document, or one object a line, in place of tables.
    pub(crate) json: bool,
    pub(crate) role: Option<Role>,
    /// Whether a credential may go over plain http to another machine.
    pub(crate) plain_http: bool,
}

const HEADING: &str = "Host and output";

fn args() -> [Arg; 5] {
    [
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON document, or one object a line, on standard output"),
        Arg::new("profile").long("profile").value_name("NAME").env(environment::PROFILE).help("Profile of `config.toml`"),
        Arg::new("url").long("url").value_name("URL").env(environment::URL).value_parser(address::Address).help("Address of the host"),
        Arg::new("role")
            .long("as")
            .value_name("WHO")
            .value_parser(["builder", "admin", "credit"])
            .help("Which credential to show, where there are several"),
        Arg::new("plain_http")
            .long("allow-plain-http")
            .action(ArgAction::SetTrue)
            .help("Send credentials over http to another machine, where anyone on the way reads them"),
    ]
    .map(|arg| arg.help_heading(HEADING))
}

/// The command, in which all of `asking` take these flags, before their name and behind it, and all others but those of `silent` `--json`. A command
/// that has a flag of such a name itself keeps it.
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

impl Global {
    /// Reads what was said, wherever it stands: what is behind the command's name counts before what is in front of it.
    pub(crate) fn of(given: &ArgMatches) -> Self {
        let levels: Vec<_> = std::iter::successors(Some(given), |level| level.subcommand().map(|(_, below)| below)).collect();
        Self::at(&levels)
    }

    /// Reads what was said in front of a command's name alone: behind it a command that asks no host has flags of its own.
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

    /// Whether the command line says which host is meant.
    pub(crate) fn names_a_host(&self) -> bool {
        self.url.as_ref().is_some_and(|given| given.by_flag) || self.profile.as_ref().is_some_and(|given| given.by_flag)
    }

    /// Refuses what names a host, or somebody, to a command of this machine alone that tells programs what it does.
    ///
    /// # Errors
    ///
    /// Names the flag.
    pub(crate) fn here(&self) -> Result {
        Self { json: false, ..self.clone() }.none()
    }

    /// Refuses what was said to a command that asks no host.
    ///
    /// # Errors
    ///
    /// Names the flag.
    pub(crate) fn none(&self) -> Result {
        let by_flag = |given: Option<bool>| given == Some(true);
        let said = [
            ("--profile", by_flag(self.profile.as_ref().map(|given| given.by_flag))),
            ("--url", by_flag(self.url.as_ref().map(|given| given.by_flag))),
            ("--json", self.json),
            ("--as", self.role.is_some()),
            ("--allow-plain-http", self.plain_http),
        ];
        match said.into_iter().find(|(_, said)| *said) {
            Some((flag, _)) => Err(Error::usage(format!("`{flag}` is for commands that ask a host; this one does not"))),
            None => Ok(()),
        }
    }
}

fn value<T: Clone + Send + Sync + 'static>(levels: &[&ArgMatches], id: &str) -> Option<Given<T>> {
    let at = |level: &&ArgMatches| {
        // Of another type it is a command's own.
        let value = level.try_get_one::<T>(id).ok()??.clone();
        Some(Given { value, by_flag: level.value_source(id) == Some(ValueSource::CommandLine) })
    };
    let all: Vec<_> = levels.iter().filter_map(at).collect();
    all.iter().rfind(|given| given.by_flag).or(all.last()).cloned()
}

fn is_set(levels: &[&ArgMatches], id: &str) -> bool {
    levels.iter().any(|level| matches!(level.try_get_one::<bool>(id), Ok(Some(true))))
}

impl Role {
    fn named(name: &str) -> Option<Self> {
        [("builder", Self::Builder), ("admin", Self::Admin), ("credit", Self::Credit)]
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, role)| role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Global {
        let sub = |name: &'static str| Command::new(name);
        let call = sub("call").arg(Arg::new("input").long("json"));
        let command = Command::new("tollhouse").subcommands([sub("serve"), sub("payouts").subcommand(sub("list")), call]);
        let command = given_to(command, &["payouts", "call"].map(str::to_owned), &["man"]);
        command.clone().debug_assert();
        Global::of(&command.try_get_matches_from([&["tollhouse"], words].concat()).unwrap())
    }

    #[test]
    fn flags_count_before_and_behind_the_name_of_a_command() {
        for words in [&["--json", "payouts", "list"][..], &["payouts", "--json", "list"], &["payouts", "list", "--json"]] {
            assert!(read(words).json, "{words:?}");
        }
        let both = read(&["--url", "http://a", "payouts", "list", "--url", "http://b"]).url.unwrap();
        assert_eq!((both.value.as_str(), both.by_flag), ("http://b/", true));
        assert_eq!(read(&["payouts", "list", "--as", "admin"]).role, Some(Role::Admin));
    }

    #[test]
    fn a_flag_of_a_commands_own_stays_its_own() {
        assert!(!read(&["call", "--json", "{}"]).json);
        assert!(read(&["--json", "call", "--json", "{}"]).json);
    }

    #[test]
    fn a_command_that_asks_no_host_takes_none_of_them() {
        assert_eq!(read(&["--json", "serve"]).none().unwrap_err().status(), 2);
        assert!(read(&["serve"]).none().is_ok());
    }
}
