//! A real release host on a free port.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;
use tollhouse::config::{Flags, HttpSettings};

use crate::{
    Failure, Options,
    client::{Client, Request},
};

/// Long enough for any minimum length.
pub(crate) const ADMIN_TOKEN: &str = "bench-admin-token-0123456789abcdef0123456789abcdef";

const READY: &str = "listening on http://";

/// Returns a command without the settings of the person who runs this and may have a host of their own running.
pub(crate) fn without_settings(program: impl AsRef<OsStr>) -> Command {
    let stored = ["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command.env_clear().envs(stored);
    command
}

/// Returns settings for limits of one address that a host on loopback does not have by default, with the values of a public host.
pub(crate) fn public_limits(options: &Options) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut flags = Flags::default();
    flags.host.listen = Some(SocketAddr::from(([192, 0, 2, 1], 4020)));
    flags.host.base_url = Some("https://tollhouse.example".to_owned());
    flags.money.allow_simulated_public = Some(true);
    flags.sandbox.worker = Some(options.worker.clone());
    let HttpSettings { failed_runs, joins, streams, intake, .. } = flags.resolve()?.http;
    let limits = [
        ("TOLLHOUSE_ADDRESS_ANSWER_BYTES_HELD", intake.answers.max_per_address),
        ("TOLLHOUSE_ADDRESS_BODY_BYTES_HELD", intake.bodies.held.max_per_address),
        ("TOLLHOUSE_ADDRESS_CONNECTIONS", intake.connections.open.max_per_address),
        ("TOLLHOUSE_ADDRESS_FAILURES", failed_runs.of_address.map(|max| max.get() as usize)),
        ("TOLLHOUSE_ADDRESS_FOLLOWERS", intake.followers.max_per_address),
        ("TOLLHOUSE_ADDRESS_JOINS", joins.of_address),
        ("TOLLHOUSE_ADDRESS_STREAMS", streams.of_address),
    ];
    Ok(limits.into_iter().map(|(name, max)| (name, max.unwrap_or(0).to_string())).collect())
}

/// Rewrites the store of a stopped host.
pub(crate) fn compact_store(options: &Options, data: &Path) -> Result<(), Failure> {
    let output = without_settings(&options.host).args(["store", "compact", "--data"]).arg(data).output()?;
    if !output.status.success() {
        return Err(format!("the store was not compacted: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}

/// A host that is ready. Dropping it kills it.
pub(crate) struct Host {
    child: Child,
    address: SocketAddr,
}

impl Host {
    /// Starts a host with a data folder, and waits for its ready line.
    pub(crate) fn start(options: &Options, data: &Path, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_by(without_settings(&options.host), options, data, settings)
    }

    /// Starts a host on specific cores, and waits for its ready line.
    pub(crate) fn start_on(cores: &str, options: &Options, data: &Path, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut taskset = without_settings("taskset");
        taskset.args(["-c", cores]).arg(&options.host);
        Self::start_by(taskset, options, data, settings)
    }

    fn start_by(mut command: Command, options: &Options, data: &Path, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let log = data.join("host.log");
        let mut child = command
            .current_dir(data)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("TOLLHOUSE_WORKER", &options.worker)
            .env("TOLLHOUSE_ADMIN_TOKEN", ADMIN_TOKEN)
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            // Logs go to a file as with a service manager, at the default level.
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe from the host")?).lines();
        let ready = loop {
            match lines.next() {
                Some(line) => {
                    if let Some((_, address)) = line?.split_once(READY) {
                        break address.trim().parse();
                    }
                }
                None => {
                    let status = child.wait()?;
                    return Err(format!("the host ended before it was ready: {status}\n{}", fs::read_to_string(&log)?).into());
                }
            }
        };
        // Read its further output, so that the pipe does not fill up.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address: ready? })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes an admin request. Returns status and JSON of the answer.
    pub(crate) fn admin(&self, request: Request) -> Result<(u16, Value), Failure> {
        let mut client = Client::connect(self.address)?;
        let status = client.ask(&request.with("x-admin-token", ADMIN_TOKEN))?;
        Ok((status, serde_json::from_slice(client.body())?))
    }

    /// Returns the host's memory, in megabytes.
    pub(crate) fn memory_mb(&self) -> Result<u64, Failure> {
        self.held_mb("VmRSS:")
    }

    /// Returns the host's peak memory, in megabytes.
    pub(crate) fn max_memory_mb(&self) -> Result<u64, Failure> {
        self.held_mb("VmHWM:")
    }

    fn held_mb(&self, what: &str) -> Result<u64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let held = status.lines().find_map(|line| line.strip_prefix(what)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Ok(held.ok_or("the system does not say what the host holds")? * 1_024 / 1_000_000)
    }

    /// Returns the processor time of its process, in seconds.
    pub(crate) fn seconds(&self) -> Result<f64, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("the system does not say what the host has used")?;
        // User and system time, fields 14 and 15.
        let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the host to end, and waits for it.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}
