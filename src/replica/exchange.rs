//! Exchange: replicas share what each of them counts of the same keys, such as rate limits.
//!
//! Each quarter of a second, a replica adds its counts to common sums in one commit for all keys, and reads what the
//! others have added. So all replicas together admit as much as a single one would, plus what they admit between two
//! exchanges, which is deducted afterwards. A sum covers a period and is deleted after two more periods. A replica does
//! not know what was counted before it started.
//!
//! With each exchange, a replica also counts the replicas, because some limits are divided among them. A new replica
//! waits until the others have counted it ([`Replica::wait_until_counted`]).

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval, sleep};
use tollhouse_base::{clock::Clock, gcra::Tally};
use tollhouse_store::{Batch, Counter, Direction, Durability, Store, StoreError, SumLimit, schema};

use super::Replica;

const USED: Counter<(u64, String)> = schema::USED.counting();

/// How often counts are exchanged.
const EXCHANGE_EVERY: Duration = Duration::from_millis(250);

/// Length of a period with separate sums, in milliseconds. Replicas' clocks differ by less.
const PERIOD_MS: u64 = 10_000;

/// Maximum number of keys of one tally that a replica reports at once.
const MAX_SENT: usize = 1_000;

/// Maximum number of sums read at once, newest first.
const MAX_RECEIVED: usize = 16_384;

/// The shared counters, by name.
pub type SharedCounts = Vec<(&'static str, Arc<dyn Tally>)>;

/// The exchange of one replica.
struct Exchange {
    store: Arc<dyn Store>,
    clock: Clock,
    tallies: SharedCounts,
    /// The known part of each sum, including this replica's own.
    known: HashMap<(u64, String), i128>,
    /// The period of the previous exchange.
    before: Option<u64>,
}

impl Replica {
    /// Exchanges the counts of `tallies` with other replicas, as long as somebody holds this replica. Does nothing if
    /// the store is not shared. Call it inside a tokio runtime.
    pub fn exchange(self: &Arc<Self>, clock: Clock, tallies: SharedCounts) {
        if !self.shared || tallies.is_empty() {
            return;
        }
        let exchange = Exchange { store: Arc::clone(&self.store), clock, tallies, known: HashMap::new(), before: None };
        tokio::spawn(exchange.run(Arc::downgrade(self)));
    }

    /// Waits until the other replicas have counted this one, which has its lease, and counts them. Call it before the
    /// replica takes calls, so that the replicas divide limits from its first call on. Returns at once if it is alone.
    pub async fn wait_until_counted(&self) {
        let counted = async {
            if self.count().await? > 1 {
                sleep(2 * EXCHANGE_EVERY).await;
                self.count().await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = counted.await {
            tracing::warn!(%error, "the other replicas could not be counted; this one will try again");
        }
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
            let exchanged = self.turn().await;
            let Some(replica) = replica.upgrade() else { return };
            let turned = exchanged.and(replica.count().await);
            drop(replica);
            if let (Err(error), false) = (&turned, away) {
                tracing::warn!(%error, "the counts of this replica and of the others could not be exchanged");
            }
            away = turned.is_err();
        }
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        let period = self.clock.now().0 / PERIOD_MS;
        self.send(period).await?;
        self.receive(period).await?;
        if self.before.replace(period) != Some(period) {
            // Other replicas may still be in the previous period.
            let (rows, removed) = (USED.rows(), period.saturating_sub(2));
            rows.clear(&*self.store, &rows.all().before(&removed), u64::MAX).await?;
            self.known.retain(|(of, _), _| *of >= removed);
        }
        Ok(())
    }

    async fn send(&mut self, period: u64) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        let mut own = vec![];
        for (tally, counted) in &self.tallies {
            for (key, used) in counted.take_used(MAX_SENT) {
                let at = (period, format!("{tally}/{key}"));
                batch.add(&USED, &at, used.into(), SumLimit::Ceiling(i128::MAX));
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

    async fn receive(&mut self, period: u64) -> Result<(), StoreError> {
        let rows = USED.rows();
        let received = rows.all().from(&period.saturating_sub(1));
        for row in rows.page(&*self.store, &received, MAX_RECEIVED, Direction::Backward).await? {
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
