//! `tollhouse backup` and `tollhouse restore`: of a host that runs, or that does not.

use std::{error::Error, io::Write as _, path::PathBuf};

use tollhouse::{
    app::{self, KeptCopy},
    capability::secret,
    config::{self, Flags, Home, HostFlags, SecretFlags},
};

/// Where a host is, as `serve` is told.
#[derive(clap::Args)]
pub(crate) struct Where {
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
    /// Folder of backups; it is made where it is not there
    #[arg(long)]
    to: PathBuf,
    #[command(flatten)]
    of: Where,
}

/// Arguments of `restore`.
#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    /// A dump, or a folder of backups, whose newest is taken
    from: PathBuf,
    #[command(flatten)]
    to: Where,
}

impl Where {
    pub(crate) fn home(self) -> Result<Home, Box<dyn Error>> {
        let flags = Flags { host: self.host, secret: self.secret, ..Flags::default() };
        Ok(flags.over_file(&self.config)?.home()?)
    }
}

pub(crate) async fn backup(args: BackupArgs) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let kept = app::back_up(&args.of.home()?, &args.to).await?;
    writeln!(std::io::stdout(), "backed up, and read back: {kept}")?;
    complete(&kept)
}

pub(crate) async fn restore(args: RestoreArgs) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let kept = app::restore_to(&args.to.home()?, &args.from).await?;
    writeln!(std::io::stdout(), "restored as of {}, and compared: {kept}", kept.header.at)?;
    complete(&kept)
}

/// Fails where contents of files are missing, although all else was done.
fn complete(kept: &KeptCopy) -> Result<(), Box<dyn Error>> {
    match kept.files.missing.len() {
        0 => Ok(()),
        missing => Err(format!("contents of {missing} files are missing, or are others: {}", kept.files.missing.join(", ")).into()),
    }
}
