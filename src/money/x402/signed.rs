//! What the payer signed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    eip3009::{Authorization, Transfer, flaw_of_form, with_usual_v},
    permit2::{Permit, PermitAuthorization},
    svm,
};
use crate::{Asset, Network, PaymentId, Refusal, network::Family};

/// What the payer signed, and the signature.
#[derive(Debug, Clone)]
pub enum Signed {
    /// An authorisation of EIP-3009.
    Transfer {
        /// The authorisation.
        authorization: Authorization,
        /// 65 bytes as hex, or longer for contract wallets.
        signature: String,
    },
    /// A permit to take up to so much (Permit2, scheme `upto`).
    Permit {
        /// The authorisation.
        authorization: PermitAuthorization,
        /// As hex.
        signature: String,
    },
    /// A transaction of Solana.
    Transaction(svm::Transaction),
}

impl Signed {
    /// Reads it out of the `payload` of a payment that is to settle on `network`.
    pub(super) fn read(payload: &Value, network: &Network) -> Result<Self, Refusal> {
        match network.family {
            Family::Evm { .. } if payload["permit2Authorization"].is_object() => Self::permit(payload),
            Family::Evm { .. } => Self::transfer(payload),
            Family::Solana => {
                let text = payload["transaction"].as_str().ok_or_else(|| malformed("payload.transaction is missing"))?;
                svm::Transaction::parse(text).map(Self::Transaction).map_err(|why| malformed(why.to_string()))
            }
        }
    }

    fn transfer(payload: &Value) -> Result<Self, Refusal> {
        let authorization =
            Authorization::deserialize(&payload["authorization"]).map_err(|error| malformed(format!("payload.authorization: {error}")))?;
        let signature = payload["signature"].as_str().ok_or_else(|| malformed("payload.signature is missing"))?.to_owned();
        let is_hex = |text: &str, digits: usize| {
            text.strip_prefix("0x").is_some_and(|hex| hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if !is_hex(&authorization.from, 40) || !is_hex(&authorization.to, 40) || !is_hex(&authorization.nonce, 64) {
            return Err(malformed("payload.authorization: `from` and `to` are addresses, `nonce` is 32 bytes in hex"));
        }
        if Transfer::parse(&authorization).is_none() {
            return Err(malformed("payload.authorization: `value`, `validAfter` and `validBefore` are decimal numbers"));
        }
        Ok(Self::Transfer { authorization, signature })
    }

    fn permit(payload: &Value) -> Result<Self, Refusal> {
        let authorization = PermitAuthorization::deserialize(&payload["permit2Authorization"])
            .map_err(|error| malformed(format!("payload.permit2Authorization: {error}")))?;
        let signature = payload["signature"].as_str().ok_or_else(|| malformed("payload.signature is missing"))?.to_owned();
        if Permit::parse(&authorization).is_none() {
            return Err(malformed("payload.permit2Authorization: addresses have 0x and 40 hex digits, numbers are decimal"));
        }
        Ok(Self::Permit { authorization, signature })
    }

    /// The token of `network` that it moves, by what is signed alone: v1 does not name it. Where nobody's key signed for one of them, as
    /// for a wallet that is a contract, it is the first.
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

    /// Writes `v` as 27 or 28 where the payer's key signed and it is 0 or 1: tokens take no other. Answers the signature where it changed.
    pub(super) fn set_usual_v(&mut self, asset: &Asset) -> Option<&str> {
        // Recovering a key takes long, and most signatures have the usual `v`.
        let (signature, usual, by_key) = match self {
            Self::Transfer { authorization, signature } => {
                let usual = with_usual_v(signature)?;
                let by_key = Transfer::parse(authorization).is_some_and(|transfer| transfer.signed_by_payer(signature, asset));
                (signature, usual, by_key)
            }
            Self::Permit { authorization, signature } => {
                let usual = with_usual_v(signature)?;
                let by_key = Permit::parse(authorization).is_some_and(|permit| permit.signed_by_payer(signature, asset.network));
                (signature, usual, by_key)
            }
            Self::Transaction(_) => return None,
        };
        if !by_key {
            return None;
        }
        *signature = usual;
        Some(signature)
    }

    /// What of the signature's form no token takes, in words.
    pub(crate) fn flaw_of_form(&self) -> Option<String> {
        match self {
            Self::Transfer { signature, .. } | Self::Permit { signature, .. } => flaw_of_form(signature),
            Self::Transaction(_) => None,
        }
    }

    /// Who pays, as it is written.
    #[must_use]
    pub fn sender(&self) -> &str {
        match self {
            Self::Transfer { authorization, .. } => &authorization.from,
            Self::Permit { authorization, .. } => &authorization.from,
            Self::Transaction(transaction) => &transaction.payer,
        }
    }

    /// Who pays, as one word whoever writes it.
    pub(super) fn payer(&self) -> String {
        match self {
            Self::Transfer { .. } | Self::Permit { .. } => self.sender().to_ascii_lowercase(),
            Self::Transaction(transaction) => transaction.payer.clone(),
        }
    }

    /// How much, in the token's smallest unit; at most, of a permit.
    pub(super) fn amount(&self) -> String {
        match self {
            Self::Transfer { authorization, .. } => authorization.value.clone(),
            Self::Permit { authorization, .. } => authorization.permitted.amount.clone(),
            Self::Transaction(transaction) => transaction.amount.to_string(),
        }
    }

    /// What lets it move money once at most.
    pub(super) fn nonce(&self) -> String {
        match self {
            Self::Transfer { authorization, .. } => authorization.nonce.to_ascii_lowercase(),
            // Permits count their nonces apart from the token's.
            Self::Permit { authorization, .. } => format!("permit2:{}", authorization.nonce),
            Self::Transaction(transaction) => transaction.message_hash.clone(),
        }
    }

    /// What a payment in this token is known by.
    pub(crate) fn id(&self, asset: &Asset) -> PaymentId {
        let address = match asset.network.family {
            Family::Evm { .. } => asset.address.to_ascii_lowercase(),
            Family::Solana => asset.address.to_owned(),
        };
        PaymentId::of(&[asset.network.caip2, &address, &self.payer(), &self.nonce()])
    }

    /// SHA-256 over what is signed and the signature: only who holds the signed payment can show it again.
    pub(super) fn digest(&self) -> String {
        match self {
            Self::Transfer { authorization, signature } => digest(authorization, signature),
            Self::Permit { authorization, signature } => digest(authorization, signature),
            Self::Transaction(transaction) => transaction.digest.clone(),
        }
    }

    /// When it ends, in seconds since 1970; the last moment there is where it says later. `None` where it does not say: a transaction of
    /// Solana ends some blocks after one that it names.
    pub(super) fn valid_before_secs(&self) -> Option<u64> {
        match self {
            Self::Transfer { authorization, .. } => Some(Transfer::parse(authorization).map_or(0, |transfer| transfer.valid_before_secs())),
            Self::Permit { authorization, .. } => Some(Permit::parse(authorization).map_or(0, |permit| permit.deadline_secs())),
            Self::Transaction(_) => None,
        }
    }
}

fn digest(authorization: &impl Serialize, signature: &str) -> String {
    let authorization = serde_json::to_string(authorization).unwrap_or_default().to_ascii_lowercase();
    hex::encode(Sha256::new().chain_update(authorization).chain_update(signature.to_ascii_lowercase()).finalize())
}

pub(super) fn malformed(message: impl Into<String>) -> Refusal {
    Refusal::invalid("invalid_payload", message)
}
