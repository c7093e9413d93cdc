//! Checks that payouts, their indexes and their counts are consistent, in a store without writers.

use tollhouse_api::PayoutCounts;
use tollhouse_base::{boxed, check_report::CheckReport};
use tollhouse_store::{Store, StoreError};

use super::{
    PAYOUT_BUILDERS, PAYOUTS, key,
    states::{PAYOUT_STATES, count_of, stored_counts},
};

const PAGE: usize = 500;

/// Compares payouts with their indexes and counts, in both directions.
/// An unreadable row is reported as a flaw.
#[boxed]
pub async fn check_packets(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let mut counts = PayoutCounts::default();
    let mut rows = PAYOUTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (id, packet) = (&row.key.1, &row.value);
        let owner = PAYOUT_BUILDERS.get(store, id).await?;
        flaws.unless(owner.as_ref() == Some(&packet.builder_id), || {
            format!("payout {id} belongs to {}, but is listed for {owner:?}", packet.builder_id)
        });
        *count_of(&mut counts, packet.status) += 1;
        let stands = PAYOUT_STATES.get(store, &(packet.status as u8, id.clone())).await?;
        flaws.unless(stands.as_ref() == Some(&packet.builder_id), || {
            format!("payout {id} is `{}`, but is not listed in that state", packet.status.as_str())
        });
    }
    let mut rows = PAYOUT_BUILDERS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYOUTS.found(store, &key(&row.value, &row.key)).await?.is_some();
        flaws.unless(there, || format!("payout {} is listed for {}, but does not exist", row.key, row.value));
    }
    let mut rows = PAYOUT_STATES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (number, id) = &row.key;
        let packet = PAYOUTS.get(store, &key(&row.value, id)).await?;
        let stands = packet.is_some_and(|packet| packet.status as u8 == *number);
        flaws.unless(stands, || format!("payout {id} is listed in state number {number}, but is not in it"));
    }
    let stored = stored_counts(store).await?;
    flaws.unless(stored == counts, || format!("payouts are counted as {stored:?}, but are {counts:?}"));
    Ok(())
}
