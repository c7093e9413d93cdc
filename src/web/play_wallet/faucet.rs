//! Funds play wallets from the host's faucet.

use serde_json::json;
use tollhouse_api::{PaymentRequirements, SimulatedBalance};
use tollhouse_tool::MicroUsd;

use super::PlayWallet;
use crate::{ApiRefusal, Visitor, with_query};

/// The minimum amount that is funded at once.
const DOLLAR: MicroUsd = MicroUsd(1_000_000);

/// Ensures that the wallet has this many dollars of the accepted token. Returns a text if that
/// fails.
pub(crate) async fn fund(visitor: &Visitor, wallet: &PlayWallet, accepted: &PaymentRequirements, price: MicroUsd) -> Result<(), String> {
    let (address, stranger) = (wallet.address().to_string(), visitor.without_session());
    let PaymentRequirements { network, asset, .. } = accepted;
    let source = with_query("/dev/faucet", [("address", &*address), ("network", &**network), ("asset", &**asset)]);
    let balance = stranger.get::<SimulatedBalance>(&source).await.map_err(|refused| sentence(&refused))?;
    if balance.balance_usd >= price {
        return Ok(());
    }
    let request = json!({ "address": address, "amountUsd": price.max(DOLLAR), "network": network, "asset": asset });
    let funded = stranger.post::<SimulatedBalance>("/dev/faucet", &request).await;
    funded.map(|_| ()).map_err(|refused| sentence(&refused))
}

fn sentence(refused: &ApiRefusal) -> String {
    refused.code().map_or("the host failed", |code| code.row().sentence).to_owned()
}
