//! A writing connection: takes waiting commits, sends them as one transaction, and reports the outcomes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;
use tokio_postgres::{Client, Statement};

use super::{
    commit_call::{self, CommitCall},
    error::OpenError,
    error_class::{ErrorClass, describe, judge},
    open::{LOCK_TIMEOUT, PAUSES, connect},
    pending::{CommitGroup, CommitOutcome},
    shared::PostgresShared,
};
use crate::{Batch, Durability, StoreError};

/// Maximum wait for the answer to one transaction, including retries. The database aborts a transaction sooner than
/// that.
pub(super) const SENT: Duration = Duration::from_secs(8);
/// Number of attempts while other transactions conflict.
const TRIES: u32 = 32;
/// Lock timeout for each commit that is sent alone after a lock timeout of the group. All of them together fit into
/// [`SENT`].
const LOCKED_ALONE: &str = "SET lock_timeout = '50ms'";
/// Number of partitions in which sizes are counted.
const PARTS: u8 = 64;

/// Writes until the store is dropped and all commits are sent.
pub(super) async fn run(shared: Arc<PostgresShared>, durability: Durability) {
    let (mut writer, mut pause) = (None::<WriteConnection>, PAUSES[0]);
    while let Some(mut taken) = shared.pending.take(durability).await {
        let open = match writer.take().filter(|writer| !writer.client.is_closed()) {
            Some(writer) => Ok(writer),
            None => WriteConnection::open(&shared, durability).await,
        };
        match open {
            Ok(open) => {
                pause = PAUSES[0];
                writer = if taken.expire(&shared.away()) { send(&shared, open, taken).await } else { Some(open) };
            }
            Err(error) => {
                shared.fails(&error);
                if taken.expire(&shared.away()) {
                    taken.requeue();
                }
                if shared.pending.has_ended() {
                    return;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
        }
    }
}

/// Sends commits and reports their outcomes. Returns the connection if it is still usable.
async fn send(shared: &PostgresShared, writer: WriteConnection, taken: CommitGroup<'_>) -> Option<WriteConnection> {
    let (batches, until) = (taken.batches(), Instant::now() + SENT);
    let count = batches.len();
    let (outcomes, writer) = match writer.commit(shared, &batches, taken.durability, until).await {
        Ok(outcomes) => (outcomes, Some(writer)),
        Err(BatchFailure { error: StoreError::LockTimeout(_), .. }) if count > 1 => {
            commit_separately(shared, writer, &batches, taken.durability, until).await
        }
        Err(BatchFailure { error, reusable }) => {
            let writer = if matches!(error, StoreError::LockTimeout(_)) { writer.counting_elsewhere() } else { writer };
            (vec![Err(error); count], reusable.then_some(writer))
        }
    };
    taken.answer(outcomes);
    writer
}

/// Sends commits one by one after a row of one of them was locked for too long, so that each gets its own outcome.
async fn commit_separately(
    shared: &PostgresShared,
    writer: WriteConnection,
    batches: &[&Batch],
    durability: Durability,
    until: Instant,
) -> (Vec<CommitOutcome>, Option<WriteConnection>) {
    let mut writer = writer.waiting(LOCKED_ALONE).await;
    let mut outcomes = Vec::with_capacity(batches.len());
    for batch in batches {
        let Some(open) = writer.take() else {
            outcomes.push(Err(StoreError::Away("the connection was lost before the commit was sent again".to_owned())));
            continue;
        };
        if Instant::now() >= until {
            outcomes.push(Err(StoreError::LockTimeout("the commits before it took too long".to_owned())));
            writer = Some(open);
            continue;
        }
        let (outcome, reusable) = match open.commit(shared, &[*batch], durability, until).await {
            Ok(mut outcomes) => {
                (outcomes.pop().unwrap_or_else(|| Err(StoreError::Unknown("the database did not report the outcome".to_owned()))), true)
            }
            Err(BatchFailure { error, reusable }) => (Err(error), reusable),
        };
        outcomes.push(outcome);
        writer = reusable.then_some(open);
    }
    let writer = match writer {
        Some(open) => open.counting_elsewhere().waiting(LOCK_TIMEOUT).await,
        None => None,
    };
    (outcomes, writer)
}

struct WriteConnection {
    client: Client,
    commit: Statement,
    part: i16,
    /// A key that no other connection has.
    key: [u8; 16],
}

/// Why none of the commits that were sent together is known to have happened.
struct BatchFailure {
    error: StoreError,
    /// Whether the connection is still usable.
    reusable: bool,
}

impl WriteConnection {
    async fn open(shared: &PostgresShared, durability: Durability) -> Result<Self, OpenError> {
        let client = connect(&shared.config).await?;
        let commit = commit_call::prepare(&client, durability).await.map_err(OpenError::Refused)?;
        let mut key = [0; 16];
        // Without a random key, two connections would wait for each other's key.
        _ = getrandom::fill(&mut key);
        Ok(Self { client, commit, part: i16::from(key[0] % PARTS), key })
    }

    /// Sets the lock timeout. Returns `None` if the connection is no longer usable.
    async fn waiting(self, lock_timeout: &str) -> Option<Self> {
        timeout(SENT, self.client.batch_execute(lock_timeout)).await.ok()?.ok()?;
        Some(self)
    }

    /// Counts in another partition, in case the locked row is that of the sizes.
    fn counting_elsewhere(mut self) -> Self {
        self.part = i16::from(u8::try_from(jitter(PARTS.into())).unwrap_or_default());
        self
    }

    /// Sends commits as one transaction and retries on conflicts, until there is an answer or `until` has passed.
    async fn commit(
        &self,
        shared: &PostgresShared,
        batches: &[&Batch],
        durability: Durability,
        until: Instant,
    ) -> Result<Vec<CommitOutcome>, BatchFailure> {
        let remaining = until.saturating_duration_since(Instant::now());
        match timeout(remaining, self.try_to_commit(shared, batches, durability)).await {
            Ok(ended) => ended,
            Err(_) => Err(BatchFailure { error: StoreError::Unknown(format!("no answer within {} s", SENT.as_secs())), reusable: false }),
        }
    }

    async fn try_to_commit(
        &self,
        shared: &PostgresShared,
        batches: &[&Batch],
        durability: Durability,
    ) -> Result<Vec<CommitOutcome>, BatchFailure> {
        let call = CommitCall::of(batches, (durability == Durability::Durable).then_some(&self.key[..]));
        let started = Instant::now();
        for attempt in 1..=TRIES {
            let error = match call.send(&self.client, &self.commit, self.part).await {
                Ok(row) => {
                    let read = shared.sizes.note(&row, self.part).and_then(|()| commit_call::outcomes(batches, &row));
                    shared.wrote(durability);
                    return read.map_err(|error| BatchFailure { error: StoreError::Unknown(describe(&error)), reusable: false });
                }
                Err(error) => error,
            };
            match judge(&error) {
                ErrorClass::Again if started.elapsed() < SENT / 2 => {
                    tracing::debug!(attempt, error = describe(&error), "commits conflicted with another process");
                    tokio::time::sleep(Duration::from_micros(jitter(500 * u64::from(attempt)))).await;
                }
                ErrorClass::Again => break,
                ErrorClass::Locked => return Err(BatchFailure { error: StoreError::LockTimeout(describe(&error)), reusable: true }),
                ErrorClass::Refused => return Err(BatchFailure { error: StoreError::Away(describe(&error)), reusable: false }),
                ErrorClass::Unknown => return Err(BatchFailure { error: StoreError::Unknown(describe(&error)), reusable: false }),
            }
        }
        Err(BatchFailure { error: StoreError::LockTimeout("other processes committed first at every attempt".to_owned()), reusable: true })
    }
}

/// Returns a random number below `limit`.
fn jitter(limit: u64) -> u64 {
    getrandom::u64().unwrap_or_default() % limit
}
