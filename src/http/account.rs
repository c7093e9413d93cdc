//! `/dev/faucet`: the play money of the simulated ledger.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    endpoints::{Body, Subject},
    page::QueryParams,
};
use crate::{
    front::{Code, Fault, body::SMALL_BODY_BYTES},
    money::Ledger,
    tool::MicroUsd,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Faucet {
    address: String,
    amount_usd: MicroUsd,
}

impl Subject for Faucet {
    const CODE: Code = Code::InvalidMember;
}

/// `POST /dev/faucet`: play money, where the facilitator is the simulated one.
pub(super) async fn faucet(
    State(ledger): State<Option<Arc<Ledger>>>,
    Body(faucet): Body<Faucet, SMALL_BODY_BYTES>,
) -> Result<Json<Value>, Fault> {
    let ledger = ledger.ok_or_else(no_ledger)?;
    let balance = ledger.faucet(&faucet.address, faucet.amount_usd).await?;
    Ok(Json(json!({ "ok": true, "simulated": true, "address": faucet.address, "balanceUsd": balance })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    address: String,
}

/// `GET /dev/faucet?address=…`: what an address has.
pub(super) async fn balance(
    State(ledger): State<Option<Arc<Ledger>>>,
    QueryParams(query): QueryParams<Address>,
) -> Result<Json<Value>, Fault> {
    let ledger = ledger.ok_or_else(no_ledger)?;
    let balance = ledger.told_balance(&query.address).await?;
    Ok(Json(json!({ "ok": true, "simulated": true, "address": query.address, "balanceUsd": balance })))
}

fn no_ledger() -> Fault {
    Fault::new(Code::NotFound, "there is no faucet: this host settles with a real facilitator")
}
