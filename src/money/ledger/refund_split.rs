//! The posting of a refund, which takes the sale's money, or a part of it, back to its source.

use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, CreditId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, Owner};

use super::{
    account::{Dollars, Token, Tokens},
    posting::{Cause, Move, Posting},
};

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
