//! The stored format of paid calls' receipts, without redundant parts.
//!
//! A compact JWS repeats its payload in base64url: the receipt's own JWS repeats the whole record, x402's receipt
//! repeats the payment, and the former contains the latter again. That is three fifths of a receipt. A row stores the
//! receipt's text without both payloads (a detached payload, RFC 7515 appendix F) and the payer's full address, which
//! only x402's receipt contains. Readers get the original text, byte for byte. A receipt that would not be restored
//! exactly is stored whole.
//!
//! **The restored bytes must be those that were signed**: nothing here may change for existing rows. A different way
//! needs another format.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{self as store, postcard_values};

use super::canonical;

/// The text before a record's signature, which is its last field.
const SIGNATURE: &str = r#","signature":""#;
const X402: &str = r#","offerReceipt":{"format":"jws","signature":""#;

/// A stored receipt of a paid call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// Its complete JSON.
    pub json: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ReceiptRow {
    /// The text of a receipt that a short row would not restore exactly.
    Whole(Vec<u8>),
    Short(ShortRow),
}
postcard_values!(ReceiptRow);

/// A row without redundant parts.
#[derive(Debug, Serialize, Deserialize)]
struct ShortRow {
    /// The text up to the payload of the x402 receipt, or up to the signature if there is none.
    text: String,
    x402: Option<X402Receipt>,
    /// First and last part of the signature's JWS.
    header: String,
    signature: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct X402Receipt {
    payer: String,
    /// The text between the payload and the signature.
    text: String,
}

/// The fields of a record that an x402 receipt repeats.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payment {
    network: String,
    resource_url: String,
    issued_at: Timestamp,
    transaction: String,
}

#[derive(Deserialize)]
struct Payer {
    payer: String,
}

impl ShortRow {
    /// Shortens a receipt. `None` if it could not be restored exactly.
    fn of(json: &[u8]) -> Option<Self> {
        let (text, jws) = std::str::from_utf8(json).ok()?.strip_suffix("\"}")?.rsplit_once(SIGNATURE)?;
        let (header, _, signature) = parts(jws)?;
        // Quotes inside strings are escaped, so this text can only begin a field.
        let (text, x402) = match text.split_once(X402) {
            Some((before, rest)) => {
                let (jws, behind) = rest.split_once('"')?;
                let (header, payload, signature) = parts(jws)?;
                let Payer { payer } = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
                let x402 = X402Receipt { payer, text: format!(".{signature}\"{behind}") };
                (format!("{before}{X402}{header}."), Some(x402))
            }
            None => (text.to_owned(), None),
        };
        let short = Self { text, x402, header: header.to_owned(), signature: signature.to_owned() };
        (short.whole()? == json).then_some(short)
    }

    /// Restores the original receipt. `None` if it is damaged.
    fn whole(&self) -> Option<Vec<u8>> {
        let mut text = self.text.clone();
        let mut record: Value;
        match &self.x402 {
            Some(x402) => {
                record = serde_json::from_str(&[&text, &x402.text, "}"].concat()).ok()?;
                let Payment { network, resource_url, issued_at, transaction } = Payment::deserialize(&record).ok()?;
                let payload = json!({
                    "version": 1,
                    "network": network,
                    "resourceUrl": resource_url,
                    "payer": x402.payer,
                    "issuedAt": issued_at.as_secs(),
                    "transaction": transaction,
                });
                URL_SAFE_NO_PAD.encode_string(canonical(&payload), &mut text);
                text.push_str(&x402.text);
                let (_, jws) = text.split_once(X402)?;
                *record.pointer_mut("/offerReceipt/signature")? = jws.split_once('"')?.0.into();
            }
            None => record = serde_json::from_str(&[&text, "}"].concat()).ok()?,
        }
        text.extend([SIGNATURE, &self.header, "."]);
        URL_SAFE_NO_PAD.encode_string(canonical(&record), &mut text);
        text.extend([".", &self.signature, "\"}"]);
        Some(text.into_bytes())
    }
}

/// Splits a compact JWS into its three parts.
fn parts(jws: &str) -> Option<(&str, &str, &str)> {
    let (header, rest) = jws.split_once('.')?;
    let (payload, signature) = rest.split_once('.')?;
    Some((header, payload, signature))
}

impl store::Value for StoredReceipt {
    fn to_bytes(&self) -> Vec<u8> {
        ShortRow::of(&self.json).map_or_else(|| ReceiptRow::Whole(self.json.clone()), ReceiptRow::Short).to_bytes()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let json = match ReceiptRow::of_bytes(bytes) {
            Some(ReceiptRow::Whole(json)) => Some(json),
            Some(ReceiptRow::Short(short)) => short.whole(),
            None => None,
        };
        // A damaged row is still a row. The code that parses its text reports it.
        Some(Self { json: json.unwrap_or_else(|| bytes.to_vec()) })
    }
}

#[cfg(test)]
mod tests;
