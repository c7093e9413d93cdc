//! Verifies a receipt offline, with only the host's JWK set.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use serde_json::Value;

use super::{
    OfferReceipt, PaymentKind, UnsignedReceipt, canonical,
    jws::{self, JwsError, Parts},
    key::RECEIPT_TYPE,
    offer::Payload,
    record::shortened,
};

/// A receipt whose signature is valid, and the key that signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedReceipt {
    /// The signed content.
    pub record: UnsignedReceipt,
    /// Key id of the signer: the thumbprint of a key in the set.
    pub kid: String,
}

/// Why a receipt is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum VerifyError {
    #[error("this is not a receipt: {0}")]
    NotAReceipt(String),
    #[error("the receipt has no signature")]
    Unsigned,
    #[error("the keys are not a JWK set")]
    NotAKeySet,
    #[error("the {0} is not a valid signature: {1}")]
    Signature(SignaturePart, #[source] JwsError),
    #[error("the type of the {0} is not `{RECEIPT_TYPE}`")]
    Type(SignaturePart),
    #[error("the {0} does not name its key (`kid`)")]
    NoKey(SignaturePart),
    #[error("the {0} was made with the key `{1}`, which is not in the key set")]
    UnknownKey(SignaturePart, String),
    #[error("the {0} is forged: it was not made with the key that it names")]
    Forged(SignaturePart),
    #[error("the receipt was altered: it differs from what was signed in {}", named(.0))]
    Altered(Vec<String>),
    #[error("the x402 receipt is for another payment: its {0} differs")]
    OtherPayment(&'static str),
    #[error("a receipt must have an x402 receipt if it was paid with x402, and only then")]
    OfferReceipt,
}

/// One of the two signatures of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignaturePart {
    /// The signature of the whole record.
    #[error("receipt's signature")]
    Record,
    /// The signature of the x402 offer-receipt extension.
    #[error("x402 receipt")]
    OfferReceipt,
}

/// Verifies that a key of `jwks` signed all of `record`, and that its x402 receipt is for the same payment.
pub fn verify(record: &Value, jwks: &Value) -> Result<VerifiedReceipt, VerifyError> {
    let keys = jwks["keys"].as_array().ok_or(VerifyError::NotAKeySet)?;
    let keys: Vec<VerifyingKey> = keys.iter().filter_map(jws::from_jwk).collect();
    let mut unsigned = record.clone();
    let members = unsigned.as_object_mut().ok_or_else(|| VerifyError::NotAReceipt("it is not a JSON object".to_owned()))?;
    let signature = members.remove("signature").ok_or(VerifyError::Unsigned)?;
    let signature = signature.as_str().ok_or(VerifyError::Signature(SignaturePart::Record, JwsError::Form))?;

    let parts = Parts::parse(signature).map_err(|error| VerifyError::Signature(SignaturePart::Record, error))?;
    if parts.header.typ.as_deref() != Some(RECEIPT_TYPE) {
        return Err(VerifyError::Type(SignaturePart::Record));
    }
    let kid = check_signer(SignaturePart::Record, &parts, &keys, jws::thumbprint)?;
    if parts.payload != canonical(&unsigned) {
        return Err(VerifyError::Altered(differences(&unsigned, &parts.payload)));
    }
    let record: UnsignedReceipt = serde_json::from_value(unsigned).map_err(|error| VerifyError::NotAReceipt(error.to_string()))?;
    match (record.kind, &record.offer_receipt) {
        (PaymentKind::X402, Some(offer_receipt)) => check_offer_receipt(offer_receipt, &record, &keys)?,
        (PaymentKind::Credit | PaymentKind::Free, None) => {}
        (PaymentKind::X402, None) | (PaymentKind::Credit | PaymentKind::Free, Some(_)) => return Err(VerifyError::OfferReceipt),
    }
    Ok(VerifiedReceipt { record, kid })
}

/// Returns the name of the key that made a signature. `name` returns the name of a key.
fn check_signer(
    part: SignaturePart,
    parts: &Parts<'_>,
    keys: &[VerifyingKey],
    name: fn(&VerifyingKey) -> String,
) -> Result<String, VerifyError> {
    let kid = parts.header.kid.clone().ok_or(VerifyError::NoKey(part))?;
    let Some(key) = keys.iter().find(|key| name(key) == kid) else { return Err(VerifyError::UnknownKey(part, kid)) };
    if parts.is_by(key) { Ok(kid) } else { Err(VerifyError::Forged(part)) }
}

fn check_offer_receipt(offer_receipt: &OfferReceipt, record: &UnsignedReceipt, keys: &[VerifyingKey]) -> Result<(), VerifyError> {
    let form = |error| VerifyError::Signature(SignaturePart::OfferReceipt, error);
    if offer_receipt.format != OfferReceipt::FORMAT {
        return Err(form(JwsError::Form));
    }
    let parts = Parts::parse(&offer_receipt.signature).map_err(form)?;
    check_signer(SignaturePart::OfferReceipt, &parts, keys, jws::did_url)?;
    let payload: Payload = serde_json::from_slice(&parts.payload).map_err(|_| form(JwsError::Form))?;
    let same = [
        ("version", payload.version == 1),
        ("network", Some(&payload.network) == record.network.as_ref()),
        ("resourceUrl", payload.resource_url == record.draft.resource_url),
        ("payer", Some(shortened(&payload.payer)) == record.payer),
        ("issuedAt", payload.issued_at == record.draft.issued_at.as_secs()),
        ("transaction", Some(&payload.transaction) == record.transaction.as_ref()),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(VerifyError::OtherPayment(field)),
        None => Ok(()),
    }
}

/// Returns the fields that differ between a record and the signed content.
fn differences(record: &Value, signed: &[u8]) -> Vec<String> {
    let Ok(Value::Object(signed)) = serde_json::from_slice::<Value>(signed) else { return Vec::new() };
    let Some(record) = record.as_object() else { return Vec::new() };
    let mut names: Vec<&String> = record.keys().chain(signed.keys()).filter(|name| record.get(*name) != signed.get(*name)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().cloned().collect()
}

fn named(fields: &[String]) -> String {
    if fields.is_empty() { "its form".to_owned() } else { format!("`{}`", fields.join("`, `")) }
}

impl fmt::Display for VerifiedReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (record, draft) = (&self.record, &self.record.draft);
        write!(f, "{} for `{}`, {} USD ", draft.receipt_id, draft.slug, draft.price_usd)?;
        match (record.kind, &record.transaction, &record.network) {
            (PaymentKind::X402, Some(transaction), Some(network)) if record.simulated => {
                write!(f, "simulated as {transaction} on {network}")?
            }
            (PaymentKind::X402, Some(transaction), Some(network)) => write!(f, "by {transaction} on {network}")?,
            (PaymentKind::X402, _, _) => write!(f, "by x402")?,
            (PaymentKind::Credit, _, _) => write!(f, "by developer credit")?,
            (PaymentKind::Free, _, _) => write!(f, "(free)")?,
        }
        write!(f, ", issued {}, signed by {}", draft.issued_at, self.kid)
    }
}

#[cfg(test)]
mod tests;
