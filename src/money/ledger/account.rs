//! Accounts: who has what, in which unit.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollhouse_base::id::{BuilderId, CreditId, PayoutId};
use tollhouse_store::{Batch, Counter, Limit, Store, StoreError, schema};
use tollhouse_tool::{MicroUsd, Owner};

use crate::{
    credit::{line::LINES, number::BALANCE},
    settlement::Settlement,
};

pub(crate) const ACCOUNTS: Counter<String> = schema::ACCOUNTS.counting();
pub(crate) const CREDIT_BALANCES: Counter<(CreditId, u64)> = LINES.counting();

/// The name of the account that has what all credits have together, so that one scan sees all that there is.
pub(crate) const CREDITS_TOGETHER: &str = "credits";

/// Whoever gives may be below zero by any amount.
const NONE: Limit = Limit::Floor(i128::MIN);

/// What no credit passes: nobody spends what is not there, and no amount is more than can be told exactly.
const fn of_credit(by: i128) -> Limit {
    match by {
        ..0 => Limit::Floor(0),
        0.. => Limit::Ceiling(MicroUsd::MAX.0 as i128),
    }
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// Of dollars.
    Dollars(Dollars),
    /// Of a token.
    Tokens(Tokens, Token),
}

/// Accounts of micro-dollars.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dollars {
    /// What was there before there was a ledger came from here.
    Before,
    /// What admins minted came from here: below zero by all of it.
    Issued,
    /// The balance of a credit.
    Credit(CreditId),
    /// What was taken of a credit when it was revoked.
    Revoked(CreditId),
    /// The worth of what was paid with a token: below zero by all that was earned with it.
    Exchange(Token),
    /// What a builder earned that is in no payout packet yet.
    Builder(BuilderId),
    /// What the host kept of builders' sales.
    Fees,
    /// What the host's own endpoints earned, and registrations.
    Own,
    /// What a payout packet is to pay.
    Packet(PayoutId),
    /// What packets paid.
    PaidOut,
}

/// Accounts of one token, in its smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tokens {
    /// Who paid: below zero by all that they did.
    Payers,
    /// What came in.
    Treasury,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// CAIP-2.
    pub network: String,
    /// Its address.
    pub token: String,
    /// Whether it is play money.
    pub simulated: bool,
}

/// What an account counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Micro-dollars.
    Dollars,
    /// The smallest units of a token.
    Tokens(Token),
}

impl Token {
    /// What a settlement moved.
    #[must_use]
    pub fn of(settlement: &Settlement, simulated: bool) -> Self {
        Self { network: settlement.network.clone(), token: settlement.asset.clone(), simulated }
    }
}

impl Dollars {
    /// Where what an owner earns goes.
    #[must_use]
    pub fn earned_by(owner: &Owner) -> Self {
        match owner {
            Owner::Platform => Self::Own,
            Owner::Builder(builder) => Self::Builder(builder.clone()),
        }
    }
}

/// What a builder earned that is in no payout packet yet; below zero where more is to be given back.
pub(crate) async fn unpaid(store: &dyn Store, builder: &BuilderId) -> Result<i128, StoreError> {
    ACCOUNTS.get(store, &Account::Dollars(Dollars::Builder(builder.clone())).to_string()).await
}

impl Account {
    /// What it counts.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Self::Dollars(_) => Unit::Dollars,
            Self::Tokens(_, asset) => Unit::Tokens(asset.clone()),
        }
    }

    /// The addition to its balance.
    pub(super) fn add(&self, batch: &mut Batch, by: i128) {
        match self {
            // Its own beside what moved it.
            Self::Dollars(Dollars::Credit(id)) => batch.add(&CREDIT_BALANCES, &(id.clone(), BALANCE), by, of_credit(by)).add(
                &ACCOUNTS,
                &CREDITS_TOGETHER.to_owned(),
                by,
                NONE,
            ),
            Self::Dollars(_) | Self::Tokens(..) => batch.add(&ACCOUNTS, &self.to_string(), by, NONE),
        };
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dollars(Dollars::Before) => f.write_str("before"),
            Self::Dollars(Dollars::Issued) => f.write_str("issued"),
            Self::Dollars(Dollars::Credit(id)) => write!(f, "credit/{id}"),
            Self::Dollars(Dollars::Revoked(id)) => write!(f, "revoked/{id}"),
            Self::Dollars(Dollars::Exchange(asset)) => write!(f, "exchange/{asset}"),
            Self::Dollars(Dollars::Builder(id)) => write!(f, "builder/{id}"),
            Self::Dollars(Dollars::Fees) => f.write_str("fees"),
            Self::Dollars(Dollars::Own) => f.write_str("own"),
            Self::Dollars(Dollars::Packet(id)) => write!(f, "packet/{id}"),
            Self::Dollars(Dollars::PaidOut) => f.write_str("paid-out"),
            Self::Tokens(Tokens::Payers, asset) => write!(f, "payers/{asset}"),
            Self::Tokens(Tokens::Treasury, asset) => write!(f, "treasury/{asset}"),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let play = if self.simulated { "simulated/" } else { "" };
        write!(f, "{play}{}/{}", self.network, self.token)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dollars => f.write_str("micro-USD"),
            Self::Tokens(asset) => asset.fmt(f),
        }
    }
}
