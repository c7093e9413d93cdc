//! Environment variables: which of them are settings, and which only look like settings.

use std::{
    any::TypeId,
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
};

use clap::{Arg, ArgMatches, Command, builder::Resettable, parser::ValueSource};

use super::HiddenValue;

/// Prefix of this program's variables.
const OURS: &str = "TOLLHOUSE_";

/// Treats empty environment variables as unset, because `${NAME:-}` leaves an empty value.
#[must_use]
pub fn without_empty(command: Command) -> Command {
    let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let unset = |argument: clap::Arg| if argument.get_env().is_some_and(is_empty) { argument.env(Resettable::Reset) } else { argument };
    command.mut_args(unset).mut_subcommands(without_empty)
}

/// Settings that are hidden in output because they may contain a password, but that are allowed as arguments.
const ADDRESSES: &[&str] = &["store", "to", "network_rpc_url", "otlp_endpoint"];

/// Returns a message about a key, token or password that was given as an argument, where other users of the machine can
/// see it, with the places where it is safe.
#[must_use]
pub fn secret_on_command_line(command: &Command, given: &ArgMatches) -> Option<String> {
    let is_argument = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        argument.get_value_parser().type_id() == TypeId::of::<HiddenValue>()
            && !ADDRESSES.contains(&id)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    if let Some(argument) = command.get_arguments().find(is_argument) {
        let variable = argument.get_env().map(|name| format!(": set it in {}", name.display())).unwrap_or_default();
        let name = argument.get_long().unwrap_or_default();
        return Some(format!("`--{name}` in an argument can be read by every user of this machine{variable}, or in a file"));
    }
    let (name, below) = given.subcommand()?;
    secret_on_command_line(command.find_subcommand(name)?, below)
}

/// Returns a variable of another program that replaces one of our settings. Empty counts as unset.
pub(super) fn standard_var(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// Returns whether the environment selects a database for the store. Commands on a data folder explain with it why the
/// folder does not contain a store.
#[must_use]
pub fn selects_database() -> bool {
    env::var_os("TOLLHOUSE_STORE").is_some_and(|address| !address.is_empty())
}

/// Returns variables that are named like settings but belong neither to `command` nor to its subcommands.
#[must_use]
pub fn misspelled(command: &Command) -> Vec<String> {
    misspelled_of(command, env::vars_os().map(|(name, _)| name))
}

fn misspelled_of(command: &Command, given: impl Iterator<Item = OsString>) -> Vec<String> {
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
    fn unknown_variable_is_reported() {
        let command = Command::new("tollhouse").subcommand(Flags::augment_args(Command::new("serve")));
        let given = ["TOLLHOUSE_LISTN", "TOLLHOUSE_LISTEN", "TOLLHOUSE_LOG", "PATH", "tollhouse_log"].map(OsString::from);
        assert_eq!(misspelled_of(&command, given.into_iter()), ["TOLLHOUSE_LISTN"]);
    }
}
