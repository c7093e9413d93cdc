//! Checks that payments, their indexes and their answers are consistent, in a store without writers.

use tollhouse_base::check_report::CheckReport;
use tollhouse_store::{Store, StoreError};

use super::{OPEN_INTENTS, PAYMENT_NAMES, PAYMENTS, answer::PAYMENT_ANSWERS, record::PaymentPhase};
use crate::unresolved::UNRESOLVED;

/// Number of rows read at once.
const PAGE: usize = 500;

/// Compares payments and their indexes in both directions.
///
/// # Errors
///
/// Errors of the store. An unreadable row is reported as a flaw.
pub async fn check_payments(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let mut rows = PAYMENTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let open = row.value.is_open();
        let listed = OPEN_INTENTS.get(store, &row.key).await?.is_some();
        let stands = row.value.state;
        flaws.unless(open == listed, || match open {
            true => format!("payment {} is open ({stands:?}), and is not among the open ones: nobody ends it", row.key),
            false => format!("payment {} has ended ({stands:?}), and is among the open ones", row.key),
        });
        let listed = UNRESOLVED.get(store, &row.key).await?.is_some();
        let consistent = listed == (stands == PaymentPhase::Unresolved);
        flaws.unless(consistent, || format!("payment {} is {stands:?}, and the list of unresolved ones says otherwise", row.key));
    }
    let mut rows = UNRESOLVED.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("payment {} is among the unresolved ones, and does not exist", row.key));
    }
    let mut rows = OPEN_INTENTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("payment {} is among the open ones, and is not there", row.key));
    }
    let mut rows = PAYMENT_NAMES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.value).await?.is_some();
        flaws.unless(there, || format!("a payer's name stands for payment {}, which is not there", row.value));
    }
    let mut rows = PAYMENT_ANSWERS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("an answer is for payment {}, which is not there", row.key));
    }
    Ok(())
}
