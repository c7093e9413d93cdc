//! Reads the balance of an address from the node that the profile names.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use tollhouse_money::Asset;

use crate::base::{Error, Exit, Result, bytes, connecting};

/// Longest wait for a node's response.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of bytes of its response.
const MAX_BYTES: usize = 64 << 10;

/// Returns the balance of `address` in the token's smallest unit.
///
/// # Errors
///
/// The node does not respond, or is on another chain. The message leaves out the node's URL, which may contain a key.
pub(crate) async fn balance(node: &Url, token: &Asset, address: &str) -> Result<U256> {
    let client = connecting(node, None)?;
    let chain = ask(&client, node, "eth_chainId", json!([])).await?;
    if chain.to_string() != token.network.chain_id().unwrap_or_default().to_string() {
        return Err(Error::refused(format!("the profile's node is on chain {chain}, not on {}", token.network.caip2)));
    }
    let address: Address = address.parse().map_err(|_| Error::refused("the key has no address"))?;
    // ABI call of `balanceOf(address)`.
    let call = format!("0x70a08231{:0>64}", hex::encode(address));
    ask(&client, node, "eth_call", json!([{ "to": token.address, "data": call }, "latest"])).await
}

async fn ask(client: &Client, node: &Url, method: &str, params: Value) -> Result<U256> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let away = || Error::new(Exit::Unavailable, "the profile's node does not answer");
    let response = client.post(node.clone()).timeout(TIMEOUT).json(&request).send().await.map_err(|_| away())?;
    let reported: Value = serde_json::from_slice(&bytes(response, MAX_BYTES).await.map_err(|_| away())?).unwrap_or_default();
    let digits = reported["result"].as_str().and_then(|hex| hex.strip_prefix("0x")).filter(|digits| (1..=64).contains(&digits.len()));
    let read = digits.and_then(|digits| U256::from_str_radix(digits, 16).ok());
    read.ok_or_else(|| Error::refused(format!("the profile's node does not answer `{method}`")))
}
