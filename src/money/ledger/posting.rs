//! Postings: amounts that move from one account to another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, CreditId, PayoutId, ReceiptId},
};
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::{MicroUsd, Owner};

use super::account::{Account, Dollars, Token, Tokens};
use crate::{
    sale::SaleTotals,
    settlement::{Settlement, SettlementKind},
};

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
    /// Units of a token.
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

    /// Returns the sale, payout or other event that caused the posting.
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

impl Posting {
    /// Constructs the posting of a paid call, whose money had moved at `at`. `simulated` marks play money.
    pub(crate) fn sale(
        receipt: &ReceiptId,
        at: Timestamp,
        owner: &Owner,
        SaleTotals { fees, net, .. }: SaleTotals,
        settlement: &Settlement,
        simulated: bool,
    ) -> Self {
        let posting = Self::new(Cause::Sold(receipt.clone()), at);
        let (posting, from) = match settlement.kind {
            SettlementKind::Credit => (posting, Dollars::Credit(settlement.payer.parse().expect("a debit names its credit as the payer"))),
            SettlementKind::X402 => {
                let units = settlement.amount.parse().unwrap_or_else(|_| {
                    // The money has moved, so an invalid amount must not prevent the receipt.
                    tracing::error!(receipt.id = %receipt, amount = settlement.amount, "the amount of a settlement is invalid");
                    0
                });
                let asset = Token { network: settlement.network.clone(), token: settlement.asset.clone(), simulated };
                (posting.tokens(asset.clone(), Tokens::Payers, Tokens::Treasury, units), Dollars::Exchange(asset))
            }
        };
        if fees + net == 0 {
            return posting;
        }
        posting.earned(from.clone(), Dollars::earned_by(owner), MicroUsd(net)).dollars(from, Dollars::Fees, MicroUsd(fees))
    }
}

/// The amounts that a sale moved.
#[derive(Debug)]
pub struct SaleAmounts {
    from: Dollars,
    to: Dollars,
    net: MicroUsd,
    fees: MicroUsd,
    /// For x402: the token, and the amount in its smallest units.
    tokens: Option<(Token, u128)>,
}

/// A full or partial refund of a sale.
#[derive(Debug)]
pub struct RefundAmounts {
    /// The posting that moves it.
    pub posting: Posting,
    /// The host's part of the refund.
    pub fees: MicroUsd,
    /// The owner's part of the refund.
    pub net: MicroUsd,
}

impl SaleAmounts {
    /// Reads the posting of a sale. `None` for any other posting.
    pub fn of(posting: &Posting) -> Option<Self> {
        let (mut fees, mut tokens, mut earned) = (MicroUsd::ZERO, None, None);
        for moved in posting.moves() {
            match moved {
                Move::Dollars { to: Dollars::Fees, micros, .. } => fees = MicroUsd(*micros),
                Move::Dollars { from, to, micros } => earned = Some((from.clone(), to.clone(), MicroUsd(*micros))),
                Move::Tokens { asset, units, .. } => tokens = Some((asset.clone(), *units)),
            }
        }
        let (from, to, net) = earned.filter(|_| matches!(posting.cause(), Cause::Sold(_)))?;
        Some(Self { from, to, net, fees, tokens })
    }

    /// Returns the price.
    pub fn price(&self) -> MicroUsd {
        MicroUsd(self.net.0.saturating_add(self.fees.0))
    }

    /// Returns the credit that paid, if one did.
    pub fn credit(&self) -> Option<&CreditId> {
        if let Dollars::Credit(id) = &self.from { Some(id) } else { None }
    }

    /// Returns the builder who earned, if one did.
    pub fn builder(&self) -> Option<&BuilderId> {
        if let Dollars::Builder(id) = &self.to { Some(id) } else { None }
    }

    /// Returns the owner who earned.
    pub fn owner(&self) -> Owner {
        self.builder().map_or(Owner::Platform, |builder| Owner::Builder(builder.clone()))
    }

    /// Refunds `amount` after `before` was refunded earlier. Together they must not exceed the price. Fee and tokens
    /// are refunded in proportion to the total refunded so far, rounded down, so that the last refund gets the
    /// remainder.
    #[must_use]
    pub fn returned(&self, receipt: &ReceiptId, number: u64, at: Timestamp, before: MicroUsd, amount: MicroUsd) -> RefundAmounts {
        let after = MicroUsd(before.0 + amount.0);
        let part = |whole: u128| self.share(whole, after) - self.share(whole, before);
        let fees = u64::try_from(part(self.fees.0.into())).map_or(self.fees, MicroUsd);
        let net = MicroUsd(amount.0 - fees.0);
        let posting = Posting::new(Cause::Refunded(receipt.clone(), number), at);
        let posting = match &self.tokens {
            Some((asset, units)) => posting.tokens(asset.clone(), Tokens::Treasury, Tokens::Payers, part(*units)),
            None => posting,
        };
        let posting = posting.dollars(self.to.clone(), self.from.clone(), net).dollars(Dollars::Fees, self.from.clone(), fees);
        RefundAmounts { posting, fees, net }
    }

    /// Returns the part of `whole` that is proportional to `refunded` of the price.
    fn share(&self, whole: u128, refunded: MicroUsd) -> u128 {
        let (price, refunded) = (u128::from(self.price().0.max(1)), u128::from(refunded.0));
        // In two steps, because the product of token units and price may overflow.
        whole / price * refunded + whole % price * refunded / price
    }
}
