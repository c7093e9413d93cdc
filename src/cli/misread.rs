//! A command line that does not read: clap says what is wrong with it, to programs as every error is told. What stands where nothing is taken is not
//! repeated, since it may be what nobody is to see.

use std::env;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::base::error::Error;

/// What programs are told. People are told here, as they are the help or the version that was asked for, and the process ends.
pub(crate) fn misread(command: &Command, mut error: clap::Error) -> Error {
    keep_back(&mut error);
    if !error.use_stderr() || !is_for_programs(command) {
        error.exit();
    }
    told(&error)
}

/// Where a value is said that is never an argument.
pub(super) fn never_an_argument(flag: &str) -> String {
    format!("a value is never an argument: it is said on standard input, or by {flag}")
}

/// Leaves out what is no flag.
fn keep_back(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    // Behind a `--` nothing is a flag.
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

/// Whether `--json` is said of how it is told: behind the name of `call` it is the input.
fn is_for_programs(command: &Command) -> bool {
    let words: Vec<_> = env::args_os().skip(1).take_while(|word| word != "--").collect();
    let name = words.iter().position(|word| command.find_subcommand(word).is_some());
    let before = name.filter(|name| words[*name] == "call").unwrap_or(words.len());
    words[..before].iter().any(|word| word == "--json")
}

/// As programs read it: what is wrong, and line by line what clap says besides.
fn told(error: &clap::Error) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::usage("name a command").hint("`--help` tells them");
    }
    let text = error.render().to_string();
    let (message, more) = text.split_once("\n\n").unwrap_or((&text, ""));
    let lines = more.lines().map(str::trim).filter(|line| !line.is_empty());
    Error::usage(message.strip_prefix("error: ").unwrap_or(message).trim_end()).more(lines.map(str::to_owned))
}
