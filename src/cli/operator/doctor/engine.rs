//! Checks the workers: their engine, whether their version matches the host's, and the layers of their jail.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Deserialize;
use tokio::process::Command;
use tollhouse_config::SandboxSettings;
use tollhouse_operate::{
    finding::{Finding, Level},
    jail,
};
use tollhouse_protocol::Tier;

use super::findings::Findings;
use crate::base::Result;

/// Folders of workers with different engines, next to each other.
const ENGINES: [&str; 2] = ["v8", "quickjs"];

/// Timeout for a worker to describe itself.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A worker's description of itself.
#[derive(Deserialize)]
struct WorkerInfo {
    engine: String,
    version: String,
    tiers: Vec<String>,
}

/// Checks the worker of each engine, and starts one in each tier.
pub(super) async fn examine(settings: &SandboxSettings, reported: &mut Findings) -> Result {
    for worker in of_each_engine(&settings.pool.worker) {
        let about = describe(&worker).await;
        let name = about.as_ref().map_or_else(|| named(&worker), |about| about.engine.clone());
        reported.add([version(&worker, &name, about.as_ref())])?;
        let mut config = settings.pool.clone();
        config.worker = worker;
        for tier in Tier::SETTABLE {
            config.tier = tier;
            let strict = if tier >= settings.pool.tier { &settings.pool.strict[..] } else { &[] };
            // The tier in which handlers run by default.
            let which = if tier == settings.pool.tier { format!("{name}, jail") } else { format!("{name}, tier {tier}, jail") };
            let found = match jail::examine(&config).await {
                Ok(examined) => examined.finding(which, strict),
                Err(error) => Finding::fail("engine", error.to_string(), UNSTARTED).of(format!("{name}, tier {tier}")),
            };
            reported.add([found])?;
        }
    }
    Ok(())
}

/// The remedy for a worker that does not start.
const UNSTARTED: &str = "check that it is a `tollhouse-worker` of this version and for this machine, and that the limits of this process \
    (`ulimit -a`: address space, processes, descriptors) leave room for an engine";

fn version(worker: &Path, name: &str, about: Option<&WorkerInfo>) -> Finding {
    let (own, path) = (env!("CARGO_PKG_VERSION"), worker.display());
    let finding = match about {
        Some(about) if about.version == own => Finding::ok("engine", format!("version {own}, tiers {}, `{path}`", about.tiers.join(" "))),
        Some(about) => Finding {
            level: Level::Fail,
            ..Finding::warn("engine", format!("`{path}` has version {}, but the host has {own}", about.version), SAME)
        },
        None => Finding::warn("engine", format!("`{path}` does not report its version"), SAME),
    };
    finding.of(name)
}

const SAME: &str = "install the host and the worker from the same release";

/// Returns a worker's description of itself, or `None` if it gives none.
async fn describe(worker: &Path) -> Option<WorkerInfo> {
    let mut command = Command::new(worker);
    command.arg("--about").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await.ok()?.ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// Returns the engine of a worker without a description, judging by its folder.
fn named(worker: &Path) -> String {
    let folder = worker.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.filter(|name| ENGINES.contains(name)).unwrap_or("unknown engine").to_owned()
}

/// Returns the worker, and those of other engines next to it in the layout of `cargo xtask`.
fn of_each_engine(worker: &Path) -> Vec<PathBuf> {
    let folder = worker.parent().filter(|folder| ENGINES.iter().any(|engine| folder.ends_with(engine)));
    let alongside =
        folder.and_then(Path::parent).into_iter().flat_map(|folder| ENGINES.map(|engine| folder.join(engine).join("tollhouse-worker")));
    let others = alongside.filter(|other| other != worker && other.is_file());
    std::iter::once(worker.to_owned()).chain(others).collect()
}
