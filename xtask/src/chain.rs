//! A chain of one's own for what a command looks at: `fixtures/clients/chain.mjs`.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::Failure;

/// A chain that clients take for Base Sepolia. Dropping it ends it.
pub(crate) struct Chain {
    process: Child,
    /// One object, of texts without escapes.
    told: String,
}

impl Chain {
    /// Starts one on a free port, out of the folder of the payers.
    ///
    /// # Errors
    ///
    /// That it did not say where it is.
    pub(crate) fn start(clients: &Path) -> Result<Self, Failure> {
        let mut node = Command::new("node");
        node.args(["chain.mjs", "0"]).current_dir(clients).stdout(Stdio::piped());
        let mut process = node.spawn().map_err(|why| format!("cannot start node: {why}"))?;
        let stdout = process.stdout.take();
        let mut chain = Self { process, told: String::new() };
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut chain.told).map_err(|why| why.to_string())?;
        }
        chain.told("url")?;
        Ok(chain)
    }

    /// What it says of itself: `url`, `gasKey`, `payer`, `payerKey`.
    ///
    /// # Errors
    ///
    /// That it does not say that.
    pub(crate) fn told(&self, what: &str) -> Result<&str, Failure> {
        let said = self.told.split_once(&format!("\"{what}\":\"")).and_then(|(_, rest)| rest.split('"').next());
        said.ok_or_else(|| format!("the chain did not tell its `{what}`: {}", self.told))
    }
}

impl Drop for Chain {
    /// Told to end and not killed: it has a process of its own to end.
    fn drop(&mut self) {
        _ = Command::new("kill").arg(self.process.id().to_string()).status();
        _ = self.process.wait();
    }
}
