//! Settings of worker processes and of what handlers can reach.

use std::{ops::RangeInclusive, path::PathBuf};

use tollhouse_pool::PoolConfig;
use tollhouse_protocol::{JailLayer, Tier, limits::CALL_BYTES};

use super::{error::SettingsError, layered::flags};

/// Above any possible number of processes: Linux process ids are below 2²².
const MAX_PROCESSES: usize = 1 << 22;
/// Above the number of calls that a worker's socket can hold.
const MAX_AHEAD: usize = 1_024;
/// Minimum memory: enough for the zygote, a spare worker, and a running one.
const LEAST_MEMORY: u64 = 64 << 20;

flags! {
/// Flags for the sandbox.
pub struct SandboxFlags {
    /// Path of the `tollhouse-worker` binary [default: beside this one]
    pub worker: Option<PathBuf> = "TOLLHOUSE_WORKER",
    /// Blank workers kept ready [default: 2]
    pub sandbox_spares: Option<usize> = "TOLLHOUSE_SANDBOX_SPARES",
    /// Handlers that compute at the same time [default: cores x 2]
    pub sandbox_running: Option<usize> = "TOLLHOUSE_SANDBOX_RUNNING",
    /// Calls of very short handlers sent ahead to a busy worker; 0 sends none [default: 16]
    pub sandbox_pipeline: Option<usize> = "TOLLHOUSE_SANDBOX_PIPELINE",
    /// Maximum number of worker processes [default: one per 8 MiB of --sandbox-memory, at most half the descriptors and one per user]
    pub sandbox_processes: Option<usize> = "TOLLHOUSE_SANDBOX_PROCESSES",
    /// Private memory of all workers, in bytes; above that, idle workers end or starts wait [default: half of the memory of the machine or control group]
    pub sandbox_memory: Option<u64> = "TOLLHOUSE_SANDBOX_MEMORY",
    /// Least strict tier of all tools: `jit`, or `jitless`, which compiles nothing [default: jit]
    pub sandbox_tier: Option<String> = "TOLLHOUSE_SANDBOX_TIER",
    /// Fork workers from a booted process; they share its memory layout [default: true, or false with --sandbox-strict]
    pub sandbox_zygote: Option<bool> = "TOLLHOUSE_SANDBOX_ZYGOTE" (num_args = 0..=1, default_missing_value = "true"),
    /// Jail layers without which the host does not start, comma-separated; `tollhouse doctor` lists them
    pub sandbox_strict: Vec<String> = "TOLLHOUSE_SANDBOX_STRICT" (value_delimiter = ',', value_name = "LAYERS"),
    /// User and group ids for workers if the host runs as root, one each [default: 1900000000-1900262143]
    pub sandbox_users: Option<String> = "TOLLHOUSE_SANDBOX_USERS",
    /// Bytes in transit between the host and all workers, shared by builders [default: a sixteenth of the memory, at least 256 MiB]
    pub sandbox_bytes: Option<usize> = "TOLLHOUSE_SANDBOX_BYTES",
    /// Private or plain http hosts that tools can reach, as `host:port`, comma-separated
    pub guard_allow: Vec<String> = "TOLLHOUSE_GUARD_ALLOW" (value_delimiter = ','),
}
}

/// Settings of worker processes and of what handlers can reach.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Settings of the pool of workers.
    pub pool: PoolConfig,
    /// Hosts that the guard allows as exceptions, as `host:port`.
    pub guard_allow: Vec<String>,
}

impl SandboxFlags {
    /// Returns the effective settings, validated.
    ///
    /// # Errors
    ///
    /// A missing worker binary, or impossible values.
    pub fn resolve(self) -> Result<SandboxSettings, SettingsError> {
        let worker = self.worker.unwrap_or_else(next_to_this_binary);
        if !worker.is_file() {
            return Err(SettingsError::NoWorker(worker));
        }
        let mut pool = PoolConfig::new(worker);
        pool.spares = within("--sandbox-spares", self.sandbox_spares, pool.spares, 0..=MAX_PROCESSES)?;
        pool.running = within("--sandbox-running", self.sandbox_running, pool.running, 1..=MAX_PROCESSES)?;
        pool.pipeline = within("--sandbox-pipeline", self.sandbox_pipeline, pool.pipeline, 0..=MAX_AHEAD)?;
        pool.users = self.sandbox_users.map_or(Ok(pool.users), |range| range.parse())?;
        let max_processes = pool.max_processes.min(pool.users.max());
        pool.max_processes = within("--sandbox-processes", self.sandbox_processes, max_processes, 1..=MAX_PROCESSES)?;
        pool.memory = within("--sandbox-memory", self.sandbox_memory, pool.memory, LEAST_MEMORY..=u64::MAX)?;
        pool.tier = self.sandbox_tier.map_or(Ok(pool.tier), |name| tier(&name))?;
        if !self.sandbox_zygote.unwrap_or(self.sandbox_strict.is_empty()) {
            pool.zygote_forks = 0;
        }
        pool.strict = self.sandbox_strict.iter().map(|name| layer(name)).collect::<Result<_, _>>()?;
        pool.bytes = within("--sandbox-bytes", self.sandbox_bytes, pool.bytes, CALL_BYTES..=usize::MAX)?;
        Ok(SandboxSettings { pool, guard_allow: self.guard_allow })
    }
}

fn layer(name: &str) -> Result<JailLayer, SettingsError> {
    JailLayer::named(name.trim())
        .ok_or_else(|| SettingsError::Layer { name: name.to_owned(), known: JailLayer::ALL.map(|layer| layer.to_string()).join(", ") })
}

fn tier(name: &str) -> Result<Tier, SettingsError> {
    Tier::named(name).ok_or_else(|| SettingsError::Tier(name.to_owned()))
}

/// Returns the value, which must be in a range that can work, or `default`.
fn within<T: Copy + PartialOrd + TryInto<u64>>(
    flag: &'static str,
    value: Option<T>,
    default: T,
    range: RangeInclusive<T>,
) -> Result<T, SettingsError> {
    let number = |value: T| value.try_into().unwrap_or(u64::MAX);
    match value {
        Some(given) if !range.contains(&given) => {
            Err(SettingsError::Range { flag, given: number(given), least: number(*range.start()), max: number(*range.end()) })
        }
        _ => Ok(value.unwrap_or(default)),
    }
}

fn next_to_this_binary() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.set_file_name("tollhouse-worker");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(strict: &[&str], users: Option<&str>) -> Result<SandboxSettings, SettingsError> {
        let worker = std::env::current_exe().ok();
        let sandbox_strict = strict.iter().map(ToString::to_string).collect();
        SandboxFlags { worker, sandbox_strict, sandbox_users: users.map(Into::into), ..SandboxFlags::default() }.resolve()
    }

    #[test]
    fn every_layer_may_be_named_and_nothing_else() {
        let names = JailLayer::ALL.map(|layer| layer.to_string());
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(resolved(&names, None).unwrap().pool.strict, JailLayer::ALL);
        assert_eq!(resolved(&["seccomp", " no_new_privs"], None).unwrap().pool.strict, [JailLayer::Seccomp, JailLayer::NoNewPrivs]);
        let refused = resolved(&["seccomp", "Landlock"], None).unwrap_err().to_string();
        assert!(refused.contains("`Landlock`") && refused.contains("landlock, seccomp"), "{refused}");
    }

    #[test]
    fn unknown_tier_is_rejected() {
        assert_eq!(Tier::SETTABLE.map(|name| tier(&name.to_string()).unwrap()), Tier::SETTABLE);
        assert!(tier("wasm").is_err(), "a grant leads to it");
        assert!(matches!(tier("Jit"), Err(SettingsError::Tier(_))));
        assert_eq!(resolved(&[], None).unwrap().pool.tier, Tier::Jit);
    }

    #[test]
    fn workers_are_forked_by_default() {
        let forks = |settings: Result<SandboxSettings, SettingsError>| settings.unwrap().pool.zygote_forks > 0;
        assert!(forks(resolved(&[], None)) && !forks(resolved(&["seccomp"], None)));
        for message in [true, false] {
            let sandbox_strict = if message { vec!["seccomp".to_owned()] } else { Vec::new() };
            let flags = SandboxFlags {
                worker: std::env::current_exe().ok(),
                sandbox_zygote: Some(message),
                sandbox_strict,
                ..SandboxFlags::default()
            };
            assert_eq!(forks(flags.resolve()), message);
        }
    }

    #[test]
    fn users_are_a_range() {
        assert_eq!(resolved(&[], Some("70000-70999")).unwrap().pool.users, "70000-70999".parse::<tollhouse_pool::Users>().unwrap());
        assert_eq!(resolved(&[], None).unwrap().pool.users, PoolConfig::new("").users);
        for range in ["70000", "5-1"] {
            let refused = resolved(&[], Some(range)).unwrap_err();
            let cause = std::error::Error::source(&refused).unwrap().to_string();
            assert!(cause.contains("in ascending order") && !refused.to_string().contains(&cause), "{refused}: {cause}");
        }
    }
}
