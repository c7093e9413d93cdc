//! Postings: amounts that move from one account to another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{CreditId, PayoutId, ReceiptId},
};
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::MicroUsd;

use super::account::{Account, Dollars, Token, Tokens};

pub(crate) const POSTINGS: Table<String, Posting> = schema::POSTINGS.holding();
tollhouse_store::postcard_values!(Posting);

/// Maximum units of a token per posting. No token has as many, and sums of postings do not overflow.
const MAX_UNITS: u128 = 1 << 100;

/// Movements with their cause and time. Stored as postcard once, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    /// When it was made, in milliseconds since 1970.
    at_ms: u64,
    cause: Cause,
    moves: Vec<Move>,
}

/// The cause of a posting, which is also its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// An admin created a credit or added to it. The number is that of the movement.
    Minted(CreditId, u64),
    /// An admin revoked or restored a credit. The number is that of the movement.
    Judged(CreditId, u64),
    /// A call or a registration was paid.
    Sold(ReceiptId),
    /// A payout collected receipts, starting with this one.
    Packed(PayoutId, ReceiptId),
    /// A payout was paid.
    PaidOut(PayoutId),
    /// An admin refunded a receipt. The number is that of the refund.
    Refunded(ReceiptId, u64),
    /// A payout withheld refunds of earlier sales.
    Withheld(PayoutId),
    /// A rejected payout returned receipts, starting with this one.
    Returned(PayoutId, ReceiptId),
    /// A rejected payout returned the refunds that it had withheld.
    OwedAgain(PayoutId),
}

/// An amount that moves from one account to another of its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// Micro-dollars.
    Dollars {
        /// The account that gives.
        from: Dollars,
        /// The account that receives.
        to: Dollars,
        /// The amount in micro-dollars.
        micros: u64,
    },
    /// A token.
    Tokens {
        /// The token.
        asset: Token,
        /// The account that gives.
        from: Tokens,
        /// The account that receives.
        to: Tokens,
        /// The amount in the token's smallest units.
        units: u128,
    },
}

impl Posting {
    /// Constructs an empty posting.
    pub fn new(cause: Cause, at: Timestamp) -> Self {
        Self { at_ms: at.0, cause, moves: Vec::with_capacity(3) }
    }

    /// Adds a movement of dollars, unless the amount is zero.
    #[must_use]
    pub fn dollars(mut self, from: Dollars, to: Dollars, amount: MicroUsd) -> Self {
        if !amount.is_zero() {
            self.moves.push(Move::Dollars { from, to, micros: amount.0 });
        }
        self
    }

    /// Adds the owner's net earnings, even if they are zero, so that the posting names the owner.
    #[must_use]
    pub(super) fn earned(mut self, from: Dollars, to: Dollars, net: MicroUsd) -> Self {
        self.moves.push(Move::Dollars { from, to, micros: net.0 });
        self
    }

    /// Adds a movement of tokens.
    #[must_use]
    pub fn tokens(mut self, asset: Token, from: Tokens, to: Tokens, units: u128) -> Self {
        self.moves.push(Move::Tokens { asset, from, to, units: units.min(MAX_UNITS) });
        self
    }

    /// Returns its cause.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Returns its movements.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns the changes of account balances. For each unit they sum to zero.
    pub fn changes(&self) -> BTreeMap<Account, i128> {
        let mut changes = BTreeMap::new();
        for moved in &self.moves {
            let (from, to, amount) = moved.ends();
            *changes.entry(from).or_default() -= amount;
            *changes.entry(to).or_default() += amount;
        }
        changes
    }

    /// Returns the rows that store it, unless a posting has the same cause, and add it to the balances.
    #[must_use]
    pub fn stored(&self) -> Batch {
        let mut batch = Batch::new();
        if !self.moves.is_empty() {
            batch.insert(&POSTINGS, &self.cause.key(), self);
            self.changes().iter().filter(|(_, by)| **by != 0).for_each(|(account, by)| account.add(&mut batch, *by));
        }
        batch
    }
}

impl Move {
    /// Returns the account that gives, the one that receives, and the amount.
    fn ends(&self) -> (Account, Account, i128) {
        match self {
            Self::Dollars { from, to, micros } => (Account::Dollars(from.clone()), Account::Dollars(to.clone()), (*micros).into()),
            Self::Tokens { asset, from, to, units } => {
                let account = |of: &Tokens| Account::Tokens(*of, asset.clone());
                (account(from), account(to), i128::try_from(*units).unwrap_or_default())
            }
        }
    }
}

impl Cause {
    /// Returns the key of the posting. Each cause has one posting.
    pub fn key(&self) -> String {
        match self {
            Self::Minted(credit, movement) => format!("minted/{credit}/{movement}"),
            Self::Judged(credit, movement) => format!("judged/{credit}/{movement}"),
            Self::Sold(receipt) => format!("sold/{receipt}"),
            Self::Packed(payout, first) => format!("packed/{payout}/{first}"),
            Self::PaidOut(payout) => format!("paid-out/{payout}"),
            Self::Refunded(receipt, number) => format!("refunded/{receipt}/{number}"),
            Self::Withheld(payout) => format!("withheld/{payout}"),
            Self::Returned(payout, first) => format!("returned/{payout}/{first}"),
            Self::OwedAgain(payout) => format!("owed-again/{payout}"),
        }
    }
}
