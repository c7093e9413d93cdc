//! Pays with a developer credit, at a price that was quoted and checked. An idempotency key makes sure that the credit
//! is debited once.

use tollhouse_api::{CreditHistory, QuoteRequest, QuoteResponse};
use tollhouse_base::clock::Timestamp;
use tollhouse_money::PaymentId;

use super::{PaymentTarget, SentPayment, draft::random};
use crate::base::{CredentialChoice, Error, Result, Role, Session};

/// Longest duration of a call that a credit pays for: the longest that any tool may run.
const TIMEOUT_SECS: u64 = 300;

/// Gets the price that the call will be debited, and returns the request to send.
///
/// # Errors
///
/// The address belongs to another host, which must not see the credit; the credit is missing; or the host quotes no price.
pub(crate) async fn by_credit(session: &Session, target: &PaymentTarget, now: Timestamp) -> Result<SentPayment> {
    let (Some(slug), true) = (&target.slug, target.own) else {
        return Err(Error::usage(format!("a credit pays only for tools of its own host, and {} is not one of them", target.name)));
    };
    token(session)?;
    let client = &session.client;
    let credit: CreditHistory = client.get(&["ai", "credits"]).by(CredentialChoice::Holder).query("limit", 1).send().await?.body;
    let request = QuoteRequest { slug: slug.to_string(), start_network: None, start_asset: None, from_address: None };
    let answer: QuoteResponse = client.post(&["ai", "quote"]).by(CredentialChoice::Everyone).json(&request).send().await?.body;
    let quote = answer.quote;
    let key = hex::encode(random::<16>()?);
    let headers = vec![("Idempotency-Key".to_owned(), key.clone()), ("X-Quote-Id".to_owned(), quote.quote_id)];
    let sent = SentPayment::new(target, PaymentId::of(&["credit", credit.credit.credit_id.as_str(), &key]), now, headers);
    Ok(SentPayment { by_credit: true, usd: quote.total_usd, timeout_secs: TIMEOUT_SECS, ..sent })
}

/// Returns the header that presents the credit. The token is kept in the credentials file only.
///
/// # Errors
///
/// The credit is missing.
pub(crate) fn token(session: &Session) -> Result<(String, String)> {
    match session.client.credential(CredentialChoice::Holder)? {
        Some((Role::Credit, token)) => Ok((Role::Credit.header().to_owned(), token.expose().to_owned())),
        Some(_) | None => {
            Err(Error::credential("no developer credit is stored").hint("sign in with one (tollhouse login), or set TOLLHOUSE_CREDIT"))
        }
    }
}
