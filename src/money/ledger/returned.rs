//! The posting of a refund: what a sale moved, or a part of it, goes back to where it came from.

use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, CreditId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, Owner};

use super::{
    account::{Dollars, Token, Tokens},
    posting::{Cause, Move, Posting},
};

/// What a sale moved.
#[derive(Debug)]
pub struct Paid {
    from: Dollars,
    to: Dollars,
    net: MicroUsd,
    fees: MicroUsd,
    /// Of x402: which token, and how many of its smallest units.
    tokens: Option<(Token, u128)>,
}

/// A part of what a sale moved, on its way back.
#[derive(Debug)]
pub struct Returned {
    /// What moves it.
    pub posting: Posting,
    /// What the host gives of it.
    pub fees: MicroUsd,
    /// What who earned gives of it.
    pub net: MicroUsd,
}

impl Paid {
    /// What the posting of a sale says; `None` of any other.
    #[must_use]
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

    /// What was paid.
    #[must_use]
    pub fn price(&self) -> MicroUsd {
        MicroUsd(self.net.0.saturating_add(self.fees.0))
    }

    /// The credit that paid, if one did.
    #[must_use]
    pub fn credit(&self) -> Option<&CreditId> {
        if let Dollars::Credit(id) = &self.from { Some(id) } else { None }
    }

    /// The builder who earned, if one did.
    #[must_use]
    pub fn builder(&self) -> Option<&BuilderId> {
        if let Dollars::Builder(id) = &self.to { Some(id) } else { None }
    }

    /// Who earned.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.builder().map_or(Owner::Platform, |builder| Owner::Builder(builder.clone()))
    }

    /// Gives `amount` back where `before` was given back already; together they are no more than the price. Fee and tokens go back in
    /// the proportion of all that was given back, rounded down, so that the last refund has what the others left.
    #[must_use]
    pub fn returned(&self, receipt: &ReceiptId, number: u64, at: Timestamp, before: MicroUsd, amount: MicroUsd) -> Returned {
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
        Returned { posting, fees, net }
    }

    /// What of `whole` is to `refunded` as all of it to the price.
    fn share(&self, whole: u128, refunded: MicroUsd) -> u128 {
        let (price, refunded) = (u128::from(self.price().0.max(1)), u128::from(refunded.0));
        // In two steps: a token's units and a price together may be more than the number holds.
        whole / price * refunded + whole % price * refunded / price
    }
}
