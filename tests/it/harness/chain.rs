//! A private chain with the USDC token at its address on the simulated network, and the standard
//! facilitator for it.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use alloy_primitives::{Address, U256, keccak256};
use reqwest::Client;
use serde_json::{Value, json};

use super::{
    Host, HostBuilder, PAY_TO, eventually,
    permit::{PERMIT2, UPTO_PROXY},
};

/// A network in the table, as x402 clients know it: its number, and its USDC token.
pub type Known = (u64, &'static str);

pub const BASE_SEPOLIA: Known = (84_532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e");
pub const BASE: Known = (8_453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
pub const POLYGON: Known = (137, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359");
pub const ARBITRUM: Known = (42_161, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831");

/// The address at which clients expect Multicall3 on every chain.
const MULTICALL: &str = "0xcA11bde05977b3631167028862bE2a173976CA11";

/// The first key that anvil funds, and its address; and the second key, which owns the wallet in
/// `token.sol`.
pub const GAS_KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
pub const GAS_ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub const CHAIN_PAYER_KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";

/// An anvil process, which ends when this is dropped.
pub struct Chain {
    process: Child,
    pub url: String,
    client: Client,
    /// The code of each contract, by name.
    code: Value,
    known: Known,
    /// The states of blocks, which anvil does not delete.
    _states: tempfile::TempDir,
}

/// A program that prints its address in its first line.
pub struct Listening {
    process: Child,
    pub url: String,
}

/// The chain in the documents: the script, and its output. It is ended with a signal that it can
/// handle, because it must end a child process itself.
pub struct OwnChain {
    process: Child,
    pub info: Value,
}

impl OwnChain {
    pub async fn start() -> Self {
        tokio::task::spawn_blocking(|| {
            let mut process = Command::new("node").arg(clients().join("chain.mjs")).arg("0").stdout(Stdio::piped()).spawn().unwrap();
            let reported = serde_json::from_str(&first_line(&mut process, "payerKey")).unwrap();
            Self { process, info: reported }
        })
        .await
        .unwrap()
    }
}

impl Drop for OwnChain {
    fn drop(&mut self) {
        _ = Command::new("kill").arg(self.process.id().to_string()).status();
        _ = self.process.wait();
    }
}

impl HostBuilder {
    /// Settles on the node at `url` without a facilitator, and pays for gas with this key.
    pub fn settling_at(self, url: &str, gas_key: &str) -> Self {
        let how = self.env("TOLLHOUSE_FACILITATOR", "evm").env("TOLLHOUSE_RPC_URL", url);
        how.env("TOLLHOUSE_GAS_KEY", gas_key).env("TOLLHOUSE_PAY_TO", PAY_TO)
    }
}

/// Returns a host that settles on the chain without a facilitator.
pub fn evm(chain: &Chain) -> HostBuilder {
    Host::builder().settling_at(&chain.url, GAS_KEY)
}

/// Returns a host that settles through a facilitator, and has a node of the chain.
pub fn stock(facilitator: &str, chain: &Chain) -> HostBuilder {
    Host::builder().settled_by(facilitator).env("TOLLHOUSE_RPC_URL", &chain.url)
}

/// Returns the folder of the standard clients.
pub fn clients() -> PathBuf {
    let folder = std::env::var_os("TOLLHOUSE_CLIENTS");
    let folder =
        PathBuf::from(folder.expect("TOLLHOUSE_CLIENTS names no folder of stock x402 clients: run `cargo xtask test`, which prepares one"));
    assert!(folder.join("node_modules").is_dir() && folder.join("venv").is_dir(), "`{}` has no node_modules and venv", folder.display());
    folder
}

/// Returns the first line of a program's output that contains `marker`.
fn first_line(process: &mut Child, marker: &str) -> String {
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(marker) {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended before it printed `{marker}`");
    }
    // Read the rest of the output, so that the program can go on writing.
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    line
}

impl Chain {
    /// Starts a chain that mines each transaction at once.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a chain that mines each transaction at once, and a block every two seconds in
    /// addition. A client that waits for the next block, as viem does if there is no receipt yet,
    /// then gets one.
    pub async fn ticking() -> Self {
        Self::with(&["--mixed-mining", "--block-time", "2"]).await
    }

    /// Starts a chain with additional arguments for anvil. A block is safe as soon as there is one
    /// after it.
    pub async fn with(args: &[&str]) -> Self {
        Self::of(BASE_SEPOLIA, args).await
    }

    /// Starts a chain that clients take for the given network.
    pub async fn of(known: Known, args: &[&str]) -> Self {
        let states = tempfile::tempdir().unwrap();
        let (mut process, code) = tokio::task::spawn_blocking({
            let folder = states.path().to_owned();
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            move || {
                let anvil = clients().join("node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil");
                let mut command = Command::new(anvil);
                command
                    .args(["--chain-id", &known.0.to_string(), "--port", "0", "--slots-in-an-epoch", "1"])
                    .arg("--cache-path")
                    .arg(folder)
                    .args(args)
                    .stdout(Stdio::piped());
                let process = command.spawn().expect("anvil is not among the stock clients: run `cargo xtask test`, which installs it");
                let compiled = Command::new("node").arg(clients().join("compile-token.mjs")).output().unwrap();
                assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
                (process, serde_json::from_slice::<Value>(&compiled.stdout).unwrap())
            }
        })
        .await
        .unwrap();
        let line = first_line(&mut process, "Listening on");
        let url = format!("http://{}", line.trim().trim_start_matches("Listening on "));
        let client = Client::builder().no_proxy().build().unwrap();
        let chain = Self { process, url, client, code, known, _states: states };
        chain.etch(known.1, "Token").await;
        for (address, contract) in [(MULTICALL, "Multicall3"), (PERMIT2, "Permit2"), (UPTO_PROXY, "UptoProxy")] {
            chain.etch(address, contract).await;
        }
        chain
    }

    /// Puts a contract at an address.
    pub async fn etch(&self, address: &str, contract: &str) {
        self.rpc("anvil_setCode", json!([address, self.code[contract]])).await;
    }

    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer: Value = self.client.post(&self.url).json(&question).send().await.unwrap().json().await.unwrap();
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Mints micro-dollars for an address.
    pub async fn mint(&self, to: &str, micros: u64) {
        let (to, data) = (word(to), format!("{micros:064x}"));
        let mint =
            json!({ "from": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "to": self.known.1, "data": format!("0x40c10f19{to}{data}") });
        self.send(mint).await;
    }

    /// Removes all dollars from an address, without a transaction.
    pub async fn empty(&self, of: &str) {
        // `balanceOf` is in the first storage slot of the token.
        let slot = keccak256([of.parse::<Address>().unwrap().into_word().0, [0; 32]].concat());
        self.rpc("anvil_setStorageAt", json!([self.known.1, slot, format!("0x{}", "0".repeat(64))])).await;
        assert_eq!(self.balance(of).await, 0);
    }

    /// Lets Permit2 move all funds of an address.
    pub async fn approve(&self, of: &str) {
        self.rpc("anvil_setBalance", json!([of, "0x56bc75e2d63100000"])).await;
        self.rpc("anvil_impersonateAccount", json!([of])).await;
        let data = format!("0x095ea7b3{}{:064x}", word(PERMIT2), U256::MAX);
        self.send(json!({ "from": of, "to": self.known.1, "data": data })).await;
    }

    /// Sends a transaction, and waits until it is in a block.
    pub async fn send(&self, transaction: Value) {
        let sent = self.rpc("eth_sendTransaction", json!([transaction])).await;
        eventually("it is in a block", Duration::from_secs(60), async || {
            (!self.rpc("eth_getTransactionReceipt", json!([sent])).await.is_null()).then_some(())
        })
        .await;
    }

    /// Returns the balance of an address, in micro-dollars.
    pub async fn balance(&self, of: &str) -> u64 {
        let call = json!({ "to": self.known.1, "data": format!("0x70a08231{}", word(of)) });
        self.rpc("eth_call", json!([call, "latest"])).await.as_str().unwrap().parse::<U256>().unwrap().to()
    }

    /// Starts the standard TypeScript facilitator, which pays gas with the key that anvil funds.
    pub async fn stock_facilitator(&self) -> Listening {
        let mut command = Command::new("node");
        command
            .arg(clients().join("facilitator.mjs"))
            .arg(&self.url)
            .arg(self.known.0.to_string())
            .env("PRIVATE_KEY", GAS_KEY)
            .stdout(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut process = command.spawn().unwrap();
            let url = first_line(&mut process, "http://").trim().to_owned();
            Listening { process, url }
        })
        .await
        .unwrap()
    }
}

/// Encodes an address as a call argument.
fn word(address: &str) -> String {
    hex::encode(address.parse::<Address>().unwrap().into_word())
}

impl Drop for Chain {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
