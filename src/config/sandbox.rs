//! The worker processes, and what handlers may reach.

use std::path::PathBuf;

use super::{error::SettingsError, layered::flags};

flags! {
/// Of the sandbox.
pub struct SandboxFlags {
    /// Path of the `tollhouse-worker` binary [default: beside this one]
    #[arg(long, env = "TOLLHOUSE_WORKER")]
    pub worker: Option<PathBuf>,
    /// Blank workers kept ready [default: 2]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_SPARES")]
    pub sandbox_spares: Option<usize>,
    /// Handlers that compute at once [default: cores x 2]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_RUNNING")]
    pub sandbox_running: Option<usize>,
    /// Calls sent ahead to a worker that is at another one, of handlers that take microseconds; 0 sends none [default: 16]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_PIPELINE")]
    pub sandbox_pipeline: Option<usize>,
    /// Worker processes at once [default: as many as half of the memory holds]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_PROCESSES")]
    pub sandbox_processes: Option<usize>,
    /// Hosts that `httpGetJson` may reach although they are private or plain http, `host:port`, comma-separated
    #[arg(long, env = "TOLLHOUSE_GUARD_ALLOW", value_delimiter = ',')]
    pub guard_allow: Vec<String>,
}
}

/// How worker processes are kept. `None` is the pool's own default.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Path of the `tollhouse-worker` binary.
    pub worker: PathBuf,
    /// Blank workers kept ready.
    pub spares: Option<usize>,
    /// Handlers that compute at once.
    pub running: Option<usize>,
    /// Calls sent ahead to a worker that is at another one.
    pub pipeline: Option<usize>,
    /// Worker processes at once.
    pub processes: Option<usize>,
    /// What the guard lets through, as `host:port`.
    pub guard_allow: Vec<String>,
}

impl SandboxFlags {
    pub(super) fn resolve(self) -> Result<SandboxSettings, SettingsError> {
        let worker = self.worker.unwrap_or_else(beside_this_binary);
        if !worker.is_file() {
            return Err(SettingsError::NoWorker(worker));
        }
        Ok(SandboxSettings {
            worker,
            spares: self.sandbox_spares,
            running: at_least_one("--sandbox-running", self.sandbox_running)?,
            pipeline: self.sandbox_pipeline,
            processes: at_least_one("--sandbox-processes", self.sandbox_processes)?,
            guard_allow: self.guard_allow,
        })
    }
}

/// What there has to be one of, for any handler to run.
fn at_least_one(flag: &'static str, value: Option<usize>) -> Result<Option<usize>, SettingsError> {
    if value == Some(0) { Err(SettingsError::Least { flag, least: 1 }) } else { Ok(value) }
}

fn beside_this_binary() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.set_file_name("tollhouse-worker");
    path
}
