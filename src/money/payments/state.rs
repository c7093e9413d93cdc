//! The public state of a payment, and who may see its purchase.

use tollhouse_store::StoreError;

use super::{PAYMENTS, PaymentState, Payments};
use crate::{CreditOffer, OfferedPayment, PaymentId, x402::offer::ShownPayment};

impl Payments {
    /// Returns the state of a payment, with its receipt and transaction, and what a reorganization did to it.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn state(&self, id: &PaymentId) -> Result<Option<PaymentState>, StoreError> {
        let Some(record) = PAYMENTS.get(&*self.store, id).await? else { return Ok(None) };
        let state = record.public(id);
        let receipt = state.receipt_id.as_ref().filter(|_| state.transaction.is_some()).and_then(|receipt| receipt.parse().ok());
        let settlement = match receipt {
            Some(receipt) => self.reorganization(&receipt).await?,
            None => None,
        };
        Ok(Some(PaymentState { settlement, ..state }))
    }

    /// Returns whether an offered payment is this payment, or the developer credit that paid for it. The id alone
    /// proves nothing, because anybody can compute it from public data of the chain.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn is_payer(&self, id: &PaymentId, offered: &OfferedPayment) -> Result<bool, StoreError> {
        let digest = match offered {
            OfferedPayment::Nothing => None,
            // A chain publishes signatures too.
            OfferedPayment::X402 { version, header } if offered.is_private() => {
                let known = ShownPayment::decode(*version, header).ok().and_then(|shown| shown.known());
                known.filter(|(shown, _)| shown == id).map(|(_, digest)| digest)
            }
            OfferedPayment::X402 { .. } => None,
            OfferedPayment::Credit(CreditOffer { token, .. }) => self.credits.find(token).await?.map(|credit| credit.id.to_string()),
        };
        let Some(digest) = digest else { return Ok(false) };
        Ok(PAYMENTS.get(&*self.store, id).await?.is_some_and(|record| record.digest == digest))
    }
}
