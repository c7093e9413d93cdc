//! Writes of several owners.

use std::sync::Mutex;

use tollhouse_base::id::BuilderId;

use super::*;
use crate::testing::{StuckStore, settled};

#[tokio::test]
async fn writes_of_one_owner_at_full_rate_leave_the_next_commit_to_another() {
    let store = StuckStore::new();
    let (kv, written) = (Arc::new(Kv::new(store.clone(), Clock::default())), Arc::new(Mutex::new(vec![])));
    let write = |owner: &'static str, share: Owner| {
        let (kv, written) = (Arc::clone(&kv), Arc::clone(&written));
        tokio::spawn(async move {
            set(&kv.scoped(&share, &endpoint(), &Limits::default()), "k", "1").await.unwrap();
            written.lock().unwrap().push(owner);
        })
    };
    let [greedy, other] = [(); 2].map(|()| Owner::Builder(BuilderId::generate()));
    let mut all: Vec<_> = (0..5 * CHANGES).map(|_| write("greedy", greedy.clone())).collect();
    settled().await;
    all.push(write("other", other));
    settled().await;
    store.permits.add_permits(all.len());
    for write in all {
        write.await.unwrap();
    }
    let position = written.lock().unwrap().iter().position(|owner| *owner == "other").unwrap();
    // Only those that were in progress, and those that began with it, come first.
    assert!(position < 2 * CHANGES, "{position}");
}
