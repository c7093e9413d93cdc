//! A scripted node of a chain, on a real socket.

use alloy_primitives::B256;
use axum::{Json, Router, extract::State as Shared, http::StatusCode, response::IntoResponse as _, response::Response, routing::post};
use tokio::sync::watch;

use super::*;
use crate::{facilitator::chain::node::MAX_LARGE_ANSWER_BYTES, x402::permit2};

pub(super) const TRANSACTION: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";
const USED: &str = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const CANCELED: &str = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";
pub(super) const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// Selectors of `balanceOf(address)`, `allowance(address,address)` and `PERMIT2()`.
const BALANCE_OF: &str = "0x70a08231";
const ALLOWANCE: &str = "0xdd62ed3e";
const PERMIT2: &str = "0x6afdd850";
/// Selector of `isValidSignature(bytes32,bytes)`.
pub(super) const IS_VALID_SIGNATURE: &str = "0x1626ba7e";

const BLOCK_SECS: u64 = 2;

/// The state of the chain and its node. Requests concern nonce 1 of payer 1.
#[derive(Clone)]
pub(super) struct Chain {
    pub(super) id: u64,
    /// Number of the newest block that will stay. Its time is that of [`Chain::at`].
    pub(super) safe: u64,
    pub(super) at: Timestamp,
    /// The block in which the nonce was spent, and the logs.
    pub(super) spent: Option<(u64, Vec<Value>)>,
    /// The first block that the node keeps.
    pub(super) pruned_before: u64,
    /// The first block whose state the node keeps.
    pub(super) state_from: u64,
    /// `to` and `input` of the transaction that spent the nonce.
    pub(super) called: Option<Value>,
    /// Maximum number of blocks per request for events.
    pub(super) max_span: u64,
    /// Number of blocks whose events exceed the maximum size of an answer.
    pub(super) heavy_span: u64,
    /// A block whose events exceed the maximum size of every answer.
    pub(super) heavy_block: Option<u64>,
    /// Number of transactions in each block.
    pub(super) transactions: usize,
    /// A block that the node cannot read.
    pub(super) broken_block: Option<u64>,
    /// A fixed answer to a method, whatever the state of the chain.
    pub(super) instead: Option<(&'static str, Value)>,
    /// The error of every simulation of a payer's settlement or contract. Other calls succeed.
    pub(super) provoked: Option<Value>,
    /// The code of payers.
    pub(super) code: &'static str,
    /// The payer's balance of the token.
    pub(super) balance: u64,
    /// The part of it that Permit2 may move.
    pub(super) allowance: u64,
    /// Whether the contract for permits exists.
    pub(super) proxy: bool,
    /// The signer's balance for gas.
    pub(super) wei: u128,
    /// Number of the signer's mined transactions.
    pub(super) used: u64,
    /// Number of the signer's pending transactions of earlier runs.
    pub(super) remaining: u64,
    /// Transactions that were sent and are pending.
    pub(super) pool: Vec<Bytes>,
    /// Maximum number of transactions that it accepts.
    pub(super) max_sent: usize,
    /// Hash of the transaction in the newest block that moved the money.
    pub(super) mined: Option<B256>,
    pub(super) mined_in: u64,
    pub(super) gas_used: u64,
    pub(super) reverts: bool,
    /// A fixed answer to a sent transaction, whatever becomes of it.
    pub(super) sending: Option<Sending>,
}

/// A gateway's answer to a transaction.
#[derive(Clone)]
pub(super) struct Sending {
    /// Whether the transaction enters the pool.
    pub(super) keeps: bool,
    pub(super) status: u16,
    pub(super) body: String,
}

impl Chain {
    /// Returns a chain of 100,000 blocks without transactions, the last of which is of that time.
    pub(super) fn at(at: Timestamp) -> Self {
        Self {
            id: 84_532,
            safe: 100_000,
            at,
            spent: None,
            pruned_before: 0,
            state_from: 0,
            called: None,
            max_span: 100_000,
            heavy_span: u64::MAX,
            heavy_block: None,
            transactions: 0,
            broken_block: None,
            instead: None,
            provoked: None,
            code: "0x",
            balance: PRICE.0,
            allowance: 0,
            proxy: false,
            wei: 1_000_000_000_000_000_000,
            used: 7,
            remaining: 0,
            pool: vec![],
            max_sent: usize::MAX,
            mined: None,
            mined_in: 100_051,
            gas_used: 60_000,
            reverts: false,
            sending: None,
        }
    }

    pub(super) fn spending(self, block: u64, logs: Vec<Value>) -> Self {
        Self { spent: Some((block, logs)), ..self }
    }

    fn block(&self, number: u64) -> Value {
        if number < self.pruned_before || number > self.safe + 50 {
            return Value::Null;
        }
        let secs = self.at.as_secs() + number * BLOCK_SECS - self.safe * BLOCK_SECS;
        let (number, hash) = (format!("{number:#x}"), format!("0x{number:064x}"));
        let transactions = vec![TRANSACTION; self.transactions];
        json!({ "number": number, "hash": hash, "timestamp": format!("{secs:#x}"), "baseFeePerGas": "0x64", "transactions": transactions })
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let number = |text: &Value| match text.as_str().unwrap() {
            "safe" => self.safe,
            "latest" => self.safe + 50,
            hex => u64::from_str_radix(hex.trim_start_matches("0x").trim_start_matches('0'), 16).unwrap_or(0),
        };
        if let Some((instead, answer)) = &self.instead
            && *instead == method
        {
            return if answer["message"].is_string() { Err(answer.clone()) } else { Ok(answer.clone()) };
        }
        let data = params[0]["data"].as_str().unwrap_or_default();
        let runs_code = (method == "eth_estimateGas" && !data.starts_with(BALANCE_OF)) || data.starts_with(IS_VALID_SIGNATURE);
        if let Some(error) = self.provoked.as_ref().filter(|_| runs_code) {
            return Err(error.clone());
        }
        Ok(match method {
            "eth_chainId" => json!(format!("{:#x}", self.id)),
            "eth_getBlockByNumber" if self.broken_block == Some(number(&params[0])) => {
                return Err(json!({ "code": -32000, "message": "header not found" }));
            }
            "eth_getBlockByNumber" => self.block(number(&params[0])),
            "eth_call" if params[0]["data"].as_str().unwrap().starts_with(BALANCE_OF) => json!(format!("{:#066x}", self.balance)),
            "eth_call" if params[0]["data"].as_str().unwrap().starts_with(ALLOWANCE) => json!(format!("{:#066x}", self.allowance)),
            "eth_call" if params[0]["data"] == PERMIT2 && self.proxy => json!(word(&permit2::PERMIT2.to_string())),
            "eth_call" if params[0]["data"] == PERMIT2 => json!("0x"),
            "eth_call" => {
                let at = if params[1].is_string() { number(&params[1]) } else { number(&params[1]["blockHash"]) };
                if at < self.state_from {
                    return Err(json!({ "code": -32000, "message": "missing trie node" }));
                }
                let spent = self.spent.as_ref().is_some_and(|(block, _)| *block <= at);
                json!(format!("0x{:064x}", u8::from(spent)))
            }
            "eth_getLogs" => {
                let (from, to) = (number(&params[0]["fromBlock"]), number(&params[0]["toBlock"]));
                if to - from >= self.max_span {
                    return Err(json!({ "code": -32005, "message": "query exceeds max block range" }));
                }
                if to - from >= self.heavy_span {
                    return Ok(json!(vec!["x".repeat(300); 1_000]));
                }
                if self.heavy_block.is_some_and(|heavy| (from..=to).contains(&heavy)) {
                    return Ok(json!("x".repeat(MAX_LARGE_ANSWER_BYTES)));
                }
                let request = |log: &&Value| match &params[0]["topics"][0] {
                    Value::Array(any) => any.contains(&log["topics"][0]),
                    Value::Null => true,
                    _ => {
                        let (wanted, topics) = (params[0]["topics"].as_array().unwrap(), log["topics"].as_array().unwrap());
                        wanted.len() == topics.len() && wanted.iter().zip(topics).all(|(wanted, topic)| wanted.is_null() || wanted == topic)
                    }
                };
                let within = self.spent.iter().filter(|(block, _)| (from.max(self.pruned_before)..=to).contains(block));
                json!(within.flat_map(|(_, logs)| logs.iter().filter(request)).collect::<Vec<_>>())
            }
            "eth_blockNumber" => json!(format!("{:#x}", self.safe + 50)),
            "eth_getTransactionCount" if params[1] == "pending" => json!(format!("{:#x}", self.used + self.remaining)),
            "eth_getTransactionCount" => json!(format!("{:#x}", self.used)),
            "eth_maxPriorityFeePerGas" | "eth_gasPrice" => json!("0x64"),
            "eth_getBalance" => json!(format!("{:#x}", self.wei)),
            "eth_estimateGas" => json!("0xea60"),
            "eth_getCode" => json!(self.code),
            "eth_getTransactionByHash" if self.pool.iter().any(|raw| params[0] == json!(alloy_primitives::keccak256(raw))) => {
                json!({ "hash": params[0], "nonce": format!("{:#x}", self.used) })
            }
            "eth_getTransactionByHash" => match &self.called {
                Some(called) if params[0] == TRANSACTION => {
                    json!({ "hash": TRANSACTION, "to": called["to"], "input": called["input"], "nonce": "0x1" })
                }
                _ => Value::Null,
            },
            "eth_sendRawTransaction" if self.pool.len() == self.max_sent => {
                return Err(json!({ "code": -32000, "message": "replacement transaction underpriced" }));
            }
            "eth_sendRawTransaction" => {
                let raw: Bytes = params[0].as_str().unwrap().parse::<alloy_primitives::Bytes>().unwrap().0;
                if self.pool.contains(&raw) {
                    return Err(json!({ "code": -32000, "message": "already known" }));
                }
                self.pool.push(raw.clone());
                json!(alloy_primitives::keccak256(raw))
            }
            "eth_getTransactionReceipt" if self.spent.is_none() => match self.mined {
                Some(hash) if params[0] == json!(hash) => {
                    let logs: Vec<_> = paid(PAY_TO, PRICE.0)
                        .into_iter()
                        .map(|mut log| {
                            log["transactionHash"] = json!(hash);
                            log
                        })
                        .collect();
                    let (status, logs) = if self.reverts { ("0x0", vec![]) } else { ("0x1", logs) };
                    let (block, gas) = (format!("{:#x}", self.mined_in), format!("{:#x}", self.gas_used));
                    json!({ "transactionHash": hash, "status": status, "blockNumber": block, "logs": logs, "gasUsed": gas })
                }
                _ => Value::Null,
            },
            "eth_getTransactionReceipt" => match &self.spent {
                Some((block, logs)) if params[0] == TRANSACTION => {
                    json!({ "transactionHash": TRANSACTION, "status": "0x1", "blockNumber": format!("{block:#x}"), "logs": logs })
                }
                _ => Value::Null,
            },
            other => panic!("{other} is not asked"),
        })
    }
}

/// A node, and the requests that it got.
pub(super) struct Node {
    pub(super) url: String,
    pub(super) chain: Mutex<Chain>,
    pub(super) requested: Mutex<Vec<Value>>,
    /// A method whose requests are not answered for now.
    pub(super) held: watch::Sender<Option<&'static str>>,
}

impl Node {
    pub(super) async fn of(chain: Chain) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let node = Arc::new(Self { url, chain: Mutex::new(chain), requested: Mutex::default(), held: watch::Sender::default() });
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&node));
        tokio::spawn(async move { axum::serve(listener, router).await });
        node
    }

    pub(super) fn times(&self, method: &str) -> usize {
        self.requested.lock().unwrap().iter().filter(|question| question["method"] == method).count()
    }
}

async fn answer(Shared(node): Shared<Arc<Node>>, Json(question): Json<Value>) -> Response {
    node.requested.lock().unwrap().push(question.clone());
    node.held.subscribe().wait_for(|held| held.is_none_or(|held| question["method"] != held)).await.unwrap();
    let sending = node.chain.lock().unwrap().sending.clone().filter(|_| question["method"] == "eth_sendRawTransaction");
    if let Some(Sending { keeps, status, body }) = sending {
        if keeps {
            _ = node.chain.lock().unwrap().answer("eth_sendRawTransaction", &question["params"]);
        }
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    let answer = {
        let mut chain = node.chain.lock().unwrap();
        chain.answer(question["method"].as_str().unwrap(), &question["params"])
    };
    Json(match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }),
    })
    .into_response()
}

pub(super) fn word(address: &str) -> String {
    format!("0x{:0>64}", address.trim_start_matches("0x").to_lowercase())
}

pub(super) fn log(index: u32, topics: &[&str], data: &str) -> Value {
    let asset = ASSETS[0].address.to_lowercase();
    json!({ "address": asset, "topics": topics, "data": data, "logIndex": format!("{index:#x}"), "transactionHash": TRANSACTION, "removed": false })
}

/// Returns the logs of a transaction that uses the nonce to pay `to`, after another one of the same payer.
pub(super) fn paid(to: &str, value: u64) -> Vec<Value> {
    let (from, nonce) = (word(&Payer::new(1).address()), format!("0x{:064x}", 1));
    vec![
        log(6, &[TRANSFER, &from, &word(PAY_TO)], &format!("0x{:064x}", PRICE.0)),
        log(7, &[USED, &from, &nonce], "0x"),
        log(8, &[TRANSFER, &from, &word(to)], &format!("0x{value:064x}")),
    ]
}

pub(super) fn canceled() -> Vec<Value> {
    vec![log(3, &[CANCELED, &word(&Payer::new(1).address()), &format!("0x{:064x}", 1)], "0x")]
}
