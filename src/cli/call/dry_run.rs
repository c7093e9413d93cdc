//! Reports what was not paid: a price, or a free answer.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tollhouse_api::{EndpointResponse, Manifest};
use tollhouse_money::payer::Scheme;
use tollhouse_tool::MicroUsd;

use crate::{
    base::{CredentialChoice, Error, Result, Session, line, refusal},
    pay::{ChosenTerms, PaymentLimits, PaymentTarget, Reply, Seller, prove, reason, show, usd},
    show::own,
};

/// Prints the answer to a request without payment, or returns its error.
pub(super) async fn unpaid(seller: &Seller, target: &PaymentTarget, reply: &Reply, include: bool, elapsed: Duration) -> Result {
    if reply.is_success() {
        let written = show::answer(reply, include);
        show::free(&prove(seller, &target.host, None, reply).await, elapsed);
        return written;
    }
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if status.is_redirection() {
        return Err(Error::refused(format!("`{}`: {}", target.name, reason(reply))).hint("if you want that address, call it directly"));
    }
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    if body.as_ref().is_some_and(|body| body["error"]["code"].is_string()) {
        return Err(refusal(status, &reply.headers, body));
    }
    show::answer(reply, include)?;
    Err(Error::refused(format!("`{}` answered {}", target.name, reply.status)))
}

/// Prints what would be paid. Nothing was.
pub(super) async fn dry(
    session: &Session,
    target: &PaymentTarget,
    limits: &PaymentLimits,
    chosen: &ChosenTerms,
    remaining: MicroUsd,
) -> Result {
    let ChosenTerms { ask, token, usd: price } = chosen;
    let (version, simulated) = about(session, target).await;
    let max = if ask.scheme == Scheme::Upto { "up to " } else { "" };
    let money = match simulated {
        true => " (simulated)",
        false if token.network.is_test => " (test money)",
        false => "",
    };
    let body = json!({
        "name": target.name, "version": version, "priceUsd": price, "most": ask.scheme == Scheme::Upto, "symbol": token.symbol,
        "network": token.network.caip2, "asset": token.address, "payTo": ask.pay_to.to_string(), "simulated": simulated,
        "maxUsd": limits.max, "leftTodayUsd": remaining,
    });
    session.out.print(&body, |_| {
        let version = if version.is_empty() { String::new() } else { format!(" {}…", line(&version)) };
        let to = show::short(&ask.pay_to.to_string());
        let where_to = format!("{max}{} {} on {}{money} to {to}", usd(*price), token.symbol, token.network.caip2);
        format!("{}{version}  {where_to}   {}.  Nothing was sent\n", target.name, limits_text(limits, remaining))
    })
}

/// Prints what would be paid by credit. Nothing was.
pub(super) fn dry_by_credit(
    session: &Session,
    target: &PaymentTarget,
    limits: &PaymentLimits,
    price: MicroUsd,
    remaining: MicroUsd,
) -> Result {
    let body = json!({ "name": target.name, "priceUsd": price, "credit": true, "maxUsd": limits.max, "leftTodayUsd": remaining });
    session
        .out
        .print(&body, |_| format!("{}  {} by credit   {}.  Nothing was sent\n", target.name, usd(price), limits_text(limits, remaining)))
}

fn limits_text(limits: &PaymentLimits, remaining: MicroUsd) -> String {
    format!("limit {} a call, {} left today", usd(limits.max), usd(remaining))
}

/// Returns the start of the version that would run, if the host shows it to this user, and whether no real money would
/// move. Both only for the session's own host.
async fn about(session: &Session, target: &PaymentTarget) -> (String, bool) {
    let (Some(slug), true) = (&target.slug, target.own) else { return (String::new(), false) };
    let client = &session.client;
    let record = client.get(&["ai", "endpoints", slug.as_str()]).by(CredentialChoice::Anyone).send::<EndpointResponse>().await;
    let manifest = client.get(&["ai", "manifest"]).by(CredentialChoice::Everyone).send::<Manifest>().await;
    let record = record.ok().and_then(|record| own(record.body));
    let version = record.map(|record| record.version.trim_start_matches("sha256:").chars().take(4).collect());
    let is_simulated = manifest.is_ok_and(|manifest| manifest.body.payment.simulated);
    (version.unwrap_or_default(), is_simulated)
}
