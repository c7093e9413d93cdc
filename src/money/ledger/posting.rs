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

/// Most units of a token that one posting moves. No token has as many; sums of those that there could be hold.
const MAX_UNITS: u128 = 1 << 100;

/// What moved, why and when. Stored as postcard, once, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    /// When it was made, in milliseconds since 1970.
    at_ms: u64,
    cause: Cause,
    moves: Vec<Move>,
}

/// Why money moved: what the posting is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The account, by its name, had it before there was a ledger.
    Opened(String),
    /// An admin made a credit, or added to it: by this movement of it.
    Minted(CreditId, u64),
    /// An admin revoked a credit, or restored it: by this movement of it.
    Judged(CreditId, u64),
    /// A call, or a registration, was paid.
    Sold(ReceiptId),
    /// A packet took receipts, from this one on.
    Packed(PayoutId, ReceiptId),
    /// A packet was paid.
    PaidOut(PayoutId),
    /// An admin gave back of what a receipt paid, under this number.
    Refunded(ReceiptId, u64),
    /// A packet left out what was given back of earlier sales.
    Withheld(PayoutId),
}

/// An amount that moves from one account to another of its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// Micro-dollars.
    Dollars {
        /// Who gives.
        from: Dollars,
        /// Who gets.
        to: Dollars,
        /// How many.
        micros: u64,
    },
    /// A token.
    Tokens {
        /// Which.
        asset: Token,
        /// Who gives.
        from: Tokens,
        /// Who gets.
        to: Tokens,
        /// How many of its smallest units.
        units: u128,
    },
}

impl Posting {
    /// One that moves nothing yet.
    #[must_use]
    pub fn new(cause: Cause, at: Timestamp) -> Self {
        Self { at_ms: at.0, cause, moves: Vec::with_capacity(3) }
    }

    /// Moves dollars too.
    #[must_use]
    pub fn dollars(mut self, from: Dollars, to: Dollars, amount: MicroUsd) -> Self {
        if !amount.is_zero() {
            self.moves.push(Move::Dollars { from, to, micros: amount.0 });
        }
        self
    }

    /// Names who earned, also where all of a price is the host's.
    #[must_use]
    pub(super) fn earned(mut self, from: Dollars, to: Dollars, net: MicroUsd) -> Self {
        self.moves.push(Move::Dollars { from, to, micros: net.0 });
        self
    }

    /// Moves tokens too.
    #[must_use]
    pub fn tokens(mut self, asset: Token, from: Tokens, to: Tokens, units: u128) -> Self {
        self.moves.push(Move::Tokens { asset, from, to, units: units.min(MAX_UNITS) });
        self
    }

    /// Why it was made.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// What moves.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// What it makes of the balances of accounts. Those of each unit come to nothing together: all that one is given another
    /// gives.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<Account, i128> {
        let mut changes = BTreeMap::new();
        for moved in &self.moves {
            let (from, to, amount) = moved.ends();
            *changes.entry(from).or_default() -= amount;
            *changes.entry(to).or_default() += amount;
        }
        changes
    }

    /// What writes it, where no other has its cause, and adds it to the balances.
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
    /// Who gives, who gets, and how much.
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
    /// The name of the posting: there is one for a cause.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Opened(account) => format!("opened/{account}"),
            Self::Minted(credit, movement) => format!("minted/{credit}/{movement}"),
            Self::Judged(credit, movement) => format!("judged/{credit}/{movement}"),
            Self::Sold(receipt) => format!("sold/{receipt}"),
            Self::Packed(payout, first) => format!("packed/{payout}/{first}"),
            Self::PaidOut(payout) => format!("paid-out/{payout}"),
            Self::Refunded(receipt, number) => format!("refunded/{receipt}/{number}"),
            Self::Withheld(payout) => format!("withheld/{payout}"),
        }
    }
}
