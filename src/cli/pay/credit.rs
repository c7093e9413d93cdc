//! Pays with a developer credit, at a price that was quoted and checked. An idempotency key makes sure that the credit
//! is debited once.

use serde_json::{Value, json};
use tollhouse_base::clock::Timestamp;
use tollhouse_money::PaymentId;
use tollhouse_tool::MicroUsd;

use super::{draft::random, record::SentPayment, target::PaymentTarget};
use crate::base::{
    client::CredentialChoice,
    error::{Error, Result},
    global::Role,
    session::Session,
};

/// Longest duration of a call that a credit pays for: the longest that any tool may run.
const TIMEOUT_SECS: u64 = 300;

/// Gets the price that the call will be debited, and returns the request to send.
///
/// # Errors
///
/// The address is of another host, which must not see the credit. There is no credit. The host quotes no price.
pub(crate) async fn by_credit(session: &Session, aim: &PaymentTarget, now: Timestamp) -> Result<SentPayment> {
    let (Some(slug), true) = (&aim.slug, aim.own) else {
        return Err(Error::usage(format!("a credit pays at its own host alone, and {} is none of its endpoints", aim.name)));
    };
    token(session)?;
    let client = &session.client;
    let about = client.get(&["ai", "credits"]).by(CredentialChoice::Holder).query("limit", 1).send().await?.body;
    let quote = client.post(&["ai", "quote"]).by(CredentialChoice::Everyone).json(&json!({ "slug": slug })).send().await?.body;
    let quote = if quote["quote"].is_object() { &quote["quote"] } else { &quote };
    let (credit, quote_id) = (text(&about["creditId"])?, text(&quote["quoteId"])?);
    let price = quote["totalUsd"].as_f64().and_then(|usd| MicroUsd::from_usd(usd).ok()).ok_or_else(unreadable)?;
    let key = hex::encode(random::<16>()?);
    let headers = vec![("Idempotency-Key".to_owned(), key.clone()), ("X-Quote-Id".to_owned(), quote_id.to_owned())];
    let sent = SentPayment::new(aim, PaymentId::of(&["credit", credit, &key]), now, headers);
    Ok(SentPayment { by_credit: true, usd: price, timeout_secs: TIMEOUT_SECS, ..sent })
}

/// Returns the header that presents the credit. The token is kept in the credentials file only.
///
/// # Errors
///
/// There is no credit.
pub(crate) fn token(session: &Session) -> Result<(String, String)> {
    match session.client.credential(CredentialChoice::Holder)? {
        Some((Role::Credit, token)) => Ok((Role::Credit.header().to_owned(), token.expose().to_owned())),
        Some(_) | None => {
            Err(Error::credential("there is no developer credit to pay with").hint("tollhouse login, or set TOLLHOUSE_CREDIT"))
        }
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(unreadable)
}

fn unreadable() -> Error {
    Error::refused("the host quotes no price that reads")
}
