//! The environment: which of its variables are settings, and which only look like it.

use std::{
    any::TypeId,
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
};

use clap::{Arg, ArgMatches, Command, builder::Resettable, parser::ValueSource};

use super::Hidden;

/// How the names of settings begin, but for those of other programs.
const OURS: &str = "TOLLHOUSE_";

/// The command, with variables that are set to nothing taken as not set: what `${NAME:-}` leaves of one.
#[must_use]
pub fn without_empty(command: Command) -> Command {
    let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let unset = |argument: clap::Arg| if argument.get_env().is_some_and(is_empty) { argument.env(Resettable::Reset) } else { argument };
    command.mut_args(unset).mut_subcommands(without_empty)
}

/// Settings that are hidden where they are told since a password may be in them, and may be arguments.
const ADDRESSES: &[&str] = &["store", "to", "network_rpc_url", "otlp_endpoint"];

/// Which key, token or password was said as an argument, where whoever is on the machine reads it, and where it may be said.
#[must_use]
pub fn said_aloud(command: &Command, given: &ArgMatches) -> Option<String> {
    let is_said = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        argument.get_value_parser().type_id() == TypeId::of::<Hidden>()
            && !ADDRESSES.contains(&id)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    if let Some(argument) = command.get_arguments().find(is_said) {
        let variable = argument.get_env().map(|name| format!(": say it in {}", name.display())).unwrap_or_default();
        let name = argument.get_long().unwrap_or_default();
        return Some(format!("`--{name}` in an argument is read by whoever is on this machine{variable}, or in a file"));
    }
    let (name, below) = given.subcommand()?;
    said_aloud(command.find_subcommand(name)?, below)
}

/// What a variable of other programs says, which is none of our settings' and stands in for one.
pub(super) fn of_others(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// Variables that are named as settings are, and are none of `command` or of what is below it.
#[must_use]
pub fn misspelt(command: &Command) -> Vec<String> {
    misspelt_of(command, env::vars_os().map(|(name, _)| name))
}

fn misspelt_of(command: &Command, given: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut settings = BTreeSet::new();
    collect(command, &mut settings);
    given.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(OURS) && !settings.contains(name)).collect()
}

fn collect(command: &Command, settings: &mut BTreeSet<String>) {
    let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    settings.extend(named.map(ToOwned::to_owned));
    for below in command.get_subcommands() {
        collect(below, settings);
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;
    use crate::Flags;

    #[test]
    fn variable_that_is_no_setting_is_told() {
        let command = Command::new("tollhouse").subcommand(Flags::augment_args(Command::new("serve")));
        let given = ["TOLLHOUSE_LISTN", "TOLLHOUSE_LISTEN", "TOLLHOUSE_LOG", "PATH", "tollhouse_log"].map(OsString::from);
        assert_eq!(misspelt_of(&command, given.into_iter()), ["TOLLHOUSE_LISTN"]);
    }
}
