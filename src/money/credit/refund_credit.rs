//! Refunds the price of a call to a credit.

use tollhouse_base::{
    clock::Timestamp,
    id::{CreditId, ReceiptId},
};
use tollhouse_store::Tx;
use tollhouse_tool::{MicroUsd, Slug};

use super::{
    Credits,
    balance::CREDITS,
    error::CreditError,
    row::{Movement, MovementKind},
};

/// A full or partial refund of a call.
pub(crate) struct CreditRefund<'a> {
    /// The credit that paid.
    pub(crate) credit: &'a CreditId,
    /// Number of the refund's movement.
    pub(crate) number: u64,
    /// Time of the refund.
    pub(crate) at: Timestamp,
    /// The refunded amount.
    pub(crate) amount: MicroUsd,
    /// Receipt of the call.
    pub(crate) receipt: &'a ReceiptId,
    /// The called tool.
    pub(crate) slug: &'a Slug,
}

impl Credits {
    /// Adds the movement of a refund to `tx`, whose posting adds it to the balance. The budgets still count the amount
    /// as spent.
    pub(crate) async fn refund(tx: &mut Tx<'_>, given: CreditRefund<'_>) -> Result<(), CreditError> {
        let CreditRefund { credit, number, at, amount, receipt, slug } = given;
        if tx.get(&CREDITS, credit).await?.ok_or(CreditError::Unknown)?.revoked.is_some() {
            return Err(CreditError::Revoked);
        }
        let (receipt_id, slug) = (Some(receipt.to_string()), Some(slug.clone()));
        let movement = Movement { receipt_id, slug, ..Movement::plain(at, MovementKind::Refund, amount) };
        tx.append(movement.stored(credit, number));
        Ok(())
    }
}
