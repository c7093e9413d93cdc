//! Checks that payments, their indexes and their answers are consistent, in a store without writers.

use tollhouse_base::{boxed, check_report::CheckReport};
use tollhouse_store::{Store, StoreError};

use super::{
    OPEN_INTENTS, PAYMENT_NAMES, PAYMENTS,
    answer::PAYMENT_ANSWERS,
    record::{PaymentState, UNRESOLVED},
};

const PAGE: usize = 500;

/// Compares payments and their indexes in both directions.
/// An unreadable row is reported as a flaw.
#[boxed]
pub async fn check_payments(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let mut rows = PAYMENTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let open = row.value.is_open();
        let listed = OPEN_INTENTS.get(store, &row.key).await?.is_some();
        let state = row.value.state;
        flaws.unless(open == listed, || match open {
            true => format!("payment {} is open ({state:?}), but not listed as open: nothing ends it", row.key),
            false => format!("payment {} has ended ({state:?}), but is listed as open", row.key),
        });
        let listed = UNRESOLVED.get(store, &row.key).await?.is_some();
        let consistent = listed == (state == PaymentState::Unresolved);
        flaws.unless(consistent, || format!("payment {} is {state:?}, which the list of unresolved payments contradicts", row.key));
    }
    for (listed, list) in [(UNRESOLVED, "unresolved"), (OPEN_INTENTS, "open")] {
        let mut rows = listed.inspect(store, PAGE);
        while let Some(row) = rows.next(flaws).await? {
            let there = PAYMENTS.found(store, &row.key).await?.is_some();
            flaws.unless(there, || format!("payment {} is listed as {list}, and does not exist", row.key));
        }
    }
    let mut rows = PAYMENT_NAMES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.value).await?.is_some();
        flaws.unless(there, || format!("a payer's name refers to payment {}, which does not exist", row.value));
    }
    let mut rows = PAYMENT_ANSWERS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYMENTS.found(store, &row.key).await?.is_some();
        flaws.unless(there, || format!("an answer belongs to payment {}, which does not exist", row.key));
    }
    Ok(())
}
