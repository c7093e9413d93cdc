//! A host that a command tests from outside: on a free port, with temporary data.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::Failure;

/// The line that a host prints when it is ready starts with this.
const READY: &str = "listening on ";

/// A host with its data in a temporary folder. Dropping it kills it and removes the folder.
pub(crate) struct Host {
    child: Child,
    folder: PathBuf,
    /// Without a slash at the end.
    pub(crate) url: String,
}

impl Host {
    /// Starts a host with `settings` as environment variables (keys must not be arguments), and
    /// waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it prints something other than its address, the error is that output.
    pub(crate) fn start<T: AsRef<OsStr>>(binary: &Path, worker: &Path, settings: &[(&str, T)]) -> Result<Self, Failure> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tollhouse-xtask-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|reason| format!("cannot create {}: {reason}", folder.display()))?;
        let log = fs::File::create(folder.join("host.log")).map_err(|reason| reason.to_string())?;
        // Without the settings of the user, who can run a host too.
        let inherited = ["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new(binary);
        command.env_clear().envs(inherited).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.join("data"));
        for (name, value) in settings {
            command.env(name, value);
        }
        command.env("TOLLHOUSE_WORKER", worker).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let child = command.spawn().map_err(|reason| format!("cannot start {}: {reason}", binary.display()))?;
        let mut host = Self { child, folder, url: String::new() };
        let mut line = String::new();
        if let Some(stdout) = host.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|reason| reason.to_string())?;
        }
        let url = line.trim().strip_prefix(READY).ok_or_else(|| format!("the host did not start: {line}\n{}", host.log()))?;
        host.url = url.to_owned();
        Ok(host)
    }

    /// Returns the URL of the MCP endpoint.
    pub(crate) fn mcp(&self) -> String {
        format!("{}/ai/mcp", self.url)
    }

    /// Returns the path of the file with the admin token.
    pub(crate) fn admin_token(&self) -> PathBuf {
        self.folder.join("data/admin-token")
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("host.log")).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}
