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
