//! `tollhouse serve --check`: prints every effective setting with its source. Starts nothing and creates no file.

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Command;
use tollhouse_config as config;
use tollhouse_config::{Looked, Source, Told};

/// The flag that requests it.
const ASKED: &str = "--check";

/// Prints the settings if the command line is `serve` with the flag. Settings are parsed one by one here, so that an
/// invalid one is reported with its source, together with all others.
pub(crate) fn if_asked(command: &Command) -> Option<ExitCode> {
    if !std::env::args_os().any(|word| word == OsStr::new(ASKED)) {
        return None;
    }
    let lenient = config::as_they_stand(config::without_empty(command.clone()));
    // If the command line is invalid, the normal way reports it.
    let given = lenient.try_get_matches().ok()?;
    let serve = given.subcommand_matches("serve").filter(|serve| serve.get_flag("check"))?;
    // Anything that is refused normally is refused here too.
    if config::said_aloud(command, &given).is_some() {
        return None;
    }
    let file = serve.get_one::<PathBuf>("config").map_or(Path::new(config::FILE), PathBuf::as_path);
    let mut looked = config::look(command, serve, file);
    looked.unknown.retain(|name| !crate::NAMES.contains(&name.as_str()));
    let mut stdout = std::io::stdout();
    let told = if serve.get_flag("json") { json(&looked, &mut stdout) } else { text(&looked, &mut stdout) };
    Some(if told.is_ok() && looked.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json(looked: &Looked, out: &mut impl std::io::Write) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(looked)?)
}

/// Prints one line for each setting. Errors go to standard error.
fn text(looked: &Looked, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let width = looked.settings.iter().map(|told| told.name.len()).max().unwrap_or_default();
    for told in &looked.settings {
        writeln!(out, "{:width$}  {}  {}", told.name, shown(told), place(told))?;
    }
    out.flush()?;
    let mut stderr = std::io::stderr();
    for name in &looked.unknown {
        writeln!(stderr, "warn  `{name}` is in the environment, and is no setting: see `tollhouse serve --help`")?;
    }
    for wrong in &looked.wrong {
        let at = if wrong.at.is_empty() { String::new() } else { format!("{}: ", wrong.at.join(", ")) };
        writeln!(stderr, "wrong {at}{}", wrong.why)?;
    }
    match looked.wrong.len() {
        0 => Ok(()),
        1 => writeln!(stderr, "tollhouse: one setting is wrong; a host does not start with it"),
        several => writeln!(stderr, "tollhouse: {several} settings are wrong; a host does not start with them"),
    }
}

fn shown(told: &Told) -> String {
    match &told.value {
        _ if told.hidden => "(set, and not shown)".to_owned(),
        // Prevent values from forging lines.
        Some(value) => value.chars().map(|c| if c.is_control() { '·' } else { c }).collect(),
        None => "-".to_owned(),
    }
}

fn place(told: &Told) -> String {
    let at = told.at.as_deref().unwrap_or_default();
    match told.from {
        Source::Flag => format!("[flag {at}]"),
        Source::Environment => format!("[environment {at}]"),
        Source::File => format!("[file {at}]"),
        Source::Default => "[default]".to_owned(),
    }
}
