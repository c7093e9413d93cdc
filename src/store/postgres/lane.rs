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
    open::connect,
    pending::{Outcome, Taken},
    shared::Shared,
};
use crate::store::{Batch, Durability, StoreError};

/// Longest that the answer to one transaction is waited for, tries included. The database ends one on its own before that.
pub(super) const SENT: Duration = Duration::from_secs(8);
/// Tries while others are in the way.
const TRIES: u32 = 32;
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
    let batches = taken.batches();
    let sent = timeout(SENT, writer.commit(shared, &batches, taken.durability)).await;
    let count = batches.len();
    let (outcomes, writer) = match sent {
        Ok(Ok(outcomes)) => (outcomes, Some(writer)),
        Ok(Err(Stopped { error, reusable })) => (vec![Err(error); count], reusable.then_some(writer)),
        Err(_) => (vec![Err(StoreError::Unknown(format!("no answer within {} s", SENT.as_secs()))); count], None),
    };
    taken.answer(outcomes);
    writer
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

    /// Sends commits as one transaction, and again while others are in the way.
    async fn commit(&self, shared: &Shared, batches: &[&Batch], durability: Durability) -> Result<Vec<Outcome>, Stopped> {
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
                Verdict::Refused => return Err(Stopped { error: StoreError::Away(told(&error)), reusable: false }),
                Verdict::Unknown => return Err(Stopped { error: StoreError::Unknown(told(&error)), reusable: false }),
            }
        }
        Err(Stopped { error: StoreError::Conflict, reusable: true })
    }
}

/// A number below `limit`, by chance.
fn chance(limit: u64) -> u64 {
    getrandom::u64().unwrap_or_default() % limit
}
