//! What is done beside: buffered commits are had on disk, and what other processes wrote is counted.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::timeout;

use super::shared::Shared;
use crate::{Batch, Durability};

/// How long a buffered commit waits for the disk.
const BUFFERED: Duration = Duration::from_millis(250);
/// Longest that it waits for the answer.
const WAIT: Duration = Duration::from_secs(10);
/// Turns from one look at the sizes to the next.
const COUNTED: u64 = 20;

/// Goes on until the store is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(BUFFERED);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for turn in 1_u64.. {
        tick.tick().await;
        if shared.pending.has_ended() {
            return;
        }
        if shared.buffered.swap(false, Relaxed) {
            let (_, answer) = shared.pending.push(Batch::new(), Durability::Durable, None);
            if !matches!(timeout(WAIT, answer).await, Ok(Ok(Ok(_)))) {
                shared.buffered.store(true, Relaxed);
            }
        }
        if turn.is_multiple_of(COUNTED)
            && let Err(error) = shared.recount().await
        {
            tracing::debug!(%error, "what other processes wrote could not be counted");
        }
    }
}
