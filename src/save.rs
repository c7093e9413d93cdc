//! `tollhouse backup`, `restore`, `store migrate` and `store stay`: where the rows of a host are, and copies of them.

use std::{error::Error, io::Write as _, path::PathBuf};

use tollhouse::{
    app::{self, KeptCopy},
    capability::secret,
    config::{self, Flags, Hidden, Home, HostFlags, SecretFlags},
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

/// Arguments of `store migrate`.
#[derive(clap::Args)]
pub(crate) struct MigrateArgs {
    /// Database of PostgreSQL that the rows move to, as `postgres://user@host:5432/database`; it has none yet
    #[arg(long, env = "TOLLHOUSE_MIGRATE_TO", hide_env_values = true)]
    to: Hidden,
    /// Password of its user, in place of one in the address
    #[arg(long, env = "TOLLHOUSE_STORE_PASSWORD", hide_env_values = true)]
    to_password: Option<Hidden>,
    /// Data folder of the host, which may run
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

pub(crate) async fn migrate(args: MigrateArgs) -> Result<(), Box<dyn Error>> {
    secret::keep_private()?;
    let flags = Flags { host: HostFlags { data: args.data, ..HostFlags::default() }, ..Flags::default() };
    let home = flags.over_file(&args.config)?.home()?;
    let tell = |step: &str| _ = writeln!(std::io::stdout(), "{step}");
    let done = app::migrate(&home, args.to.expose(), args.to_password.as_ref().map(Hidden::expose), tell).await?;
    Ok(writeln!(std::io::stdout(), "{done}")?)
}

pub(crate) async fn stay(args: StayArgs) -> Result<(), Box<dyn Error>> {
    let flags = Flags { host: HostFlags { data: Some(args.data), ..HostFlags::default() }, ..Flags::default() };
    let told = match app::stay(&flags.home()?).await? {
        Some(to) => format!(
            "the next start serves the rows of the folder, as they were when they went to {to}; what was committed there since is there alone"
        ),
        None => "the rows are here; nothing was changed".to_owned(),
    };
    Ok(writeln!(std::io::stdout(), "{told}")?)
}

/// Fails where contents of files are missing, although all else was done.
fn complete(kept: &KeptCopy) -> Result<(), Box<dyn Error>> {
    match kept.files.missing.len() {
        0 => Ok(()),
        missing => Err(format!("contents of {missing} files are missing, or are others: {}", kept.files.missing.join(", ")).into()),
    }
}
