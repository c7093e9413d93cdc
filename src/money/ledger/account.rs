//! Accounts of the ledger and their units.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollhouse_base::id::{BuilderId, CreditId, PayoutId};
use tollhouse_store::{Batch, Counter, Store, StoreError, SumLimit, Tx, schema};
use tollhouse_tool::{MicroUsd, Owner};

use crate::credit::row::{BALANCE, LINES};

pub(crate) const ACCOUNTS: Counter<String> = schema::ACCOUNTS.counting();
pub(crate) const CREDIT_BALANCES: Counter<(CreditId, u64)> = LINES.counting();

/// Name of the account that sums all credits, so that one scan reads all accounts.
pub(crate) const CREDITS_TOGETHER: &str = "credits";

/// No limit: the account may be negative by any amount.
const NONE: SumLimit = SumLimit::Floor(i128::MIN);

/// Returns the limit of a credit's balance: it cannot become negative or too large to represent exactly.
const fn of_credit(by: i128) -> SumLimit {
    match by {
        ..0 => SumLimit::Floor(0),
        0.. => SumLimit::Ceiling(MicroUsd::MAX.0 as i128),
    }
}

/// An account of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// An account in dollars.
    Dollars(Dollars),
    /// An account in a token.
    Tokens(Tokens, Token),
}

/// Accounts of micro-dollars.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dollars {
    /// Source of the credits that admins minted. Its balance is negative.
    Issued,
    /// The balance of a credit.
    Credit(CreditId),
    /// The amount taken from a revoked credit.
    Revoked(CreditId),
    /// Source of the worth of token payments. Its balance is negative.
    Exchange(Token),
    /// A builder's earnings that are not in a payout yet.
    Builder(BuilderId),
    /// The host's fees on builders' sales.
    Fees,
    /// Earnings of the host's own tools and of registrations.
    Own,
    /// The amount of a payout that is to be paid.
    Packet(PayoutId),
    /// The amount of all paid payouts.
    PaidOut,
}

/// Accounts of one token, in its smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tokens {
    /// Source of payments. Its balance is negative.
    Payers,
    /// The payments received.
    Treasury,
}

/// A token, as the unit of an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The network's CAIP-2 id.
    pub network: String,
    /// Its address.
    pub token: String,
    /// Whether it is play money.
    pub simulated: bool,
}

/// The unit of dollar accounts.
pub(crate) const DOLLARS: &str = "micro-USD";

impl Dollars {
    /// Returns the account for an owner's earnings.
    pub fn earned_by(owner: &Owner) -> Self {
        match owner {
            Owner::Platform => Self::Own,
            Owner::Builder(builder) => Self::Builder(builder.clone()),
        }
    }
}

/// Returns a builder's earnings that are not in a payout yet. Negative if refunds exceed them.
pub(crate) async fn unpaid(store: &dyn Store, builder: &BuilderId) -> Result<i128, StoreError> {
    ACCOUNTS.get(store, &Account::Dollars(Dollars::Builder(builder.clone())).to_string()).await
}

/// Returns the amount taken from a credit that is revoked. The commit fails if it changes.
pub(crate) async fn revoked(tx: &mut Tx<'_>, credit: &CreditId) -> Result<MicroUsd, StoreError> {
    let account = Account::Dollars(Dollars::Revoked(credit.clone())).to_string();
    let taken = tx.get(&ACCOUNTS.rows(), &account).await?.map_or(0, |sum| sum.0);
    Ok(MicroUsd(u64::try_from(taken).unwrap_or(0)))
}

impl Account {
    /// Returns its unit: [`DOLLARS`], or the smallest units of a token.
    pub fn unit(&self) -> String {
        match self {
            Self::Dollars(_) => DOLLARS.to_owned(),
            Self::Tokens(_, asset) => asset.to_string(),
        }
    }

    pub(super) fn add(&self, batch: &mut Batch, by: i128) {
        match self {
            // A credit's balance is next to its movements.
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
