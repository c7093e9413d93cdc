//! Errors of command line parsing: clap explains what is wrong, and programs get it like every other error. An
//! unexpected argument is not repeated, because it may be a secret.

use std::env;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use tollhouse_protocol::JailLayer;

use super::base::Error;

/// Converts a parse error for programs. For people, prints it, or the requested help or version, and ends the process.
pub(crate) fn usage_error(command: &Command, mut error: clap::Error) -> Error {
    strip_values(&mut error);
    list_layers(&mut error);
    if !error.use_stderr() || !is_for_programs(command) {
        error.exit();
    }
    explain(&error)
}

/// Returns the message for a secret given as an argument.
pub(super) fn never_an_argument(flag: &str) -> String {
    format!("secrets cannot be arguments: use standard input or {flag}")
}

/// Removes an unexpected argument from the error unless it is a flag.
fn strip_values(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    // After `--`, nothing is a flag.
    let is_flag = given.starts_with('-') && !env::args_os().any(|word| word == "--");
    if error.kind() != ErrorKind::UnknownArgument || is_flag {
        return;
    }
    error.insert(ContextKind::InvalidArg, ContextValue::String("…".to_owned()));
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let flags = [(" secrets set ", "--env-file FILE"), (" login ", "--credential-file FILE")];
    if let Some((_, flag)) = flags.into_iter().find(|(name, _)| usage.contains(name)) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![never_an_argument(flag).into()]));
    }
}

/// Adds the layers of the jail to an error about `--sandbox-strict` without a value. A wrong value is found later, with the
/// other settings.
fn list_layers(error: &mut clap::Error) {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() == ErrorKind::InvalidValue && argument.starts_with("--sandbox-strict ") {
        error.insert(ContextKind::ValidValue, ContextValue::Strings(JailLayer::ALL.map(|layer| layer.to_string()).into()));
    }
}

/// Returns whether `--json` selects the output format. After the name of `call`, it is the input instead.
fn is_for_programs(command: &Command) -> bool {
    let words: Vec<_> = env::args_os().skip(1).take_while(|word| word != "--").collect();
    let name = words.iter().position(|word| command.find_subcommand(word).is_some());
    let before = name.filter(|name| words[*name] == "call").unwrap_or(words.len());
    words[..before].iter().any(|word| word == "--json")
}

/// Converts the error for programs: the message, then clap's further lines.
fn explain(error: &clap::Error) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::usage("a command is missing").hint("list the commands: --help");
    }
    let text = error.render().to_string();
    let (message, more) = text.split_once("\n\n").unwrap_or((&text, ""));
    let lines = more.lines().map(str::trim).filter(|line| !line.is_empty());
    Error::usage(message.strip_prefix("error: ").unwrap_or(message).trim_end()).more(lines.map(str::to_owned))
}
