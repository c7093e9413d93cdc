//! Checks that payouts, their indexes and their counts are consistent, in a store without writers.

use tollhouse_base::check_report::CheckReport;
use tollhouse_store::{Store, StoreError};

use super::{
    PAYOUT_BUILDERS, PAYOUTS, key,
    states::{PAYOUT_STATES, PacketCounts},
};

const PAGE: usize = 500;

/// Compares payouts with their indexes and counts, in both directions.
/// An unreadable row is reported as a flaw.
pub async fn check_packets(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let mut counts = PacketCounts::default();
    let mut rows = PAYOUTS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (id, packet) = (&row.key.1, &row.value);
        let owner = PAYOUT_BUILDERS.get(store, id).await?;
        flaws.unless(owner.as_ref() == Some(&packet.builder_id), || {
            format!("payout packet {id} is of {}, and is found as {owner:?}'s", packet.builder_id)
        });
        counts.add(packet.status);
        let stands = PAYOUT_STATES.get(store, &(packet.status.number(), id.clone())).await?;
        flaws.unless(stands.as_ref() == Some(&packet.builder_id), || {
            format!("payout packet {id} is `{}`, and is not found among those", packet.status.as_str())
        });
    }
    let mut rows = PAYOUT_BUILDERS.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let there = PAYOUTS.found(store, &key(&row.value, &row.key)).await?.is_some();
        flaws.unless(there, || format!("payout packet {} is found as {}'s, and is not there", row.key, row.value));
    }
    let mut rows = PAYOUT_STATES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (number, id) = &row.key;
        let packet = PAYOUTS.get(store, &key(&row.value, id)).await?;
        let stands = packet.is_some_and(|packet| packet.status.number() == *number);
        flaws.unless(stands, || format!("payout packet {id} is found in a state, number {number}, that it is not in"));
    }
    let stored = PacketCounts::stored(store).await?;
    flaws.unless(stored == counts, || format!("payout packets are counted as {stored:?}, and are {counts:?}"));
    Ok(())
}
