//! Exchange: what replicas count of the same keys, each for itself, told to the others.
//!
//! Each quarter of a second a replica adds what it has counted to sums that all share, one commit for all keys, and reads what the
//! others have added since. So what is let through at all of them is no more than what one would, and what they let through
//! meanwhile, which counts against what comes. A sum is of a stretch of time, and goes when the next two are over; what was counted before
//! a replica began is not known to it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use tollhouse_base::{clock::Clock, uses::Tally};
use tollhouse_store::{Batch, Counter, Direction, Durability, Limit, Store, StoreError, schema};

use super::Replica;

const USED: Counter<(u64, String)> = schema::USED.counting();

/// How often what was counted is told.
const EXCHANGE_EVERY: Duration = Duration::from_millis(250);

/// How long a stretch of time is that has sums of its own, in milliseconds. Clocks of replicas are apart by less.
const STRETCH_MS: u64 = 10_000;

/// Keys of one tally that a replica tells at once.
const MOST_TOLD: usize = 1_000;

/// Sums that are heard at once, the newest of them.
const MOST_HEARD: usize = 16_384;

/// What is counted, by its name.
pub type Tallies = Vec<(&'static str, Arc<dyn Tally>)>;

/// What one replica tells and hears.
struct Exchange {
    store: Arc<dyn Store>,
    clock: Clock,
    tallies: Tallies,
    /// What is told of each sum, its own part among it.
    known: HashMap<(u64, String), i128>,
    /// The stretch of the turn before.
    before: Option<u64>,
}

impl Replica {
    /// Tells others what `tallies` count here, and has those count what others tell, as long as anybody holds the replica. Nothing
    /// where nobody else can. Must be called inside a tokio runtime.
    pub fn exchange(self: &Arc<Self>, clock: Clock, tallies: Tallies) {
        if !self.shared || tallies.is_empty() {
            return;
        }
        let exchange = Exchange { store: Arc::clone(&self.store), clock, tallies, known: HashMap::new(), before: None };
        tokio::spawn(exchange.run(Arc::downgrade(self)));
    }
}

impl Exchange {
    async fn run(mut self, replica: Weak<Replica>) {
        let mut tick = interval(EXCHANGE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut away = false;
        loop {
            tick.tick().await;
            if replica.strong_count() == 0 {
                return;
            }
            let turned = self.turn().await;
            if let (Err(error), false) = (&turned, away) {
                tracing::warn!(%error, "what this replica counts could not be told to the others, nor theirs be heard");
            }
            away = turned.is_err();
        }
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        let stretch = self.clock.now().0 / STRETCH_MS;
        self.tell(stretch).await?;
        self.hear(stretch).await?;
        if self.before.replace(stretch) != Some(stretch) {
            // Others may still be in the one before.
            let (rows, gone) = (USED.rows(), stretch.saturating_sub(2));
            rows.clear(&*self.store, &rows.all().before(&gone), u64::MAX).await?;
            self.known.retain(|(of, _), _| *of >= gone);
        }
        Ok(())
    }

    async fn tell(&mut self, stretch: u64) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        let mut own = vec![];
        for (tally, counted) in &self.tallies {
            for (key, used) in counted.take_used(MOST_TOLD) {
                let at = (stretch, format!("{tally}/{key}"));
                batch.add(&USED, &at, used.into(), Limit::Ceiling(i128::MAX));
                own.push((at, i128::from(used)));
            }
        }
        if own.is_empty() {
            return Ok(());
        }
        batch.commit(&*self.store, Durability::Buffered).await?;
        own.into_iter().for_each(|(at, used)| *self.known.entry(at).or_default() += used);
        Ok(())
    }

    async fn hear(&mut self, stretch: u64) -> Result<(), StoreError> {
        let rows = USED.rows();
        let heard = rows.all().from(&stretch.saturating_sub(1));
        for row in rows.page(&*self.store, &heard, MOST_HEARD, Direction::Backward).await? {
            let (sum, known) = (row.value.0, self.known.entry(row.key.clone()).or_default());
            let more = u64::try_from(sum - std::mem::replace(known, sum)).unwrap_or(0);
            let counted = row.key.1.split_once('/').and_then(|(name, key)| {
                let (_, tally) = self.tallies.iter().find(|(tally, _)| *tally == name)?;
                Some((tally, key))
            });
            if let (Some((tally, key)), 1.., Some(_)) = (counted, more, self.before) {
                tally.used_elsewhere(key, more);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
