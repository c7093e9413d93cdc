//! Successive versions of the program on one store.

use super::*;
use crate::formats::{Formats, OWN, WRITTEN};

const BEFORE: KnownFormats = KnownFormats { reads: 4, writes: 4 };
/// Reads what the next version will write.
const BETWEEN: KnownFormats = KnownFormats { reads: 5, writes: 4 };
const AFTER: KnownFormats = KnownFormats { reads: 5, writes: 5 };

fn of(store: &Arc<FaultyStore<MemoryStore>>, known: KnownFormats) -> Arc<Replica> {
    Replica::knowing(Arc::clone(store) as _, Clock::default(), known)
}

async fn start(replica: &Arc<Replica>) -> Result<Arc<AppliedChanges>, JoinError> {
    replica.begin().await?;
    let holds = Arc::new(AppliedChanges::default());
    replica.follow(Arc::clone(&holds) as _).await?;
    Ok(holds)
}

#[tokio::test(start_paused = true)]
async fn a_version_replaces_the_previous_one_while_both_serve() {
    let (store, _) = shared();
    let (first, second) = (of(&store, BEFORE), of(&store, BETWEEN));
    let _held = (start(&first).await.unwrap(), start(&second).await.unwrap());
    let mut listed: Vec<_> = first.seen().await.unwrap().into_iter().map(|seen| seen.formats).collect();
    listed.sort_unstable();
    assert_eq!(listed, [4, 5]);
    first.leave().await;
    let third = of(&store, AFTER);
    let _holds = start(&third).await.unwrap();
    let again = start(&of(&store, BEFORE)).await.unwrap_err();
    assert!(matches!(again, JoinError::Later { written: 5, reads: 4 }), "{again}");
    start(&of(&store, BETWEEN)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_host_writes_a_format_that_another_one_does_not_read() {
    let (store, clock) = shared();
    let old = of(&store, BEFORE);
    let _holds = start(&old).await.unwrap();
    let refused = start(&of(&store, AFTER)).await.unwrap_err();
    assert!(matches!(&refused, JoinError::Earlier { id, reads: 4, writes: 5 } if id == old.id()), "{refused}");
    // The refused start left the store unchanged.
    start(&of(&store, BEFORE)).await.unwrap();
    old.stop().await;
    clock.set(NOW.plus_millis(2 * LEASE_MS));
    start(&of(&store, AFTER)).await.unwrap();
    // The old replica does not serve again either when it wakes up after others took over.
    let late = old.renew().await.unwrap_err();
    assert!(matches!(late, JoinError::Later { written: 5, reads: 4 }), "{late}");
}

#[tokio::test(start_paused = true)]
async fn of_two_versions_that_start_together_one_sees_the_other() {
    let (store, _) = shared();
    let (old, new) = (of(&store, BEFORE), of(&store, AFTER));
    old.begin().await.unwrap();
    let _holds = start(&new).await.unwrap();
    let refused = old.follow(Arc::new(AppliedChanges::default())).await.unwrap_err();
    assert!(matches!(refused, JoinError::Later { written: 5, reads: 4 }), "{refused}");
}

#[tokio::test]
async fn an_exclusive_store_rejects_a_version_older_than_its_rows() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    for known in [BEFORE, AFTER, BETWEEN, AFTER] {
        of(&store, known).begin().await.unwrap();
    }
    let refused = of(&store, BEFORE).begin().await.unwrap_err();
    assert_eq!(refused.to_string(), "the store has rows of formats up to 5, but this version reads formats up to 4: start a later version");
}

#[tokio::test]
async fn a_store_of_a_later_version_is_not_readable() {
    let store = MemoryStore::new();
    readable(&store).await.unwrap();
    for (up_to, reads) in [(OWN.reads, true), (OWN.reads + 1, false)] {
        store.apply(WRITTEN.put(&(), &Formats { through: up_to }), Durability::Durable).await.unwrap();
        assert_eq!(readable(&store).await.is_ok(), reads, "up to {up_to}");
    }
}
