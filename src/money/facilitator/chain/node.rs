//! A JSON-RPC node of the network. Its answers count only after it has confirmed the right chain id.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy_primitives::{B256, Bytes, U64, U256};
use reqwest::{StatusCode, Url, header::HeaderMap};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ConfigError, Network,
    facilitator::{
        cut,
        json_client::{HttpAnswer, JsonClient},
    },
};

/// Timeout of a request. Default: 10 s.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum gas that a payer's contract can use in a call, and a settlement in its transaction.
pub(crate) const CONTRACT_GAS: u64 = 1_000_000;

/// If a node had less gas than this for a call, the signer's balance was too low for more.
const LEAST_ALLOWANCE: u64 = CONTRACT_GAS / 2;

/// JSON-RPC error codes that concern the request or the node: unknown method, invalid parameters, limits of the
/// provider.
const OF_THE_NODE: &[i64] = &[-32700, -32600, -32601, -32602, -32005, 429];

/// Parts of nodes' messages for code that failed before its end, in lower case with only letters and digits.
const STOPPED: &[&str] = &[
    "outofgas",
    "insufficientgas",
    "gasrequiredexceeds",
    "gasuint64overflow",
    "opcode",
    "badinstruction",
    "invalidinstruction",
    "invalidoperation",
    "invalidjump",
    "jumpdestination",
    "stackunderflow",
    "stackoverflow",
    "stacklimit",
    "writeprotection",
    "staticcall",
    "accessviolation",
    "returndataoutofbounds",
    "outofoffset",
    "calldepth",
    "calltoodeep",
    "memorylimit",
    "memoryoog",
    "precompileoog",
    "operandoog",
    "executionhalted",
    "executionerror",
    "vmerror",
];

/// Maximum length of a node's message in the log, in characters.
const MAX_MESSAGE: usize = 200;

/// A node at a URL. The URL is secret, because it contains the operator's key.
pub(crate) struct Node {
    poster: JsonClient,
    url: Url,
    network: &'static Network,
    /// Whether it has confirmed its chain id since it was last unreachable. After that it may be another node.
    proven: AtomicBool,
    /// Number of blocks that a settlement needs to count, including its own.
    confirmations: u64,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RpcError {
    /// There was no connection.
    #[error("the node is not there: {0}")]
    Unsent(String),
    /// The request may have arrived.
    #[error("the node did not answer: {0}")]
    Silent(String),
    /// The answer is too large to read.
    #[error("the node's {0}")]
    TooLarge(String),
    /// The answer is a JSON-RPC error.
    #[error("{method}: {message}")]
    Said { method: &'static str, status: StatusCode, code: i64, message: String, data: Option<Bytes> },
    /// The answer is JSON but neither an error nor a result of JSON-RPC. Gateways in front of a node do that.
    #[error("{method}: answered {status}: {message}")]
    Unclear { method: &'static str, status: StatusCode, message: String },
    /// It is a node of another network.
    #[error("the node is of chain {0}, and payments are made on {1}")]
    WrongChain(U256, &'static str),
}

/// The fields of a block that are used.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Block {
    pub(crate) number: U64,
    pub(crate) hash: B256,
    /// In seconds since 1970.
    pub(crate) timestamp: U64,
}

/// A reference to a block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlockTag {
    /// The newest one, which may still be replaced.
    Latest,
    /// The newest one that only a fault of the network can replace.
    Safe,
    Number(u64),
    /// The block with this hash. A node that does not have it returns an error.
    Hash(B256),
}

impl RpcError {
    /// Returns whether the contract failed, as opposed to the node: it reverted, or its code could not run to its end.
    pub(crate) fn reverted(&self) -> bool {
        let Self::Said { code, message, data, .. } = self else { return false };
        let message = message.to_lowercase();
        // This comes first, because the contract chooses the rest of the message.
        if data.is_some() || message.contains("revert") {
            return true;
        }
        if OF_THE_NODE.contains(code) || allowance(&message).is_some_and(|gas| gas < LEAST_ALLOWANCE) {
            return false;
        }
        let letters: String = message.chars().filter(char::is_ascii_alphanumeric).collect();
        STOPPED.iter().any(|words| letters.contains(words))
    }
}

/// Parses the gas that a node had for a call that needed more, if the message contains it.
fn allowance(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once("exceeds allowance")?;
    let digits: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("network", &self.network.caip2).finish_non_exhaustive()
    }
}

impl Node {
    /// Constructs a node of `network` at `url`. It sends no request yet.
    pub(crate) fn new(url: &str, network: &'static Network) -> Result<Self, ConfigError> {
        let url = Url::parse(url).map_err(|_| ConfigError::RpcUrl)?;
        Ok(Self { poster: JsonClient::new()?, url, network, proven: AtomicBool::new(false), confirmations: 1 })
    }

    /// Constructs a node with `confirmations`, and checks its chain id in the background. The result is logged.
    pub(crate) fn introduced(url: &str, network: &'static Network, confirmations: u64) -> Result<Arc<Self>, ConfigError> {
        let node = Arc::new(Self::new(url, network)?.with_confirmations(confirmations));
        let request = Arc::clone(&node);
        tokio::spawn(async move {
            match request.prove().await {
                Ok(()) => tracing::info!(network = request.network.caip2, "the node is of the network that payments are made on"),
                Err(error) => tracing::error!(%error, "settlements cannot be looked up on the chain now; it is tried again"),
            }
        });
        Ok(node)
    }

    /// Sets the number of blocks that a settlement needs to count, including its own.
    pub(crate) fn with_confirmations(self, confirmations: u64) -> Self {
        Self { confirmations: confirmations.max(1), ..self }
    }

    /// Returns the number of blocks that a settlement needs.
    pub(crate) fn confirmations(&self) -> u64 {
        self.confirmations
    }

    /// Returns the network that it must belong to.
    pub(crate) fn network(&self) -> &'static Network {
        self.network
    }

    /// Checks its chain id.
    pub(crate) async fn prove(&self) -> Result<(), RpcError> {
        self.proven.store(false, Ordering::Relaxed);
        let chain: U256 = self.question("eth_chainId", json!([])).await?;
        if self.network.chain_id().map(U256::from) != Some(chain) {
            return Err(RpcError::WrongChain(chain, self.network.caip2));
        }
        self.proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Calls a method after the chain id is confirmed.
    pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: Value) -> Result<T, RpcError> {
        self.proven().await?;
        self.question(method, params).await
    }

    /// Checks its chain id unless it is already confirmed.
    pub(crate) async fn proven(&self) -> Result<(), RpcError> {
        match self.proven.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.prove().await,
        }
    }

    pub(crate) async fn block(&self, at: BlockTag) -> Result<Block, RpcError> {
        let which = match at {
            BlockTag::Latest => json!("latest"),
            BlockTag::Safe => json!("safe"),
            BlockTag::Number(number) => json!(format!("{number:#x}")),
            BlockTag::Hash(hash) => return self.ask("eth_getBlockByHash", json!([hash, false])).await,
        };
        self.ask("eth_getBlockByNumber", json!([which, false])).await
    }

    /// Simulates a call of `to` on the state after a block, and returns the result.
    pub(crate) async fn call(&self, to: &str, data: &[u8], at: BlockTag) -> Result<Bytes, RpcError> {
        self.called(json!({ "to": to, "data": Bytes::copy_from_slice(data) }), at).await
    }

    /// Simulates a call of a payer's contract with the maximum gas of a settlement, which bounds the node's work.
    pub(crate) async fn call_payer(&self, to: &str, data: &[u8], at: BlockTag) -> Result<Bytes, RpcError> {
        let gas = U64::from(CONTRACT_GAS);
        self.called(json!({ "to": to, "data": Bytes::copy_from_slice(data), "gas": gas }), at).await
    }

    async fn called(&self, call: Value, at: BlockTag) -> Result<Bytes, RpcError> {
        let which = match at {
            BlockTag::Latest => json!("latest"),
            BlockTag::Safe => json!("safe"),
            BlockTag::Number(number) => json!(format!("{number:#x}")),
            BlockTag::Hash(hash) => json!({ "blockHash": hash, "requireCanonical": true }),
        };
        self.ask("eth_call", json!([call, which])).await
    }

    async fn question<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: Value) -> Result<T, RpcError> {
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (status, mut body) = match self.poster.post(self.url.as_str(), HeaderMap::new(), &question, TIMEOUT).await {
            HttpAnswer::Json(status, body) => (status, body),
            HttpAnswer::Unsent(reason) => return Err(self.unavailable(RpcError::Unsent(reason))),
            HttpAnswer::Nothing(reason) => return Err(self.unavailable(RpcError::Silent(reason))),
            HttpAnswer::TooLarge(reason) => return Err(RpcError::TooLarge(reason)),
        };
        let unclear = |text: &str| RpcError::Unclear { method, status, message: cut(text, MAX_MESSAGE) };
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(match (error["code"].as_i64(), error["message"].as_str()) {
                (Some(code), Some(message)) => {
                    let data = error["data"].as_str().and_then(|data| data.parse().ok());
                    RpcError::Said { method, status, code, message: cut(message, MAX_MESSAGE), data }
                }
                _ => unclear(&error.to_string()),
            });
        }
        let Some(result) = body.get_mut("result").map(Value::take).filter(|_| status.is_success()) else {
            return Err(unclear(body["message"].as_str().unwrap_or("neither a result nor an error")));
        };
        serde_json::from_value(result).map_err(|_| unclear("the result is not what it has to be"))
    }

    fn unavailable(&self, error: RpcError) -> RpcError {
        self.proven.store(false, Ordering::Relaxed);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(code: i64, message: &str) -> RpcError {
        RpcError::Said { method: "eth_call", status: StatusCode::OK, code, message: message.to_owned(), data: None }
    }

    #[test]
    fn code_that_cannot_run_to_its_end_is_the_contracts_no() {
        for (code, message) in [
            (3, "execution reverted: rate limit exceeded"),
            (-32000, "execution reverted: exceeds allowance (1)"),
            (-32000, "out of gas"),
            (-32000, "gas required exceeds allowance (50000000)"),
            (-32003, "Out of gas: gas required exceeds allowance: 1000000"),
            (-32000, "invalid opcode: INVALID"),
            (-32603, "EVM error InvalidFEOpcode"),
            (-32603, "EVM error OutOfGas"),
            (-32000, "invalid jump destination"),
            (-32000, "stack limit reached 1024 (1023)"),
            (-32000, "write protection"),
            (-32015, "VM execution error."),
            (-32603, "Execution halted"),
        ] {
            assert!(says(code, message).reverted(), "{code} {message}");
        }
    }

    #[test]
    fn errors_of_the_node_are_no_contracts() {
        for (code, message) in [
            (-32601, "the method eth_call does not exist"),
            (-32603, "Internal error"),
            (-32005, "rate limited: out of gas credits"),
            (429, "Too Many Requests"),
            (-32000, "header not found"),
            (-32000, "missing trie node"),
            (-32000, "insufficient funds for gas * price + value: balance 0"),
            (-32000, "gas required exceeds allowance (21000)"),
        ] {
            assert!(!says(code, message).reverted(), "{code} {message}");
        }
        assert!(!RpcError::Silent("out of gas".to_owned()).reverted());
    }
}
