//! Whether payout packets and what finds them agree: of a store that nobody writes to.

use super::{PAYOUT_BUILDERS, PAYOUTS};
use crate::{
    base::flaws::Flaws,
    store::{Ended, Store, StoreError},
};

/// Rows that are read at once.
const PAGE: usize = 500;

/// Holds the index of packets against the packets, and back.
///
/// # Errors
///
/// The store's. A row that does not read is told as a flaw.
pub async fn check_packets(store: &dyn Store, flaws: &mut Flaws) -> Result<(), StoreError> {
    let mut range = PAYOUTS.all();
    while let Some(page) = PAYOUTS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let whose = PAYOUT_BUILDERS.get(store, &row.key.1).await?;
            flaws.unless(whose.as_ref() == Some(&row.value.builder_id), || {
                format!("payout packet {} is of {}, and is found as {whose:?}'s", row.key.1, row.value.builder_id)
            });
        }
    }
    let mut range = PAYOUT_BUILDERS.all();
    while let Some(page) = PAYOUT_BUILDERS.next(store, &mut range, PAGE).await? {
        for row in page {
            let Some(row) = flaws.sound(row) else { continue };
            let there = PAYOUTS.found(store, &(Ended(row.value.to_string()), row.key.clone())).await?.is_some();
            flaws.unless(there, || format!("payout packet {} is found as {}'s, and is not there", row.key, row.value));
        }
    }
    Ok(())
}
