//! One way to pay, as a seller asks for it.

use alloy_primitives::{Address, B256, U256};
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use crate::{Asset, Network, PaymentId, WireVersion, accept::UPFRONT};

/// How much of what is signed is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// All of it.
    Exact,
    /// What was charged, and all of it at most.
    Upto,
}

/// One way to pay, as a seller asks for it, as far as it can be signed.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The wire that it was asked over.
    pub version: WireVersion,
    /// The entry of `accepts`, as it came.
    pub accepted: Value,
    /// How much is taken.
    pub scheme: Scheme,
    /// Where, as EIP-155 numbers it.
    pub chain_id: u64,
    /// In the token's smallest unit: all of it, or the most.
    pub amount: U256,
    /// The token's contract.
    pub asset: Address,
    /// Who is paid.
    pub pay_to: Address,
    /// What the seller calls the token: name and version of its EIP-712 domain.
    pub domain: (String, String),
    /// For how long the payment is to be valid.
    pub timeout_secs: u64,
    /// Who alone says how much is taken; of [`Scheme::Upto`].
    pub(super) facilitator: Option<Address>,
}

/// Why a way to pay cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum Unsignable {
    #[error("its scheme is neither `exact` nor `upto`")]
    Scheme,
    #[error("its network is no chain that payments are signed for here")]
    Network,
    #[error("it is paid in another way than by `exact` with EIP-3009, before the work or after it, and `upto` with Permit2")]
    Flow,
    #[error("its `{0}` does not read")]
    Member(&'static str),
}

/// What bounds a payment beside its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lets it be taken once.
    pub nonce: B256,
    /// In seconds since 1970: it is worth nothing from then on.
    pub until_secs: u64,
}

impl Ask {
    /// Reads an entry of `accepts`.
    ///
    /// # Errors
    ///
    /// What is asked for in a way that is not known here, or has a member that is not what it is to be.
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
        let wanted = match scheme {
            Scheme::Exact => "eip3009",
            Scheme::Upto => "permit2",
        };
        let flow = &extra["paymentFlow"];
        let upfront = flow == UPFRONT && scheme == Scheme::Exact && version == WireVersion::V2;
        if method != wanted || !(flow.is_null() || flow == "authorization" || upfront) {
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

    /// Whether it is settled before the work.
    #[must_use]
    pub fn is_upfront(&self) -> bool {
        self.accepted["extra"]["paymentFlow"] == UPFRONT
    }

    /// The token, where it is one of the table: by its contract and its network, whatever the seller calls it.
    #[must_use]
    pub fn token(&self) -> Option<&'static Asset> {
        let mut known = Asset::all().iter().filter(|asset| asset.network.chain_id() == Some(self.chain_id));
        known.find(|asset| asset.address.parse() == Ok(self.asset))
    }

    /// What it comes to, of a token of the table: not less, where its smallest unit is finer than a micro-dollar.
    #[must_use]
    pub fn usd(&self, token: &Asset) -> Option<MicroUsd> {
        let atomic = u128::try_from(self.amount).ok()?;
        let worth = token.worth(atomic)?;
        let more = u64::from(token.atomic(worth) < atomic);
        worth.0.checked_add(more).map(MicroUsd)
    }

    /// What the host will know a payment for it by, as its manifest says.
    #[must_use]
    pub fn id(&self, payer: Address, bounds: &Bounds) -> PaymentId {
        let lower = |address: Address| format!("{address:#x}");
        let nonce = match self.scheme {
            Scheme::Exact => format!("{:#x}", bounds.nonce),
            Scheme::Upto => format!("permit2:{}", U256::from_be_bytes(bounds.nonce.0)),
        };
        PaymentId::of(&[&format!("eip155:{}", self.chain_id), &lower(self.asset), &lower(payer), &nonce])
    }
}

/// The chain that an entry names: by CAIP-2, or as v1 does.
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
