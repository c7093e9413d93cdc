//! Background work: makes buffered commits durable, and reads sizes changed by other processes.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::timeout;

use super::shared::PostgresShared;
use crate::{Batch, Durability};

/// Maximum time until a buffered commit is made durable.
const BUFFERED: Duration = Duration::from_millis(250);
/// Maximum wait for the answer.
const WAIT: Duration = Duration::from_secs(10);
/// Number of ticks between two reads of the sizes.
const COUNTED: u64 = 20;

/// Runs until the store is dropped.
pub(super) async fn run(shared: Arc<PostgresShared>) {
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
