//! Giving back to a credit what a call cost.

use super::{
    Credits,
    balance::CREDITS,
    error::CreditError,
    line::{Movement, MovementKind},
};
use crate::{
    base::{
        clock::Timestamp,
        id::{CreditId, ReceiptId},
    },
    store::Tx,
    tool::{MicroUsd, Slug},
};

/// What a call cost, or a part of it.
pub(in crate::money) struct GivenBack<'a> {
    /// Whose it was.
    pub(in crate::money) credit: &'a CreditId,
    /// The number of its movement.
    pub(in crate::money) number: u64,
    /// When it is given.
    pub(in crate::money) at: Timestamp,
    /// How much of it.
    pub(in crate::money) amount: MicroUsd,
    /// Of the call.
    pub(in crate::money) receipt: &'a ReceiptId,
    /// What was called.
    pub(in crate::money) slug: &'a Slug,
}

impl Credits {
    /// Enters the movement of a refund in the commit of `tx`, whose posting adds it to the balance. What was spent of its budgets
    /// stays spent.
    pub(in crate::money) async fn give_back(tx: &mut Tx<'_>, given: GivenBack<'_>) -> Result<(), CreditError> {
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
