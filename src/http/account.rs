//! `/dev/faucet`: play money on the simulated ledger.

use serde::Deserialize;
use tollhouse_api::{FaucetRequest, SimulatedBalance, True};
use tollhouse_front::{ApiError, Code, QueryParams, body::SMALL_BODY_BYTES};
use tollhouse_money::{Asset, Ledger, Network};
use tollhouse_tool::MicroUsd;

use crate::{Body, Http, Json, JsonResult, Route, State, open};

pub(super) fn routes() -> Vec<Route> {
    let refused = [Code::NotFound, Code::InvalidMember];
    vec![
        open::post("/dev/faucet", "fundAddress", "gives play money, if the simulated ledger settles", faucet)
            .takes("FaucetRequest")
            .answers("SimulatedBalance")
            .fails(&refused),
        open::get("/dev/faucet", "getBalance", "the balance of an address on the simulated ledger", balance)
            .query(&["address", "network", "asset"])
            .answers("SimulatedBalance")
            .fails(&refused),
    ]
}

/// `POST /dev/faucet`: credits play money, if the facilitator is the simulated ledger.
async fn faucet(State(http): State<Http>, Body(faucet): Body<FaucetRequest, SMALL_BODY_BYTES>) -> JsonResult<SimulatedBalance> {
    let ledger = http.ledger.as_deref().ok_or_else(no_ledger)?;
    let asset = asset(ledger, faucet.network.as_deref(), faucet.asset.as_deref())?;
    let balance = ledger.faucet_of(asset, &faucet.address, faucet.amount_usd).await?;
    Ok(balance_json(asset, &faucet.address, balance))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    address: String,
    network: Option<String>,
    asset: Option<String>,
}

/// `GET /dev/faucet?address=…`: returns the balance of an address.
async fn balance(State(http): State<Http>, QueryParams(query): QueryParams<Address>) -> JsonResult<SimulatedBalance> {
    let ledger = http.ledger.as_deref().ok_or_else(no_ledger)?;
    let asset = asset(ledger, query.network.as_deref(), query.asset.as_deref())?;
    let balance = ledger.balance_floor(asset, &query.address).await?;
    Ok(balance_json(asset, &query.address, balance))
}

/// Returns the requested token. Without a network or token, it is the ledger's default token.
fn asset(ledger: &Ledger, network: Option<&str>, asset: Option<&str>) -> Result<&'static Asset, ApiError> {
    let wrong = |pointer: &str, message: &str| ApiError::invalid(Code::InvalidMember, message, pointer);
    let network = match network {
        Some(name) => Network::named(name).ok_or_else(|| wrong("/network", "the network is unknown"))?,
        None => ledger.asset().network,
    };
    match asset {
        Some(name) => Asset::named(network, name).ok_or_else(|| wrong("/asset", "the token is unknown on the network")),
        None if network == ledger.asset().network => Ok(ledger.asset()),
        None => Asset::of(network).next().ok_or_else(|| wrong("/asset", "this host knows no token on the network")),
    }
}

fn balance_json(asset: &Asset, address: &str, balance: MicroUsd) -> Json<SimulatedBalance> {
    Json(SimulatedBalance {
        ok: True,
        simulated: True,
        network: asset.network.caip2.to_owned(),
        asset: asset.address.to_owned(),
        address: address.to_owned(),
        balance_usd: balance,
    })
}

fn no_ledger() -> ApiError {
    ApiError::new(Code::NotFound, "this host has no faucet, because it takes real money")
}
