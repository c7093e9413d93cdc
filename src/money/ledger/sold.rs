//! The posting of a call that was paid: from who paid to who earned, and the host's share.

use tollhouse_base::{clock::Timestamp, id::ReceiptId};
use tollhouse_tool::{MicroUsd, Owner};

use super::{
    account::{Dollars, Token, Tokens},
    posting::{Cause, Posting},
};
use crate::{
    sale::Totals,
    settlement::{Settlement, SettlementKind},
};

/// A call that was paid.
#[derive(Debug)]
pub struct Sold<'a> {
    /// Its receipt.
    pub receipt: &'a ReceiptId,
    /// When the money had moved.
    pub at: Timestamp,
    /// Who earns.
    pub owner: &'a Owner,
    /// What came in, and what the host keeps of it.
    pub totals: Totals,
    /// How it was paid.
    pub settlement: &'a Settlement,
    /// Whether with play money.
    pub simulated: bool,
}

impl Sold<'_> {
    /// Its posting.
    #[must_use]
    pub fn posting(&self) -> Posting {
        let posting = Posting::new(Cause::Sold(self.receipt.clone()), self.at);
        let Totals { fees, net, .. } = self.totals;
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
            // The money has moved: what is wrong with its amount must not keep the receipt from being written.
            tracing::error!(receipt.id = %self.receipt, amount = self.settlement.amount, "a settlement moved an amount that does not read");
            0
        })
    }
}
