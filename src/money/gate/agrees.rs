//! Whether payments, what finds them, and their answers agree: of a store that nobody writes to.

use super::{OPEN_INTENTS, PAYMENT_NAMES, PAYMENTS, answer::PAYMENT_ANSWERS, record::State};
use crate::{
    base::flaws::Flaws,
    store::{Store, StoreError},
};

/// Rows that are read at once.
const PAGE: usize = 500;

/// Holds the indexes of payments against the payments, and back.
///
/// # Errors
///
/// The store's. A row that does not read is told as a flaw.
pub async fn check_payments(store: &dyn Store, flaws: &mut Flaws) -> Result<(), StoreError> {
    let mut range = PAYMENTS.all();
    while let Some(page) = PAYMENTS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let open = matches!(row.value.state, State::Reserved | State::Settling);
            let listed = OPEN_INTENTS.get(store, &row.key).await?.is_some();
            let stands = row.value.state;
            flaws.unless(open == listed, || match open {
                true => format!("payment {} is open ({stands:?}), and is not among the open ones: nobody ends it", row.key),
                false => format!("payment {} has ended ({stands:?}), and is among the open ones", row.key),
            });
        }
    }
    let mut range = OPEN_INTENTS.all();
    while let Some(page) = OPEN_INTENTS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = PAYMENTS.found(store, &row.key).await?.is_some();
            flaws.unless(there, || format!("payment {} is among the open ones, and is not there", row.key));
        }
    }
    let mut range = PAYMENT_NAMES.all();
    while let Some(page) = PAYMENT_NAMES.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = PAYMENTS.found(store, &row.value).await?.is_some();
            flaws.unless(there, || format!("a payer's name stands for payment {}, which is not there", row.value));
        }
    }
    let mut range = PAYMENT_ANSWERS.all();
    while let Some(page) = PAYMENT_ANSWERS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = PAYMENTS.found(store, &row.key).await?.is_some();
            flaws.unless(there, || format!("an answer is for payment {}, which is not there", row.key));
        }
    }
    Ok(())
}
