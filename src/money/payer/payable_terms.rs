//! A way to pay, as offered by a seller.

use alloy_primitives::{Address, B256, U256};
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use crate::{Asset, Network, PaymentId, WireVersion, payment_config::UPFRONT};

/// The part of the signed amount that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// All of it.
    Exact,
    /// The amount charged, up to the signed amount.
    Upto,
}

/// A way to pay that can be signed.
#[derive(Debug, Clone)]
pub struct PayableTerms {
    /// The x402 version of the offer.
    pub version: WireVersion,
    /// The original entry of `accepts`.
    pub accepted: Value,
    /// How the amount is charged.
    pub scheme: Scheme,
    /// The chain id (EIP-155).
    pub chain_id: u64,
    /// The amount, or the maximum for [`Scheme::Upto`], in the token's smallest unit.
    pub amount: U256,
    /// The token's contract.
    pub asset: Address,
    /// The recipient.
    pub pay_to: Address,
    /// Name and version of the token's EIP-712 domain, as given by the seller.
    pub domain: (String, String),
    /// How long the payment must be valid.
    pub timeout_secs: u64,
    /// The only address that may set the amount taken, for [`Scheme::Upto`].
    pub(super) facilitator: Option<Address>,
}

/// Why a way to pay cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Unsignable {
    #[error("its scheme must be `exact` or `upto`")]
    Scheme,
    #[error("this client cannot sign payments for its network")]
    Network,
    #[error("this client can pay only by `exact` with EIP-3009 or by `upto` with Permit2")]
    Flow,
    #[error("its `{0}` is invalid")]
    Member(&'static str),
}

/// The limits of a payment besides its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentBounds {
    /// The nonce, which allows it to be taken once.
    pub nonce: B256,
    /// When it expires, in seconds since 1970.
    pub until_secs: u64,
}

impl PayableTerms {
    /// Parses an entry of `accepts`.
    ///
    /// # Errors
    ///
    /// An unsupported scheme, network or method, or an invalid field.
    pub fn read(version: WireVersion, accepted: &Value) -> Result<Self, Unsignable> {
        let extra = &accepted["extra"];
        let scheme = match accepted["scheme"].as_str() {
            Some("exact") => Scheme::Exact,
            Some("upto") if version == WireVersion::V2 => Scheme::Upto,
            _ => return Err(Unsignable::Scheme),
        };
        let method = match &extra["assetTransferMethod"] {
            Value::Null => "eip3009",
            method => method.as_str().unwrap_or_default(),
        };
        let requested = match scheme {
            Scheme::Exact => "eip3009",
            Scheme::Upto => "permit2",
        };
        let flow = &extra["paymentFlow"];
        let upfront = flow == UPFRONT && scheme == Scheme::Exact && version == WireVersion::V2;
        if method != requested || !(flow.is_null() || flow == "authorization" || upfront) {
            return Err(Unsignable::Flow);
        }
        let (amount, facilitator) = match version {
            WireVersion::V1 => ("maxAmountRequired", None),
            WireVersion::V2 if scheme == Scheme::Upto => ("amount", Some(address(extra, "facilitatorAddress")?)),
            WireVersion::V2 => ("amount", None),
        };
        let text = |name| extra[name].as_str().map(str::to_owned).ok_or(Unsignable::Member(name));
        Ok(Self {
            version,
            scheme,
            chain_id: chain(accepted).ok_or(Unsignable::Network)?,
            amount: decimal(&accepted[amount]).ok_or(Unsignable::Member(amount))?,
            asset: address(accepted, "asset")?,
            pay_to: address(accepted, "payTo")?,
            domain: (text("name")?, text("version")?),
            timeout_secs: accepted["maxTimeoutSeconds"].as_u64().ok_or(Unsignable::Member("maxTimeoutSeconds"))?,
            facilitator,
            accepted: accepted.clone(),
        })
    }

    /// Returns whether the payment is settled before the run.
    pub fn is_upfront(&self) -> bool {
        self.accepted["extra"]["paymentFlow"] == UPFRONT
    }

    /// Finds the token by its contract and network, whatever the seller calls it. `None` if it is unknown.
    pub fn token(&self) -> Option<&'static Asset> {
        let mut known = Asset::all().iter().filter(|asset| asset.network.chain_id() == Some(self.chain_id));
        known.find(|asset| asset.address.parse() == Ok(self.asset))
    }

    /// Returns the amount in dollars for a known token, rounded up to a micro-dollar.
    pub fn usd(&self, token: &Asset) -> Option<MicroUsd> {
        let atomic = u128::try_from(self.amount).ok()?;
        let worth = token.worth(atomic)?;
        let more = u64::from(token.atomic(worth) < atomic);
        worth.0.checked_add(more).map(MicroUsd)
    }

    /// Returns the id that the host gives to this payment, as its manifest describes.
    pub fn id(&self, payer: Address, bounds: &PaymentBounds) -> PaymentId {
        let lower = |address: Address| format!("{address:#x}");
        let nonce = match self.scheme {
            Scheme::Exact => format!("{:#x}", bounds.nonce),
            Scheme::Upto => format!("permit2:{}", U256::from_be_bytes(bounds.nonce.0)),
        };
        PaymentId::of(&[&format!("eip155:{}", self.chain_id), &lower(self.asset), &lower(payer), &nonce])
    }
}

/// Returns the chain id of an entry, from its CAIP-2 id or v1 name.
fn chain(accepted: &Value) -> Option<u64> {
    let name = accepted["network"].as_str()?;
    match Network::named(name) {
        Some(known) => known.chain_id(),
        None => name.strip_prefix("eip155:").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok(),
    }
}

fn decimal(amount: &Value) -> Option<U256> {
    let digits = amount.as_str().filter(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    U256::from_str_radix(digits, 10).ok()
}

fn address(of: &Value, name: &'static str) -> Result<Address, Unsignable> {
    let text = of[name].as_str().filter(|text| text.starts_with("0x")).ok_or(Unsignable::Member(name))?;
    text.parse().map_err(|_| Unsignable::Member(name))
}
