//! Checks the receipt of a response: its signature, and whether it matches the payment and the result.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;
use tollhouse_base::id::ReceiptId;
use tollhouse_call::Content;
use tollhouse_money::receipt::{self, PaymentKind, UnsignedReceipt, bytes_hash, json_hash, shortened};
use tollhouse_tool::Slug;

use super::{Reply, Seller, SentPayment};

/// Longest wait for a receipt or for the keys that verify it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The result of checking a receipt.
#[derive(Debug, Default)]
pub(crate) struct ReceiptProof {
    pub(crate) id: Option<ReceiptId>,
    /// The receipt's contents, if it is valid.
    pub(crate) record: Option<UnsignedReceipt>,
    /// The reason that it is invalid.
    pub(crate) wrong: Option<String>,
}

/// Finds and verifies the receipt of a response. A missing receipt is not an error: not every seller issues
/// receipts.
pub(crate) async fn prove(seller: &Seller, host: &Url, sent: Option<&SentPayment>, reply: &Reply) -> ReceiptProof {
    let given = reply.extras.receipt.clone().filter(Value::is_object);
    let named = given.as_ref().and_then(|given| given["receiptId"].as_str()).or_else(|| reply.header("x-receipt-id"));
    let Some(id) = named.and_then(|id| id.parse::<ReceiptId>().ok()) else { return ReceiptProof::default() };
    let checked = check(seller, host, sent, reply, given, &id).await;
    let (record, wrong) = match checked {
        Ok(record) => (Some(record), None),
        Err(wrong) => (None, Some(wrong)),
    };
    ReceiptProof { id: Some(id), record, wrong }
}

async fn check(
    seller: &Seller,
    host: &Url,
    sent: Option<&SentPayment>,
    reply: &Reply,
    given: Option<Value>,
    id: &ReceiptId,
) -> Result<UnsignedReceipt, String> {
    let receipt = match given {
        Some(given) => given,
        None => fetch(seller, host, &["ai", "receipts", id.as_str()]).await?["receipt"].take(),
    };
    let keys = fetch(seller, host, &[".well-known", "jwks.json"]).await?;
    let record = receipt::verify(&receipt, &keys).map_err(|error| error.to_string())?.record;
    if record.draft.receipt_id != *id {
        return Err("it is not the receipt that the answer named".to_owned());
    }
    if let Some(hash) = result_hash(reply, &record.draft.slug)
        && hash != record.draft.result_hash
    {
        return Err("it is for another answer".to_owned());
    }
    if let Some(sent) = sent {
        about(&record, sent)?;
    }
    Ok(record)
}

/// Checks that a receipt matches the payment.
fn about(record: &UnsignedReceipt, sent: &SentPayment) -> Result<(), String> {
    let same = |message: Option<&String>, signed: &str| message.is_some_and(|message| message.eq_ignore_ascii_case(signed));
    let Some(token) = &sent.token else {
        let fits = record.draft.price_usd <= sent.usd && record.kind != PaymentKind::X402;
        return if fits { Ok(()) } else { Err("it is for another payment".to_owned()) };
    };
    let number = |text: &str| text.parse::<u128>().ok();
    let amount = record.amount.as_deref().and_then(number);
    let fits = match (amount, number(&token.amount)) {
        (Some(message), Some(signed)) => message == signed || sent.max && message < signed,
        _ => false,
    };
    let checks = [
        ("kind", record.kind == PaymentKind::X402),
        ("network", same(record.network.as_ref(), &token.network)),
        ("asset", same(record.asset.as_ref(), &token.asset)),
        ("payer", same(record.payer.as_ref(), &shortened(&token.payer))),
        ("amount", fits),
    ];
    match checks.into_iter().find(|(_, fits)| !fits) {
        Some((member, _)) => Err(format!("it is for another payment: its {member} differs")),
        None => Ok(()),
    }
}

/// Returns the hash of the result as receipts state it. The key of a new builder is not part of it: the host delivers
/// the key beside the result and stores it nowhere.
fn result_hash(reply: &Reply, slug: &Slug) -> Option<String> {
    let headers: Vec<_> = reply.header("content-type").map(|kind| ("content-type".to_owned(), kind.to_owned())).into_iter().collect();
    match Content::new(reply.status, &headers, &reply.body) {
        Content::Json { json, .. } => serde_json::from_str(json.get()).ok().map(|mut value: Value| {
            if let (Value::Object(members), true) = (&mut value, *slug == Slug::builder_registration()) {
                members.remove("builderKey");
            }
            json_hash(&value)
        }),
        Content::Text { text, .. } => Some(bytes_hash(text.as_bytes())),
        Content::Bytes { bytes, .. } => Some(bytes_hash(bytes)),
        Content::Nothing => None,
    }
}

async fn fetch(seller: &Seller, host: &Url, path: &[&str]) -> Result<Value, String> {
    let position = path.join("/");
    let reply = seller.get(host, path, TIMEOUT).await.map_err(|lost| format!("/{position} could not be fetched: {}", lost.reason()))?;
    if reply.status != 200 {
        return Err(format!("/{position} could not be fetched: the answer was {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("/{position} is not JSON: {error}"))
}
