//! A local chain with the dollar token, and the standard facilitator and middleware for it.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
};

use alloy_primitives::Address;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Failure, Options,
    client::{Client, Request},
};

/// The token's address that x402 clients expect, and Multicall3, which the standard facilitator
/// needs.
const TOKEN: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const MULTICALL: &str = "0xcA11bde05977b3631167028862bE2a173976CA11";

/// The first and the third key that anvil funds: the facilitator's and the host's. The second one
/// mints.
const FACILITATOR_KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
pub(crate) const HOST_KEY: &str = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";
const MINTER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
pub(crate) const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// A program that prints a line with its address. Dropping it ends the process.
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Listening {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let address = loop {
            let line = lines.next().ok_or("it ended before it said where it listens")??;
            if let Some(at) = line.find("127.0.0.1:") {
                break line[at..].trim().parse();
            }
        };
        // Read its further output, so that the pipe does not fill up.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address: address? })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// anvil with the token.
pub(crate) struct Chain {
    anvil: Listening,
    /// Folder of block states, which anvil does not remove.
    _states: TempDir,
}

impl Chain {
    /// Starts a chain, with more arguments for anvil.
    pub(crate) fn start(options: &Options, args: &[&str]) -> Result<Self, Failure> {
        let mut anvil = Command::new(options.clients.join("node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"));
        let states = tempfile::tempdir()?;
        anvil.args(["--chain-id", "84532", "--port", "0", "--slots-in-an-epoch", "1"]).arg("--cache-path").arg(states.path()).args(args);
        let chain = Self { anvil: Listening::start(&mut anvil)?, _states: states };
        let compiled = Command::new(&options.node).arg("compile-token.mjs").current_dir(&options.clients).output()?;
        let code: Value = serde_json::from_slice(&compiled.stdout)?;
        for (address, contract) in [(TOKEN, "Token"), (MULTICALL, "Multicall3")] {
            chain.rpc("anvil_setCode", json!([address, code[contract]]))?;
        }
        Ok(chain)
    }

    pub(crate) fn url(&self) -> String {
        self.anvil.url()
    }

    fn rpc(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let mut client = Client::connect(self.anvil.address)?;
        client.expect_ok(&Request::post("/", &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()))?;
        let mut answer: Value = serde_json::from_slice(client.body())?;
        if answer["error"].is_null() { Ok(answer["result"].take()) } else { Err(format!("{method}: {answer}").into()) }
    }

    /// Gives an address a million dollars, and waits until they arrive.
    pub(crate) fn fund(&self, to: Address) -> Result<(), Failure> {
        let data = format!("0x40c10f19{}{:064x}", hex::encode(to.into_word()), 1_000_000_000_000_u64);
        let sent = self.rpc("eth_sendTransaction", json!([{ "from": MINTER, "to": TOKEN, "data": data }]))?;
        while self.rpc("eth_getTransactionReceipt", json!([sent]))?.is_null() {
            thread::sleep(std::time::Duration::from_millis(100));
        }
        Ok(())
    }

    /// Starts the standard facilitator for this chain.
    pub(crate) fn facilitator(&self, options: &Options) -> Result<Listening, Failure> {
        let mut node = Command::new(&options.node);
        Listening::start(node.args(["facilitator.mjs", &self.url()]).current_dir(&options.clients).env("PRIVATE_KEY", FACILITATOR_KEY))
    }
}

/// Starts the standard middleware before a paid echo.
pub(crate) fn express(options: &Options, facilitator: &Listening) -> Result<Listening, Failure> {
    let mut node = Command::new(&options.node);
    Listening::start(node.args(["server.mjs", &facilitator.url(), PAY_TO]).current_dir(&options.express).env("NODE_ENV", "production"))
}
