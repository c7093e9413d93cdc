//! `tollhouse backup`, `restore`, `store migrate` and `store stay`: copy and move the rows of a host.

use std::{error::Error, io, path::PathBuf};

use serde_json::json;
use tollhouse_app as app;
use tollhouse_app::CopyReport;
use tollhouse_base::plural::plural;
use tollhouse_capability::secret;
use tollhouse_config as config;
use tollhouse_config::{Flags, HiddenValue, Home, HostFlags, SecretFlags};

use crate::base::Output;

/// The location of a host's data.
#[derive(clap::Args)]
pub(crate) struct HostLocation {
    #[command(flatten)]
    host: HostFlags,
    #[command(flatten)]
    secret: SecretFlags,
    /// Settings file
    #[arg(long, default_value = config::FILE)]
    config: PathBuf,
}

/// Arguments of `backup`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// Folder of backups, created if missing
    #[arg(long)]
    to: PathBuf,
    #[command(flatten)]
    of: HostLocation,
}

/// Arguments of `restore`.
#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    /// Backup, or a folder whose newest backup is used
    from: PathBuf,
    #[command(flatten)]
    to: HostLocation,
}

/// Arguments of `store migrate`.
#[derive(clap::Args)]
pub(crate) struct MigrateArgs {
    /// Empty PostgreSQL database, as `postgres://user@host/name`
    #[arg(long, env = "TOLLHOUSE_MIGRATE_TO", hide_env_values = true)]
    to: HiddenValue,
    /// Password of its user, if not in the address
    #[arg(long, env = "TOLLHOUSE_STORE_PASSWORD", hide_env_values = true)]
    to_password: Option<HiddenValue>,
    /// Data folder of the host, which can be running
    #[arg(long, env = "TOLLHOUSE_DATA")]
    data: Option<PathBuf>,
    /// Settings file
    #[arg(long, default_value = config::FILE)]
    config: PathBuf,
}

/// Arguments of `store stay`.
#[derive(clap::Args)]
pub(crate) struct StayArgs {
    /// Data folder of a stopped host
    #[arg(long, env = "TOLLHOUSE_DATA", default_value = "data")]
    data: PathBuf,
}

impl HostLocation {
    /// Returns the location of the stored data, and whether a database of the settings was ignored.
    ///
    /// If the command line names the folder (`names_folder`) and it contains a store, it takes precedence over a database that
    /// only a variable or the settings file names. So no command reads or changes a host's database instead of that folder.
    pub(crate) fn home(self, names_folder: bool) -> Result<(Home, bool), Box<dyn Error>> {
        let mut home = self.of_settings()?;
        let store = home.data.join("store");
        let unreadable = |error: io::Error| format!("`{}` cannot be read: {error}", store.display());
        let ignores_database = names_folder && home.database.is_some() && store.try_exists().map_err(unreadable)?;
        if ignores_database {
            home.database = None;
        }
        Ok((home, ignores_database))
    }

    /// Returns the location to restore to. The rule is that of [`HostLocation::home`], but the folder need not contain a store.
    fn new_home(self, names_folder: bool) -> Result<(Home, bool), Box<dyn Error>> {
        let mut home = self.of_settings()?;
        let ignores_database = names_folder && home.database.take().is_some();
        Ok((home, ignores_database))
    }

    fn of_settings(self) -> Result<Home, Box<dyn Error>> {
        let flags = Flags { host: self.host, secret: self.secret, ..Flags::default() };
        Ok(flags.over_file(&self.config)?.home()?)
    }
}

/// Says that a database of the settings is ignored. Otherwise, an operator could back up or restore another store than intended.
pub(crate) fn note_ignored_database(ignores_database: bool, out: Output) {
    if ignores_database {
        out.note("using the folder of `--data` instead of the database of the settings; to use the database, leave out `--data`");
    }
}

pub(crate) async fn backup(args: BackupArgs, names_folder: bool, out: Output) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let (home, ignores_database) = args.of.home(names_folder)?;
    note_ignored_database(ignores_database, out);
    let stored = app::back_up(&home, &args.to).await?;
    out.print(&stored, |stored| format!("backup written and verified: {stored}\n"))?;
    complete(&stored)
}

pub(crate) async fn restore(args: RestoreArgs, names_folder: bool, out: Output) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let (home, ignores_database) = args.to.new_home(names_folder)?;
    note_ignored_database(ignores_database, out);
    let stored = app::restore_to(&home, &args.from).await?;
    out.print(&stored, |stored| format!("restored the backup of {} and verified it: {stored}\n", stored.header.at))?;
    complete(&stored)
}

pub(crate) async fn migrate(args: MigrateArgs, out: Output) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let flags = Flags { host: HostFlags { data: args.data, ..HostFlags::default() }, ..Flags::default() };
    let home = flags.over_file(&args.config)?.home()?;
    // Prints each step as it happens. A closed output does not end the migration.
    let report = |step: &str| _ = if out.json { out.object(&json!({ "step": step })) } else { out.text(&format!("{step}\n")) };
    let done = app::migrate(&home, args.to.expose(), args.to_password.as_ref().map(HiddenValue::expose), report).await?;
    Ok(out.print(&json!({ "done": done }), |_| format!("{done}\n"))?)
}

pub(crate) async fn stay(args: StayArgs, out: Output) -> Result<(), Box<dyn Error>> {
    let flags = Flags { host: HostFlags { data: Some(args.data), ..HostFlags::default() }, ..Flags::default() };
    let outcome = app::stay(&flags.home()?).await?.map(|to| to.to_string());
    Ok(out.print(&json!({ "wentTo": outcome }), |_| match &outcome {
        Some(to) => format!("the next start uses the data folder as it was before the move to {to}; later changes exist only in {to}\n"),
        None => "the store is already in the data folder; nothing was changed\n".to_owned(),
    })?)
}

/// Fails if contents of files are missing, although everything else was done.
fn complete(stored: &CopyReport) -> Result<(), Box<dyn Error>> {
    match stored.files.missing.len() {
        0 => Ok(()),
        missing => {
            Err(format!("the contents of {} are missing or different: {}", plural(missing, "file"), stored.files.missing.join(", ")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a database of the settings was used instead of a folder that could not be read.
    #[test]
    fn typed_folder_with_a_store_takes_precedence_over_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let named = |data: PathBuf| {
            let host = HostFlags { data: Some(data), store: Some("postgres://db/tolls".to_owned().into()), ..HostFlags::default() };
            HostLocation { host, secret: SecretFlags::default(), config: folder.path().join("none.toml") }.home(true)
        };
        let (home, ignores_database) = named(folder.path().to_owned()).unwrap();
        assert!(home.database.is_some() && !ignores_database, "the folder has no store");
        std::fs::create_dir(folder.path().join("store")).unwrap();
        let (home, ignores_database) = named(folder.path().to_owned()).unwrap();
        assert!(home.database.is_none() && ignores_database);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = named(file).unwrap_err().to_string();
        assert!(error.contains("file/store` cannot be read: "), "{error}");
    }
}
