//! A connection that writes: takes what waits, sends it as one transaction, and answers it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;
use tokio_postgres::{Client, Statement};

use super::{
    call::{self, Call},
    error::OpenError,
    judge::{Verdict, judge, told},
    open::{LOCK_TIMEOUT, connect},
    pending::{Outcome, Taken},
    shared::Shared,
};
use crate::{Batch, Durability, StoreError};

/// Longest that the answer to one transaction is waited for, tries included. The database ends one on its own before that.
pub(super) const SENT: Duration = Duration::from_secs(8);
/// Tries while others are in the way.
const TRIES: u32 = 32;
/// Longest that a commit waits for a row once those that were sent with it have waited for one in vain. All of them fit into [`SENT`].
const LOCKED_ALONE: &str = "SET lock_timeout = '50ms'";
/// Waits before a connection is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];
/// Parts that sizes are counted in.
const PARTS: u8 = 64;

/// Writes until the store is dropped and all is sent.
pub(super) async fn run(shared: Arc<Shared>, durability: Durability) {
    let (mut writer, mut pause) = (None::<Writer>, PAUSES[0]);
    while let Some(mut taken) = shared.pending.take(durability).await {
        let open = match writer.take().filter(|writer| !writer.client.is_closed()) {
            Some(writer) => Ok(writer),
            None => Writer::open(&shared, durability).await,
        };
        match open {
            Ok(open) => {
                pause = PAUSES[0];
                writer = if taken.expire(&shared.away()) { send(&shared, open, taken).await } else { Some(open) };
            }
            Err(error) => {
                shared.fails(&error);
                if taken.expire(&shared.away()) {
                    taken.give_back();
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

/// Sends commits, and answers them; gives the connection back if it is still of use.
async fn send(shared: &Shared, writer: Writer, taken: Taken<'_>) -> Option<Writer> {
    let (batches, until) = (taken.batches(), Instant::now() + SENT);
    let count = batches.len();
    let (outcomes, writer) = match writer.commit(shared, &batches, taken.durability, until).await {
        Ok(outcomes) => (outcomes, Some(writer)),
        Err(Stopped { error: StoreError::LockTimeout(_), .. }) if count > 1 => {
            each_alone(shared, writer, &batches, taken.durability, until).await
        }
        Err(Stopped { error, reusable }) => {
            let writer = writer.counting_elsewhere_after(&error);
            (vec![Err(error); count], reusable.then_some(writer))
        }
    };
    taken.answer(outcomes);
    writer
}

/// Sends commits one after the other, after a row of one of them was locked for too long: each ends on its own.
async fn each_alone(
    shared: &Shared,
    writer: Writer,
    batches: &[&Batch],
    durability: Durability,
    until: Instant,
) -> (Vec<Outcome>, Option<Writer>) {
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
                (outcomes.pop().unwrap_or_else(|| Err(StoreError::Unknown("the database said nothing of it".to_owned()))), true)
            }
            Err(Stopped { error, reusable }) => (Err(error), reusable),
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

/// A connection that writes.
struct Writer {
    client: Client,
    commit: Statement,
    part: i16,
    /// One that no other connection has.
    key: [u8; 16],
}

/// Why none of the commits that were sent together is known to have happened.
struct Stopped {
    error: StoreError,
    /// Whether the connection is of use still.
    reusable: bool,
}

impl Writer {
    async fn open(shared: &Shared, durability: Durability) -> Result<Self, OpenError> {
        let client = connect(&shared.config).await?;
        let commit = call::prepare(&client, durability).await.map_err(OpenError::Refused)?;
        let mut key = [0; 16];
        // Without chance two connections wait for each other's.
        _ = getrandom::fill(&mut key);
        Ok(Self { client, commit, part: i16::from(key[0] % PARTS), key })
    }

    /// Sets how long a row is waited for. `None` where the connection is of no use any more.
    async fn waiting(self, lock_timeout: &str) -> Option<Self> {
        timeout(SENT, self.client.batch_execute(lock_timeout)).await.ok()?.ok()?;
        Some(self)
    }

    /// Counts in another part: it may be the row of the sizes that is locked.
    fn counting_elsewhere(mut self) -> Self {
        self.part = i16::from(u8::try_from(chance(PARTS.into())).unwrap_or_default());
        self
    }

    fn counting_elsewhere_after(self, error: &StoreError) -> Self {
        if matches!(error, StoreError::LockTimeout(_)) { self.counting_elsewhere() } else { self }
    }

    /// Sends commits as one transaction, and again while others are in the way, until they have an answer or it is too late for one.
    async fn commit(&self, shared: &Shared, batches: &[&Batch], durability: Durability, until: Instant) -> Result<Vec<Outcome>, Stopped> {
        let left = until.saturating_duration_since(Instant::now());
        match timeout(left, self.try_to_commit(shared, batches, durability)).await {
            Ok(ended) => ended,
            Err(_) => Err(Stopped { error: StoreError::Unknown(format!("no answer within {} s", SENT.as_secs())), reusable: false }),
        }
    }

    async fn try_to_commit(&self, shared: &Shared, batches: &[&Batch], durability: Durability) -> Result<Vec<Outcome>, Stopped> {
        let call = Call::of(batches, (durability == Durability::Durable).then_some(&self.key[..]));
        let begun = Instant::now();
        for attempt in 1..=TRIES {
            let error = match call.send(&self.client, &self.commit, self.part).await {
                Ok(row) => {
                    let read = shared.sizes.note(&row, self.part).and_then(|()| call::outcomes(batches, &row));
                    shared.wrote(durability);
                    return read.map_err(|error| Stopped { error: StoreError::Unknown(told(&error)), reusable: false });
                }
                Err(error) => error,
            };
            match judge(&error) {
                Verdict::Again if begun.elapsed() < SENT / 2 => {
                    tracing::debug!(attempt, error = told(&error), "commits met those of another process");
                    tokio::time::sleep(Duration::from_micros(chance(500 * u64::from(attempt)))).await;
                }
                Verdict::Again => break,
                Verdict::Locked => return Err(Stopped { error: StoreError::LockTimeout(told(&error)), reusable: true }),
                Verdict::Refused => return Err(Stopped { error: StoreError::Away(told(&error)), reusable: false }),
                Verdict::Unknown => return Err(Stopped { error: StoreError::Unknown(told(&error)), reusable: false }),
            }
        }
        Err(Stopped { error: StoreError::LockTimeout("other processes were first at every try".to_owned()), reusable: true })
    }
}

/// A number below `limit`, by chance.
fn chance(limit: u64) -> u64 {
    getrandom::u64().unwrap_or_default() % limit
}
