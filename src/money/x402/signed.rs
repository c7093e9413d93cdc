//! The part of a payment that the payer signed.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    eip3009::{Authorization, Transfer, format_error, normalize_v, signature_len},
    permit2::{Permit, PermitAuthorization},
    svm,
};
use crate::{Asset, Network, PaymentId, Refusal, network::Family};

/// The signed data and its signature.
#[derive(Debug, Clone)]
pub enum SignedPayload {
    /// An EIP-3009 authorization.
    Transfer {
        /// The signed transfer.
        authorization: Authorization,
        /// 65 bytes as hex, or longer for contract wallets.
        signature: String,
    },
    /// A permit to take up to a maximum (Permit2, scheme `upto`).
    Permit {
        /// The permit.
        authorization: PermitAuthorization,
        /// The signature in hex.
        signature: String,
    },
    /// A Solana transaction.
    Transaction(svm::Transaction),
}

/// An order to move money on an EVM network, as contracts read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    Transfer(Transfer),
    Permit(Permit),
}

impl Order {
    pub(crate) fn signed_by_payer(&self, signature: &str, asset: &Asset) -> bool {
        match self {
            Self::Transfer(transfer) => transfer.signed_by_payer(signature, asset),
            Self::Permit(permit) => permit.signed_by_payer(signature, asset.network),
        }
    }

    pub(crate) fn signing_hash(&self, asset: &Asset) -> B256 {
        match self {
            Self::Transfer(transfer) => transfer.signing_hash(asset),
            Self::Permit(permit) => permit.signing_hash(asset.network),
        }
    }
}

impl SignedPayload {
    pub(super) fn read(payload: &Value, network: &Network) -> Result<Self, Refusal> {
        match network.family {
            Family::Evm { .. } if payload["permit2Authorization"].is_object() => Self::permit(payload),
            Family::Evm { .. } => Self::transfer(payload),
            Family::Solana => {
                let text = payload["transaction"].as_str().ok_or_else(|| malformed("`payload.transaction` is missing"))?;
                svm::Transaction::parse(text).map(Self::Transaction).map_err(|reason| malformed(reason.to_string()))
            }
        }
    }

    fn transfer(payload: &Value) -> Result<Self, Refusal> {
        let authorization =
            Authorization::deserialize(&payload["authorization"]).map_err(|error| malformed(format!("payload.authorization: {error}")))?;
        let signature = payload["signature"].as_str().ok_or_else(|| malformed("`payload.signature` is missing"))?.to_owned();
        let is_hex = |text: &str, digits: usize| {
            text.strip_prefix("0x").is_some_and(|hex| hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if !is_hex(&authorization.from, 40) || !is_hex(&authorization.to, 40) || !is_hex(&authorization.nonce, 64) {
            return Err(malformed("`payload.authorization`: `from` and `to` must be addresses, and `nonce` must be 32 bytes in hex"));
        }
        if Transfer::parse(&authorization).is_none() {
            return Err(malformed("`payload.authorization`: `value`, `validAfter` and `validBefore` must be decimal numbers"));
        }
        Ok(Self::Transfer { authorization, signature })
    }

    fn permit(payload: &Value) -> Result<Self, Refusal> {
        let authorization = PermitAuthorization::deserialize(&payload["permit2Authorization"])
            .map_err(|error| malformed(format!("payload.permit2Authorization: {error}")))?;
        let signature = payload["signature"].as_str().ok_or_else(|| malformed("`payload.signature` is missing"))?.to_owned();
        if Permit::parse(&authorization).is_none() {
            return Err(malformed(
                "`payload.permit2Authorization`: addresses must have `0x` and 40 hex digits, and numbers must be decimal",
            ));
        }
        Ok(Self::Permit { authorization, signature })
    }

    /// Returns the token of `network` that the payment moves. The token is derived from the signature, because v1 does not
    /// name it. If the signature fits no token, as with a contract wallet, returns the network's first token.
    pub(super) fn asset(&self, network: &'static Network) -> Option<&'static Asset> {
        match self {
            Self::Transfer { authorization, signature } => {
                let transfer = Transfer::parse(authorization)?;
                let mut assets = Asset::of(network);
                let first = assets.next()?;
                let signed = assets.find(|asset| transfer.signed_by_payer(signature, asset));
                Some(signed.unwrap_or(first))
            }
            Self::Permit { authorization, .. } => Asset::named(network, &authorization.permitted.token),
            Self::Transaction(transaction) => Asset::named(network, &transaction.mint),
        }
    }

    /// Changes `v` from 0 or 1 to 27 or 28 if the payer's key signed, because tokens accept no other. Returns the
    /// signature if it changed.
    pub(super) fn normalize_v(&mut self, asset: &Asset) -> Option<&str> {
        let (order, signature) = self.order()?;
        // Recovering a key takes long, and most signatures have the usual `v`.
        let usual = normalize_v(signature).filter(|_| order.signed_by_payer(signature, asset))?;
        let (Self::Transfer { signature, .. } | Self::Permit { signature, .. }) = self else { return None };
        *signature = usual;
        Some(signature)
    }

    /// Returns what the payer ordered on an EVM network, and the signature.
    pub(crate) fn order(&self) -> Option<(Order, &str)> {
        match self {
            Self::Transfer { authorization, signature } => Some((Order::Transfer(Transfer::parse(authorization)?), signature)),
            Self::Permit { authorization, signature } => Some((Order::Permit(Permit::parse(authorization)?), signature)),
            Self::Transaction(_) => None,
        }
    }

    /// Returns a description of a malformed signature.
    pub(crate) fn format_error(&self) -> Option<String> {
        match self {
            Self::Transfer { signature, .. } | Self::Permit { signature, .. } => format_error(signature),
            Self::Transaction(_) => None,
        }
    }

    /// Returns the recipient if the payer's key signed it. Also returns `None` if the signature alone cannot show this:
    /// for contract wallets, and on Solana.
    pub(super) fn recipient_by_key(&self, asset: &Asset) -> Option<Address> {
        match self.order().filter(|(order, signature)| order.signed_by_payer(signature, asset))? {
            (Order::Transfer(transfer), _) => Some(transfer.to),
            (Order::Permit(permit), _) => Some(permit.to),
        }
    }

    /// Returns the length of the signature in bytes, or `None` if it is not hex.
    pub(crate) fn signature_len(&self) -> Option<usize> {
        let (Self::Transfer { signature, .. } | Self::Permit { signature, .. }) = self else { return None };
        signature_len(signature)
    }

    /// Returns the payer as written.
    pub fn sender(&self) -> &str {
        match self {
            Self::Transfer { authorization, .. } => &authorization.from,
            Self::Permit { authorization, .. } => &authorization.from,
            Self::Transaction(transaction) => &transaction.payer,
        }
    }

    pub(super) fn payer(&self) -> String {
        match self {
            Self::Transfer { .. } | Self::Permit { .. } => self.sender().to_ascii_lowercase(),
            Self::Transaction(transaction) => transaction.payer.clone(),
        }
    }

    /// Returns the amount in the token's smallest unit. For a permit it is the maximum.
    pub(super) fn amount(&self) -> String {
        match self {
            Self::Transfer { authorization, .. } => authorization.value.clone(),
            Self::Permit { authorization, .. } => authorization.permitted.amount.clone(),
            Self::Transaction(transaction) => transaction.amount.to_string(),
        }
    }

    /// Returns the nonce, which makes it move money at most once.
    pub(super) fn nonce(&self) -> String {
        match self {
            Self::Transfer { authorization, .. } => authorization.nonce.to_ascii_lowercase(),
            // Permit2's nonces are separate from the token's.
            Self::Permit { authorization, .. } => format!("permit2:{}", authorization.nonce),
            Self::Transaction(transaction) => transaction.message_hash.clone(),
        }
    }

    pub(crate) fn id(&self, asset: &Asset) -> PaymentId {
        let address = match asset.network.family {
            Family::Evm { .. } => asset.address.to_ascii_lowercase(),
            Family::Solana => asset.address.to_owned(),
        };
        PaymentId::of(&[asset.network.caip2, &address, &self.payer(), &self.nonce()])
    }

    /// Returns SHA-256 over the signed data and the signature. Only a holder of the signed payment can send it again.
    pub(super) fn digest(&self) -> String {
        match self {
            Self::Transfer { authorization, signature } => digest(authorization, signature),
            Self::Permit { authorization, signature } => digest(authorization, signature),
            Self::Transaction(transaction) => transaction.digest.clone(),
        }
    }

    /// Returns when it expires, in seconds since 1970, capped at the maximum. `None` for Solana transactions, which
    /// expire some blocks after one that they name.
    pub(super) fn valid_before_secs(&self) -> Option<u64> {
        self.order().map(|(order, _)| match order {
            Order::Transfer(transfer) => transfer.valid_before_secs(),
            Order::Permit(permit) => permit.deadline_secs(),
        })
    }
}

fn digest(authorization: &impl Serialize, signature: &str) -> String {
    let authorization = serde_json::to_string(authorization).unwrap_or_default().to_ascii_lowercase();
    hex::encode(Sha256::new().chain_update(authorization).chain_update(signature.to_ascii_lowercase()).finalize())
}

pub(super) fn malformed(message: impl Into<String>) -> Refusal {
    Refusal::invalid("invalid_payload", message)
}
