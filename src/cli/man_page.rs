//! `tollhouse man FOLDER`: writes the manual pages of all commands for packages, and the table of commands for the
//! docs.

use std::{fs, path::PathBuf};

use clap::Command;

use super::base::{Error, Output, Result};

/// Arguments of `man`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder for the pages
    #[arg(required_unless_present = "table")]
    folder: Option<PathBuf>,
    /// Print the table of commands as Markdown
    #[arg(long)]
    table: bool,
}

pub(crate) fn run(args: &Args, whole: Command) -> Result {
    let mut whole = whole.disable_help_subcommand(true);
    whole.build();
    if args.table {
        return Output::new(false).text(&table(&whole));
    }
    let folder = args.folder.as_ref().ok_or_else(|| Error::usage("name a folder"))?;
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(whole, folder));
    written.map_err(|error| Error::refused(format!("`{}` cannot be written: {error}", folder.display())))
}

/// Returns a table with a row for each command.
fn table(whole: &Command) -> String {
    let mut text = "| command | does | flags |\n|---|---|---|\n".to_owned();
    for below in whole.get_subcommands().filter(|below| !below.is_hide_set()) {
        rows(below, "", &mut text);
    }
    text
}

fn rows(command: &Command, above: &str, text: &mut String) {
    let name = format!("{above}{}", command.get_name());
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        rows(below, &format!("{name} "), text);
    }
    if command.is_subcommand_required_set() {
        return;
    }
    let own =
        command.get_arguments().filter(|argument| !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help");
    let (named, placed): (Vec<_>, Vec<_>) = own.partition(|argument| argument.get_long().is_some());
    let placed = placed.iter().map(|argument| {
        let name = argument
            .get_value_names()
            .and_then(|names| names.first())
            .map_or_else(|| argument.get_id().as_str().to_uppercase(), ToString::to_string);
        if argument.is_required_set() { format!(" {name}") } else { format!(" [{name}]") }
    });
    let flags = named.iter().filter_map(|argument| Some(format!("`--{}`", argument.get_long()?))).collect::<Vec<_>>();
    // The flags of a host have a document of their own.
    let flags = if flags.len() > 16 { "[settings](settings.md)".to_owned() } else { flags.join(" ") };
    let about = command.get_about().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    *text += &format!("| `{name}{}` | {} | {flags} |\n", placed.collect::<String>(), about.trim_end_matches('.'));
}
