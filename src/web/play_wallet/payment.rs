//! A signed x402 v2 payment in a form.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Prefix of payment ids, and the number of hex digits after it.
const PREFIX: &str = "pmt_";
const DIGITS: usize = 32;

/// Maximum size of a payment, in bytes. The same as the host's own limit.
const MAX_BYTES: usize = 16 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    /// The value of the payment header.
    pub(crate) header: String,
    /// The host's id of the payment.
    pub(crate) id: String,
    payload: Value,
}

impl Payment {
    /// Parses a form's field. Returns `None` if it is not a payment.
    pub(crate) fn read(header: &str) -> Option<Self> {
        let header = Some(header.trim()).filter(|header| header.len() <= MAX_BYTES)?;
        let payload: Value = serde_json::from_slice(&STANDARD.decode(header).ok()?).ok()?;
        Some(Self { header: header.to_owned(), id: id(&payload)?, payload })
    }

    pub(super) fn new(payload: Value) -> Option<Self> {
        Some(Self { header: STANDARD.encode(payload.to_string()), id: id(&payload)?, payload })
    }

    /// Returns whether it pays this amount of this token on this network, both by its claim and by
    /// what was signed.
    pub(crate) fn pays(&self, amount: &str, asset: &str, network: &str) -> bool {
        let (accepted, signed) = (&self.payload["accepted"], &self.payload["payload"]);
        let message = accepted["amount"] == amount && accepted["asset"] == asset && accepted["network"] == network;
        let permit = &signed["permit2Authorization"];
        let same = |text: &Value| text.as_str().is_some_and(|text| text.eq_ignore_ascii_case(asset));
        message
            && match permit {
                // The token is only part of the signature, which the host checks.
                Value::Null => signed["authorization"]["value"] == amount,
                permit => permit["permitted"]["amount"] == amount && same(&permit["permitted"]["token"]),
            }
    }

    #[cfg(test)]
    pub(super) fn payload(&self) -> &Value {
        &self.payload
    }
}

pub(crate) fn is_id(id: &str) -> bool {
    id.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Computes the host's id of a payment, as its manifest describes.
fn id(payment: &Value) -> Option<String> {
    let lower = |value: &Value| value.as_str().map(str::to_ascii_lowercase);
    let (signed, accepted) = (&payment["payload"], &payment["accepted"]);
    let (authorization, space) = match &signed["permit2Authorization"] {
        Value::Null => (&signed["authorization"], ""),
        permit => (permit, "permit2:"),
    };
    let nonce = format!("{space}{}", lower(&authorization["nonce"])?);
    let parts = [accepted["network"].as_str()?.to_owned(), lower(&accepted["asset"])?, lower(&authorization["from"])?, nonce];
    Some(format!("{PREFIX}{}", &hex::encode(Sha256::digest(parts.join("\n")))[..DIGITS]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payment() -> Value {
        json!({
            "accepted": { "network": "eip155:1", "asset": "0xAb", "amount": "5" },
            "payload": { "authorization": { "from": "0xCd", "nonce": "0xEF", "value": "5" }, "signature": "0x" },
        })
    }

    #[test]
    fn payment_is_parsed_from_its_header_with_its_id() {
        let made = Payment::new(payment()).unwrap();
        assert_eq!(Payment::read(&made.header), Some(made));
        let made = Payment::new(payment()).unwrap();
        let digest = hex::encode(Sha256::digest("eip155:1\n0xab\n0xcd\n0xef"));
        assert_eq!(made.id, format!("pmt_{}", &digest[..32]));
        assert!(is_id(&made.id) && !is_id("pmt_") && !is_id(&made.id[1..]) && !is_id(&format!("{}0", made.id)));
        for none in ["", "x", "e30=", &"A".repeat(20_000)] {
            assert_eq!(Payment::read(none), None);
        }
    }

    #[test]
    fn payment_matches_both_its_claim_and_its_signature() {
        let pays = |payment: Value| Payment::new(payment).unwrap().pays("5", "0xAb", "eip155:1");
        assert!(pays(payment()));
        for (pointer, other) in [
            ("/accepted/amount", "6"),
            ("/accepted/asset", "0xAc"),
            ("/accepted/network", "eip155:2"),
            ("/payload/authorization/value", "6"),
        ] {
            let mut payment = payment();
            *payment.pointer_mut(pointer).unwrap() = json!(other);
            assert!(!pays(payment), "{pointer}");
        }
        let permit = |amount: &str, token: &str| {
            let mut payment = payment();
            payment["payload"] =
                json!({ "permit2Authorization": { "from": "0xCd", "nonce": "7", "permitted": { "amount": amount, "token": token } } });
            payment
        };
        assert!(pays(permit("5", "0xab")) && !pays(permit("6", "0xab")) && !pays(permit("5", "0xac")));
    }
}
