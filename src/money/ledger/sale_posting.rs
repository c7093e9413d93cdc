//! The posting of a paid call: from the payer to the owner, and the host's fee.

use tollhouse_base::{clock::Timestamp, id::ReceiptId};
use tollhouse_tool::{MicroUsd, Owner};

use super::{
    account::{Dollars, Token, Tokens},
    posting::{Cause, Posting},
};
use crate::{
    sale::SaleTotals,
    settlement::{Settlement, SettlementKind},
};

/// A paid call.
#[derive(Debug)]
pub struct SoldCall<'a> {
    /// Its receipt.
    pub receipt: &'a ReceiptId,
    /// When the money had moved.
    pub at: Timestamp,
    /// The owner who earns.
    pub owner: &'a Owner,
    /// The price, and the host's fee.
    pub totals: SaleTotals,
    /// The settlement.
    pub settlement: &'a Settlement,
    /// Whether it was paid with play money.
    pub simulated: bool,
}

impl SoldCall<'_> {
    /// Returns its posting.
    #[must_use]
    pub fn posting(&self) -> Posting {
        let posting = Posting::new(Cause::Sold(self.receipt.clone()), self.at);
        let SaleTotals { fees, net, .. } = self.totals;
        let (posting, from) = match self.settlement.kind {
            SettlementKind::Credit => {
                let credit = self.settlement.payer.parse().expect("what is paid by credit names it");
                (posting, Dollars::Credit(credit))
            }
            SettlementKind::X402 => {
                let asset = Token::of(self.settlement, self.simulated);
                (posting.tokens(asset.clone(), Tokens::Payers, Tokens::Treasury, self.units()), Dollars::Exchange(asset))
            }
        };
        if fees + net == 0 {
            return posting;
        }
        posting.earned(from.clone(), Dollars::earned_by(self.owner), MicroUsd(net)).dollars(from, Dollars::Fees, MicroUsd(fees))
    }

    fn units(&self) -> u128 {
        self.settlement.amount.parse().unwrap_or_else(|_| {
            // The money has moved, so an invalid amount must not prevent the receipt.
            tracing::error!(receipt.id = %self.receipt, amount = self.settlement.amount, "a settlement moved an amount that does not read");
            0
        })
    }
}
