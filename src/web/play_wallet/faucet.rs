//! Funds play wallets from the host's faucet.

use serde_json::{Value, json};

use super::PlayWallet;
use crate::visitor::{ApiRefusal, Visitor, with_query};

/// Ensures that the wallet has this many dollars of the accepted token. Returns a text if that
/// fails.
pub(crate) async fn fund(visitor: &Visitor, wallet: &PlayWallet, accepted: &Value, price: &Value) -> Result<(), String> {
    let (address, stranger) = (wallet.address().to_string(), visitor.unsigned());
    let (network, asset) = (accepted["network"].as_str().unwrap_or_default(), accepted["asset"].as_str().unwrap_or_default());
    let asks = with_query("/dev/faucet", [("address", &*address), ("network", network), ("asset", asset)]);
    let balance = stranger.get(&asks).await.map_err(|refused| sentence(&refused))?;
    if balance["balanceUsd"].as_f64() >= price.as_f64() {
        return Ok(());
    }
    let amount = if price.as_f64() > Some(1.0) { price.clone() } else { json!(1) };
    let requested = json!({ "address": address, "amountUsd": amount, "network": network, "asset": asset });
    stranger.fetch_about("/dev/faucet", &requested).await.map(|_| ()).map_err(|refused| sentence(&refused))
}

fn sentence(refused: &ApiRefusal) -> String {
    refused.code().map_or("the host failed", |code| code.row().sentence).to_owned()
}
