//! `tollhouse doctor`: what this machine gives the jail of workers, and the database the store, what they do not, and how to get it.

use std::{
    collections::BTreeSet,
    error::Error,
    io::Write as _,
    path::{Path, PathBuf},
};

use tollhouse::{
    app,
    config::{self, Flags, SandboxSettings},
    operate::{database, jail},
};
use tollhouse_pool::{PoolConfig, PoolError};
use tollhouse_protocol::Tier;

/// Folders that hold the workers of different engines, beside each other.
const ENGINES: [&str; 2] = ["v8", "quickjs"];

/// Arguments of `doctor`: those of the host that it is asked about.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Settings file
    #[arg(long, default_value = config::FILE)]
    config: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let flags = args.flags.over_file(&args.config)?;
    let mut lacking = BTreeSet::new();
    jail(&flags.sandbox.clone().resolve()?, &mut lacking).await?;
    if let Some(config) = flags.host.database()? {
        let examined = database::examine(&config).await?;
        write!(std::io::stdout(), "{examined}")?;
        lacking.extend(examined.lacks().into_iter().map(str::to_owned));
    }
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(format!("a host that is to keep its promises here needs {}", Vec::from_iter(lacking).join(", ")).into())
    }
}

/// Tells of the jail of each engine's workers in each tier; adds what a host would not start without.
async fn jail(settings: &SandboxSettings, lacking: &mut BTreeSet<String>) -> Result<(), Box<dyn Error>> {
    for worker in of_each_engine(&settings.worker) {
        let mut config = app::pool_config(settings);
        config.worker = worker;
        for tier in Tier::ALL {
            config.tier = tier;
            let examined = jail::examine(&config).await.map_err(|error| unstarted(&config, &error))?;
            write!(std::io::stdout(), "{examined}")?;
            if tier >= settings.tier {
                lacking.extend(examined.lacks(&settings.strict).map(ToString::to_string));
            }
        }
    }
    Ok(())
}

/// What to tell of a worker that does not start, and what to do.
fn unstarted(config: &PoolConfig, error: &PoolError) -> String {
    format!(
        "{}, tier {}: {error}. Look whether it is a `tollhouse-worker` of this host's version and for this machine, and whether limits on this \
         process (`ulimit -a`: address space, processes, descriptors) leave room for an engine",
        config.worker.display(),
        config.tier
    )
}

/// The worker, and those of other engines that lie beside it as `cargo xtask` puts them.
fn of_each_engine(worker: &Path) -> Vec<PathBuf> {
    let folder = worker.parent().filter(|folder| ENGINES.iter().any(|engine| folder.ends_with(engine)));
    let beside =
        folder.and_then(Path::parent).into_iter().flat_map(|folder| ENGINES.map(|engine| folder.join(engine).join("tollhouse-worker")));
    let others = beside.filter(|other| other != worker && other.is_file());
    std::iter::once(worker.to_owned()).chain(others).collect()
}
