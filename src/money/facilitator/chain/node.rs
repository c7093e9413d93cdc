//! A JSON-RPC node of the network. Its answers count only after it has confirmed the right chain id.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use reqwest::{StatusCode, Url, header::HeaderMap};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::boxed;

pub(crate) use super::rpc_error::RpcError;
use super::{
    events::TxReceipt,
    recent_reads::{RateRefusals, RecentReads},
};
use crate::{
    Asset, ConfigError, Network,
    facilitator::{
        json_client::{HttpAnswer, JsonClient, MAX_ANSWER_BYTES, web_url},
        reason::cut,
    },
};

/// Timeout of a request. Default: 10 s.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of an answer that strangers can make large, in bytes: a block, or the events of other people's
/// transactions. A block lists its transactions: 19,000 of them, which need 400 million gas, have 1.3 MB.
pub(crate) const MAX_LARGE_ANSWER_BYTES: usize = 4 << 20;

/// Maximum gas that a payer's contract can use in a call, and a settlement in its transaction.
pub(crate) const CONTRACT_GAS: u64 = 1_000_000;

/// Methods whose answer is a block.
const BLOCK_METHODS: &[&str] = &["eth_getBlockByNumber", "eth_getBlockByHash"];

/// How long a balance or an allowance is remembered.
const AMOUNT_TTL: Duration = Duration::from_secs(1);

/// How long the node need not be asked again for the code of an address without code. A contract wallet that is created
/// meanwhile pays after this time.
const CODELESS_TTL: Duration = Duration::from_secs(30);

/// Maximum length of a node's message in the log, in characters.
const MAX_MESSAGE: usize = 200;

/// A node at a URL. The URL is secret, because it contains the operator's key.
pub struct Node {
    client: JsonClient,
    url: Url,
    network: &'static Network,
    /// Whether it has confirmed its chain id since it was last unreachable. After that it may be another node.
    proven: AtomicBool,
    /// Number of blocks that a settlement needs to count, including its own.
    confirmations: u64,
    rate_refusals: RateRefusals,
    /// Addresses that had no code recently.
    codeless: RecentReads<Address, ()>,
    /// Balances and allowances, by token and call data.
    amounts: RecentReads<(&'static str, Vec<u8>), u128>,
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

impl BlockTag {
    /// Returns it as a parameter of a call (EIP-1898).
    fn parameter(self) -> Value {
        match self {
            Self::Latest => json!("latest"),
            Self::Safe => json!("safe"),
            Self::Number(number) => json!(U64::from(number)),
            Self::Hash(hash) => json!({ "blockHash": hash, "requireCanonical": true }),
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("network", &self.network.caip2).finish_non_exhaustive()
    }
}

impl Node {
    /// Constructs a node of `network` at `url`. It sends no request yet.
    pub(crate) fn new(url: &str, network: &'static Network) -> Result<Self, ConfigError> {
        Ok(Self {
            client: JsonClient::new()?,
            url: Self::parse_url(url)?,
            network,
            proven: AtomicBool::new(false),
            confirmations: 1,
            rate_refusals: RateRefusals::new(),
            codeless: RecentReads::new(CODELESS_TTL),
            amounts: RecentReads::new(AMOUNT_TTL),
        })
    }

    /// Parses the URL of a node.
    pub(crate) fn parse_url(url: &str) -> Result<Url, ConfigError> {
        web_url(url).ok_or(ConfigError::RpcUrl)
    }

    /// Constructs a node with `confirmations`, and checks its chain id in the background. The result is logged.
    pub(crate) fn introduced(url: &str, network: &'static Network, confirmations: u64) -> Result<Arc<Self>, ConfigError> {
        let node = Arc::new(Self::new(url, network)?.with_confirmations(confirmations));
        let request = Arc::clone(&node);
        tokio::spawn(async move {
            match request.prove().await {
                Ok(()) => tracing::info!(network = request.network.caip2, "the node serves the network that payments are made on"),
                Err(error) => tracing::error!(%error, "settlements cannot be looked up on the chain now; the host will try again"),
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
    #[boxed]
    pub(crate) async fn prove(&self) -> Result<(), RpcError> {
        self.proven.store(false, Ordering::Relaxed);
        let chain: U256 = self.request("eth_chainId", json!([]), MAX_ANSWER_BYTES).await?;
        if self.network.chain_id().map(U256::from) != Some(chain) {
            return Err(RpcError::WrongChain(chain, self.network.caip2));
        }
        self.proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Calls a method after the chain id is confirmed.
    pub(crate) async fn rpc<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: Value) -> Result<T, RpcError> {
        let max_bytes = if BLOCK_METHODS.contains(&method) { MAX_LARGE_ANSWER_BYTES } else { MAX_ANSWER_BYTES };
        self.rpc_for(method, params, max_bytes).await
    }

    /// Like [`Self::rpc`], with an answer of up to `max_bytes`.
    pub(crate) async fn rpc_for<T: for<'de> Deserialize<'de>>(
        &self,
        method: &'static str,
        params: Value,
        max_bytes: usize,
    ) -> Result<T, RpcError> {
        self.proven().await?;
        self.request(method, params, max_bytes).await
    }

    /// Checks its chain id unless it is already confirmed.
    pub(crate) async fn proven(&self) -> Result<(), RpcError> {
        if self.proven.load(Ordering::Relaxed) { Ok(()) } else { self.prove().await }
    }

    pub(crate) async fn block(&self, at: BlockTag) -> Result<Block, RpcError> {
        match at {
            BlockTag::Hash(hash) => self.rpc("eth_getBlockByHash", json!([hash, false])).await,
            at => self.rpc("eth_getBlockByNumber", json!([at.parameter(), false])).await,
        }
    }

    /// Returns the receipt of a transaction, or `None` if it is not in a block.
    pub(crate) async fn receipt(&self, hash: B256) -> Result<Option<TxReceipt>, RpcError> {
        self.rpc("eth_getTransactionReceipt", json!([hash])).await
    }

    /// Returns the number of an address's transactions up to the block `latest` or `pending`.
    pub(crate) async fn tx_count(&self, address: Address, block: &str) -> Result<u64, RpcError> {
        Ok(self.rpc::<U64>("eth_getTransactionCount", json!([address, block])).await?.to())
    }

    /// Simulates a call of `to` on the state after a block, and returns the result.
    pub(crate) async fn call(&self, to: &str, data: &[u8], at: BlockTag) -> Result<Bytes, RpcError> {
        self.called(json!({ "to": to, "data": Bytes::copy_from_slice(data) }), at).await
    }

    /// Simulates a call of a payer's contract with the maximum gas of a settlement, which bounds the node's work.
    pub(crate) async fn call_payer(&self, to: &str, data: &[u8], at: BlockTag) -> Result<Bytes, RpcError> {
        self.called(json!({ "to": to, "data": Bytes::copy_from_slice(data), "gas": U64::from(CONTRACT_GAS) }), at).await
    }

    /// Returns whether an address has code now: a contract, or a delegation by its key (EIP-7702).
    pub(crate) async fn has_code(&self, address: Address) -> Result<bool, RpcError> {
        let code: Bytes = self.rpc("eth_getCode", json!([address, "latest"])).await?;
        match code.is_empty() {
            true => self.codeless.put(address, ()),
            false => self.codeless.forget(&address),
        }
        Ok(!code.is_empty())
    }

    /// Like [`Self::has_code`], but does not ask the node again for an address that recently had no code.
    pub(crate) async fn had_code(&self, address: Address) -> Result<bool, RpcError> {
        if self.codeless.get(&address).is_some() { Ok(false) } else { self.has_code(address).await }
    }

    /// Reads an amount from a token as of the newest block, or within the last second. `None` if the call fails.
    pub(crate) async fn amount(&self, asset: &'static Asset, question: Vec<u8>) -> Option<u128> {
        let key = (asset.address, question);
        if let Some(amount) = self.amounts.get(&key) {
            return Some(amount);
        }
        let answer = self.call(asset.address, &key.1, BlockTag::Latest).await.ok()?;
        let amount = U256::try_from_be_slice(&answer).filter(|_| answer.len() == 32)?.saturating_to();
        self.amounts.put(key, amount);
        Some(amount)
    }

    /// Forgets an amount, because a settlement changes it.
    pub(crate) fn forget_amount(&self, asset: &'static Asset, question: Vec<u8>) {
        self.amounts.forget(&(asset.address, question));
    }

    /// Returns the number of requests that the node refused in the last minute because too many were sent.
    pub(crate) fn rate_refusals(&self) -> u64 {
        self.rate_refusals.last_minute()
    }

    #[boxed]
    async fn called(&self, call: Value, at: BlockTag) -> Result<Bytes, RpcError> {
        self.rpc("eth_call", json!([call, at.parameter()])).await
    }

    async fn request<T: for<'de> Deserialize<'de>>(&self, method: &'static str, params: Value, max_bytes: usize) -> Result<T, RpcError> {
        let answered = self.exchange(method, params, max_bytes).await;
        let result = answered.and_then(|(status, result)| {
            serde_json::from_value(result).map_err(|_| unclear(method, status, "the result has an unexpected form"))
        });
        if result.as_ref().is_err_and(RpcError::is_rate_refusal) {
            self.rate_refusals.add();
        }
        result
    }

    /// Returns the result of a method, and the status of the answer.
    #[boxed]
    async fn exchange(&self, method: &'static str, params: Value, max_bytes: usize) -> Result<(StatusCode, Value), RpcError> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (status, mut body) = match self.client.post_for(self.url.as_str(), HeaderMap::new(), &request, TIMEOUT, max_bytes).await {
            HttpAnswer::Json(status, body) => (status, body),
            HttpAnswer::Unsent(reason) => return Err(self.unavailable(RpcError::Unsent(reason))),
            HttpAnswer::Nothing(reason) => return Err(self.unavailable(RpcError::Silent(reason))),
            HttpAnswer::TooLarge(reason) => return Err(RpcError::TooLarge { method, reason }),
        };
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(match (error["code"].as_i64(), error["message"].as_str()) {
                (Some(code), Some(message)) => {
                    let data = error["data"].as_str().and_then(|data| data.parse().ok());
                    RpcError::Answered { method, status, code, message: cut(message, MAX_MESSAGE), data }
                }
                _ => unclear(method, status, &error.to_string()),
            });
        }
        let Some(result) = body.get_mut("result").map(Value::take).filter(|_| status.is_success()) else {
            return Err(unclear(method, status, body["message"].as_str().unwrap_or("neither a result nor an error")));
        };
        Ok((status, result))
    }

    fn unavailable(&self, error: RpcError) -> RpcError {
        self.proven.store(false, Ordering::Relaxed);
        error
    }
}

fn unclear(method: &'static str, status: StatusCode, text: &str) -> RpcError {
    RpcError::Unclear { method, status, message: cut(text, MAX_MESSAGE) }
}
