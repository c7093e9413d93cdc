//! Receipts of paid calls as the store keeps them: without what follows from the rest.
//!
//! A compact JWS repeats, in base64url, what it is about: the receipt's own the whole record, that of x402's extension the payment, and the
//! first repeats the second once more. That is three fifths of a receipt. A row holds the text of the receipt without both payloads
//! (a detached payload, RFC 7515 appendix F) and the payer's whole address, which the second has and the record has not; whoever reads it
//! gets the text as it was, byte for byte. What would not come out so is kept whole.
//!
//! **What is rebuilt is what was signed once**: nothing here may change for rows that are there. Another way of it is another form.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::clock::Timestamp;
use tollhouse_store as store;
use tollhouse_store::{Formatted, read_postcard, write_postcard};

use super::canonical;

/// What stands before the signature of a record, which is its last member.
const SIGNATURE: &str = r#","signature":""#;
/// And before that of an x402 receipt.
const X402: &str = r#","offerReceipt":{"format":"jws","signature":""#;

/// A receipt of a paid call, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its JSON, with all that its reader gets.
    pub json: Vec<u8>,
    /// Whether it is, or is to be, stored in [the form](tollhouse_replica::RECEIPTS_SHORT) without what follows from the rest.
    pub short: bool,
}

/// A row with the whole text: what cannot be short, and what the version before wrote.
struct Whole(Vec<u8>);

/// A row without what follows from the rest.
#[derive(Debug, Serialize, Deserialize)]
struct Short {
    /// The text up to the payload of the x402 receipt where there is one, else up to the signature.
    text: String,
    x402: Option<X402Receipt>,
    /// First and last part of the signature.
    header: String,
    signature: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct X402Receipt {
    /// In full.
    payer: String,
    /// The text from behind the payload up to the signature.
    text: String,
}

/// What an x402 receipt repeats of a record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payment {
    network: String,
    resource_url: String,
    issued_at: Timestamp,
    transaction: String,
}

/// Who paid, in an x402 receipt.
#[derive(Deserialize)]
struct Payer {
    payer: String,
}

impl Short {
    /// `None` where it would not read as what it was made of.
    fn of(json: &[u8]) -> Option<Self> {
        let (text, jws) = std::str::from_utf8(json).ok()?.strip_suffix("\"}")?.rsplit_once(SIGNATURE)?;
        let (header, _, signature) = parts(jws)?;
        // No quote inside a string is bare: only a member begins so.
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

    /// The receipt that it was made of; `None` where it is damaged.
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

/// The three parts of a compact JWS.
fn parts(jws: &str) -> Option<(&str, &str, &str)> {
    let (header, rest) = jws.split_once('.')?;
    let (payload, signature) = rest.split_once('.')?;
    Some((header, payload, signature))
}

impl store::Value for Stored {
    fn to_bytes(&self) -> Vec<u8> {
        let short = if self.short { Short::of(&self.json) } else { None };
        short.map_or_else(|| Whole(self.json.clone()).to_bytes(), |short| short.to_bytes())
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        // What does not read is told by whoever reads the text: it is a row all the same.
        let short = Short::of_bytes(bytes).and_then(|short| short.whole()).map(|json| Self { json, short: true });
        short.or_else(|| Whole::of_bytes(bytes).map(|Whole(json)| Self { json, short: false }))
    }
}

impl Formatted for Whole {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format <= Self::FORMAT).then(|| Self(bytes.to_vec()))
    }
}

impl Formatted for Short {
    const FORMAT: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format == Self::FORMAT).then(|| read_postcard(bytes)).flatten()
    }
}

#[cfg(test)]
mod tests;
