//! Giving back to a credit what a call cost.

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
    line::{Movement, MovementKind},
};

/// What a call cost, or a part of it.
pub(crate) struct GivenBack<'a> {
    /// Whose it was.
    pub(crate) credit: &'a CreditId,
    /// The number of its movement.
    pub(crate) number: u64,
    /// When it is given.
    pub(crate) at: Timestamp,
    /// How much of it.
    pub(crate) amount: MicroUsd,
    /// Of the call.
    pub(crate) receipt: &'a ReceiptId,
    /// What was called.
    pub(crate) slug: &'a Slug,
}

impl Credits {
    /// Enters the movement of a refund in the commit of `tx`, whose posting adds it to the balance. What was spent of its budgets
    /// stays spent.
    pub(crate) async fn give_back(tx: &mut Tx<'_>, given: GivenBack<'_>) -> Result<(), CreditError> {
        let GivenBack { credit, number, at, amount, receipt, slug } = given;
        if tx.get(&CREDITS, credit).await?.ok_or(CreditError::Unknown)?.revoked.is_some() {
            return Err(CreditError::Revoked);
        }
        let (receipt_id, slug) = (Some(receipt.to_string()), Some(slug.clone()));
        let movement = Movement { receipt_id, slug, ..Movement::plain(at, MovementKind::Refund, amount) };
        tx.append(movement.stored(credit, number));
        Ok(())
    }
}
