//! Runs the builder's own programs: those of the packages installed around a folder, else those of the machine.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use tokio::process::Command;

/// Longest run time: a compiler finishes a large project in a few seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a program from `node_modules/.bin` of this folder or one above it, else from `PATH`. It gets no input, and is
/// killed if the caller stops waiting. Returns `None` if it is not installed.
///
/// # Errors
///
/// The program could not be run, or took too long.
pub(crate) async fn run(folder: &Path, name: &str, args: &[OsString], envs: &[(&str, OsString)]) -> Result<Option<Output>, String> {
    let own = folder.ancestors().map(|above| above.join("node_modules/.bin").join(name)).find(|path| path.is_file());
    let mut command = Command::new(own.unwrap_or_else(|| name.into()));
    command
        .args(args)
        .envs(envs.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("`{name}` cannot be run: {error}")),
    };
    match tokio::time::timeout(TIMEOUT, child.wait_with_output()).await {
        Ok(Ok(output)) => Ok(Some(output)),
        Ok(Err(error)) => Err(format!("`{name}` stopped unexpectedly: {error}")),
        Err(_) => Err(format!("`{name}` took more than {} s", TIMEOUT.as_secs())),
    }
}
