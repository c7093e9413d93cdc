//! A private chain for tests: `fixtures/clients/chain.mjs`.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::Failure;

/// A chain that looks like Base Sepolia to clients. Dropping it ends the chain.
pub(crate) struct Chain {
    process: Child,
    /// The script's output: one JSON object whose strings have no escapes.
    output: String,
}

impl Chain {
    /// Starts a chain on a free port, with the script in the folder of the payers.
    pub(crate) fn start(clients: &Path) -> Result<Self, Failure> {
        let mut node = Command::new("node");
        node.args(["chain.mjs", "0"]).current_dir(clients).stdout(Stdio::piped());
        let mut process = node.spawn().map_err(|reason| format!("cannot start node: {reason}"))?;
        let stdout = process.stdout.take();
        let mut chain = Self { process, output: String::new() };
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut chain.output).map_err(|reason| reason.to_string())?;
        }
        chain.info("url")?;
        Ok(chain)
    }

    /// Returns one value that the chain reported: `url`, `gasKey`, `payer` or `payerKey`.
    pub(crate) fn info(&self, what: &str) -> Result<&str, Failure> {
        let message = self.output.split_once(&format!("\"{what}\":\"")).and_then(|(_, rest)| rest.split('"').next());
        message.ok_or_else(|| format!("the chain did not report its `{what}`: {}", self.output))
    }
}

impl Drop for Chain {
    /// Ends the script with a signal that it can handle, because it must end a child process
    /// itself.
    fn drop(&mut self) {
        _ = Command::new("kill").arg(self.process.id().to_string()).status();
        _ = self.process.wait();
    }
}
