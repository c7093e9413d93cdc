//! Offers and receipts as typed data (EIP-712). Their signing key is derived from the receipt key, so it is stored,
//! backed up and rotated with it.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use hkdf::Hkdf;
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::offer;

sol! {
    struct Offer {
        uint256 version;
        string resourceUrl;
        string scheme;
        string network;
        string asset;
        string payTo;
        string amount;
        uint256 validUntil;
    }

    struct Receipt {
        uint256 version;
        string network;
        string resourceUrl;
        string payer;
        uint256 issuedAt;
        string transaction;
    }
}

/// Context string of the key derivation.
const INFO: &[u8] = b"tollhouse x402 offer-receipt eip712";

pub(super) struct TypedSigner(SigningKey);

impl TypedSigner {
    /// Derives it from a receipt key.
    pub(super) fn of(secret: &[u8; 32]) -> Self {
        let derive = Hkdf::<Sha256>::new(None, secret);
        let key = (0..=u8::MAX).find_map(|turn| {
            let mut bytes = Zeroizing::new([0; 32]);
            derive.expand_multi_info(&[INFO, &[turn]], &mut *bytes).ok()?;
            SigningKey::from_slice(&*bytes).ok()
        });
        Self(key.expect("of 256 numbers one is below the order of the curve"))
    }

    pub(super) fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    pub(super) fn offer(&self, offer: &offer::Offer<'_>) -> Value {
        let typed = Offer {
            version: U256::from(offer.version),
            resourceUrl: offer.resource_url.to_owned(),
            scheme: offer.scheme.to_owned(),
            network: offer.network.to_owned(),
            asset: offer.asset.to_owned(),
            payTo: offer.pay_to.to_owned(),
            amount: offer.amount.to_owned(),
            validUntil: U256::from(offer.valid_until),
        };
        json!({ "format": "eip712", "payload": offer, "signature": self.sign(&typed, "x402 offer") })
    }

    pub(super) fn receipt(&self, receipt: &offer::Payload) -> Value {
        let typed = Receipt {
            version: U256::from(receipt.version),
            network: receipt.network.clone(),
            resourceUrl: receipt.resource_url.clone(),
            payer: receipt.payer.clone(),
            issuedAt: U256::from(receipt.issued_at),
            transaction: receipt.transaction.clone(),
        };
        json!({ "format": "eip712", "payload": receipt, "signature": self.sign(&typed, "x402 receipt") })
    }

    fn sign(&self, typed: &impl SolStruct, domain: &'static str) -> String {
        let domain = Eip712Domain::new(Some(Cow::Borrowed(domain)), Some(Cow::Borrowed("1")), Some(U256::ONE), None, None);
        let hash = typed.eip712_signing_hash(&domain);
        let (signature, recovery) = self.0.sign_prehash_recoverable(hash.as_slice()).expect("a hash of 32 bytes can be signed");
        format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_belongs_to_the_key_of_receipts() {
        let address = |byte| TypedSigner::of(&[byte; 32]).address();
        assert_eq!(address(7), address(7));
        assert_ne!(address(7), address(8));
    }
}
