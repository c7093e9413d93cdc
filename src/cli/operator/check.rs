//! `tollhouse serve --check`: prints every effective setting with its source. Starts nothing and creates no file.

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Command;
use tollhouse_config as config;
use tollhouse_config::{EffectiveSetting, SettingSource, SettingsReport};

/// The flag that requests it.
const ASKED: &str = "--check";

/// Prints the settings if the command line is `serve` with the flag. Settings are parsed one by one here, so that an
/// invalid one is reported with its source, together with all others.
pub(crate) fn run_if_requested(command: &Command) -> Option<ExitCode> {
    if !std::env::args_os().any(|word| word == OsStr::new(ASKED)) {
        return None;
    }
    let lenient = config::raw_settings(config::without_empty(command.clone()));
    // If the command line is invalid, the normal way reports it.
    let given = lenient.try_get_matches().ok()?;
    let serve = given.subcommand_matches("serve").filter(|serve| serve.get_flag("check"))?;
    // Anything that is refused normally is refused here too.
    if config::secret_on_command_line(command, &given).is_some() {
        return None;
    }
    let file = serve.get_one::<PathBuf>("config").map_or(Path::new(config::FILE), PathBuf::as_path);
    let mut checked = config::look(command, serve, file);
    checked.unknown.retain(|name| !crate::NAMES.contains(&name.as_str()));
    let mut stdout = std::io::stdout();
    let message = if serve.get_flag("json") { json(&checked, &mut stdout) } else { text(&checked, &mut stdout) };
    Some(if message.is_ok() && checked.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json(checked: &SettingsReport, out: &mut impl std::io::Write) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(checked)?)
}

/// Prints one line for each setting. Errors go to standard error.
fn text(checked: &SettingsReport, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let width = checked.settings.iter().map(|reported| reported.name.len()).max().unwrap_or_default();
    for reported in &checked.settings {
        writeln!(out, "{:width$}  {}  {}", reported.name, shown(reported), place(reported))?;
    }
    out.flush()?;
    let mut stderr = std::io::stderr();
    for name in &checked.unknown {
        writeln!(stderr, "warn  the environment variable `{name}` is not a setting: see `tollhouse serve --help`")?;
    }
    for wrong in &checked.wrong {
        let at = if wrong.at.is_empty() { String::new() } else { format!("{}: ", wrong.at.join(", ")) };
        writeln!(stderr, "wrong {at}{}", wrong.reason)?;
    }
    match checked.wrong.len() {
        0 => Ok(()),
        1 => writeln!(stderr, "tollhouse: one setting is not valid; the host would not start"),
        several => writeln!(stderr, "tollhouse: {several} settings are not valid; the host would not start"),
    }
}

fn shown(reported: &EffectiveSetting) -> String {
    match &reported.value {
        _ if reported.hidden => "(set, hidden)".to_owned(),
        // Prevent values from forging lines.
        Some(value) => value.chars().map(|c| if c.is_control() { '·' } else { c }).collect(),
        None => "-".to_owned(),
    }
}

fn place(reported: &EffectiveSetting) -> String {
    let at = reported.at.as_deref().unwrap_or_default();
    match reported.from {
        SettingSource::Flag => format!("[flag {at}]"),
        SettingSource::Environment => format!("[environment {at}]"),
        SettingSource::File => format!("[file {at}]"),
        SettingSource::Default => "[default]".to_owned(),
    }
}
