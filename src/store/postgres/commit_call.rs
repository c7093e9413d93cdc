//! Encodes commits for the database function and decodes its result.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Error, Row, Statement};

use super::pending::CommitOutcome;
use crate::{Batch, Durability, MAX_CHANGES, StoreError, SumLimit, value::not_a_sum};

/// The space of a temporary key that makes a transaction without other writes wait for the disk.
const NOWHERE: i16 = -1;

const CHECK: i16 = 0;
const WRITE: i16 = 1;
const ADD_ABOVE: i16 = 2;
const ADD_BELOW: i16 = 3;

/// Prepares the SQL call. The transaction itself sets whether to wait for the disk, so money depends neither on a
/// session setting nor on a proxy in front of the server.
pub(super) async fn prepare(client: &Client, durability: Durability) -> Result<Statement, Error> {
    let synchronous = if durability == Durability::Durable { "on" } else { "off" };
    let commit = format!(
        "SELECT done.* FROM set_config('synchronous_commit', '{synchronous}', true), \
         tollhouse_commit_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS done"
    );
    client.prepare(&commit).await
}

/// Commits, encoded as arrays.
#[derive(Debug, Default)]
pub(super) struct CommitCall<'a> {
    spaces: Vec<i16>,
    keys: Vec<&'a [u8]>,
    reads: Vec<bool>,
    ends: Vec<i32>,
    changelog: Vec<Option<Vec<u8>>>,
    kinds: Vec<i16>,
    positions: Vec<i32>,
    values: Vec<Option<&'a [u8]>>,
    bys: Vec<Option<String>>,
    limits: Vec<Option<String>>,
}

/// Keys, each with whether its value is read.
type Keys<'a> = BTreeMap<(i16, &'a [u8]), bool>;

impl<'a> CommitCall<'a> {
    /// Encodes `batches`. If a durable batch writes nothing, `own_key` is added so that the transaction waits for the
    /// disk.
    pub(super) fn of(batches: &[&'a Batch], own_key: Option<&'a [u8]>) -> Self {
        let mut keys = keys(batches);
        let own_key = own_key.filter(|_| batches.iter().any(|batch| batch.changes_nothing()));
        keys.extend(own_key.map(|key| ((NOWHERE, key), true)));
        let position: BTreeMap<_, _> = keys.keys().copied().zip(1..).collect();
        let mut call = Self::default();
        for ((space, key), reads) in keys {
            call.spaces.push(space);
            call.keys.push(key);
            call.reads.push(reads);
        }
        for batch in batches {
            let entry = (!batch.changelog.is_empty()).then(|| change_bytes(batch));
            for check in &batch.checks {
                call.op(CHECK, position[&(check.space as i16, &check.key[..])], check.expected.as_deref(), None);
            }
            for write in &batch.writes {
                call.op(WRITE, position[&(write.space as i16, &write.key[..])], write.value.as_deref(), None);
            }
            for add in &batch.adds {
                let (kind, limit) = match add.limit {
                    SumLimit::Floor(floor) => (ADD_ABOVE, floor),
                    SumLimit::Ceiling(ceiling) => (ADD_BELOW, ceiling),
                };
                call.op(kind, position[&(add.space as i16, &add.key[..])], None, Some((add.by, limit)));
            }
            call.end(entry);
        }
        if own_key.is_some() {
            // The check of the own key sorts before all other keys.
            call.op(CHECK, 1, None, None);
            call.end(None);
        }
        call
    }

    /// Adds an operation. An addition has an amount and a limit.
    fn op(&mut self, kind: i16, position: i32, value: Option<&'a [u8]>, sum: Option<(i128, i128)>) {
        self.kinds.push(kind);
        self.positions.push(position);
        self.values.push(value);
        self.bys.push(sum.map(|(by, _)| by.to_string()));
        self.limits.push(sum.map(|(_, limit)| limit.to_string()));
    }

    fn end(&mut self, entry: Option<Vec<u8>>) {
        self.ends.push(i32::try_from(self.kinds.len()).unwrap_or(i32::MAX));
        self.changelog.push(entry);
    }

    /// Sends the call and awaits the answer. Sizes are counted in partition `part`.
    pub(super) async fn send(&self, client: &Client, commit: &Statement, part: i16) -> Result<Row, Error> {
        let stored = MAX_CHANGES.cast_signed();
        client
            .query_one(
                commit,
                &[
                    &self.spaces,
                    &self.keys,
                    &self.reads,
                    &self.ends,
                    &self.changelog,
                    &self.kinds,
                    &self.positions,
                    &self.values,
                    &self.bys,
                    &self.limits,
                    &part,
                    &stored,
                ],
            )
            .await
    }
}

/// Returns every key that the commits name.
fn keys<'a>(batches: &[&'a Batch]) -> Keys<'a> {
    let mut keys = Keys::new();
    for batch in batches {
        let checks = batch.checks.iter().map(|check| (check.space, &check.key, true));
        let writes = batch.writes.iter().map(|write| (write.space, &write.key, false));
        let adds = batch.adds.iter().map(|add| (add.space, &add.key, true));
        for (space, key, reads) in checks.chain(writes).chain(adds) {
            *keys.entry((space as i16, key)).or_default() |= reads;
        }
    }
    keys
}

/// Encodes a commit's entry in the change log.
fn change_bytes(batch: &Batch) -> Vec<u8> {
    let keys: Vec<(u8, &[u8])> = batch.changelog.iter().map(|(space, key)| (*space as u8, &key[..])).collect();
    postcard::to_stdvec(&keys).expect("numbers and bytes are plain data, and memory takes them")
}

/// Decodes the outcome of each commit.
pub(super) fn outcomes(batches: &[&Batch], row: &Row) -> Result<Vec<CommitOutcome>, Error> {
    let ended: Vec<i16> = row.try_get("out_outcomes")?;
    let refused: Vec<i32> = row.try_get("out_refused")?;
    let sums: Vec<Option<String>> = row.try_get("out_sums")?;
    let mut start = 0;
    let ended = ended.into_iter().zip(refused);
    let outcomes = batches.iter().zip(ended).map(|(batch, (ended, refused))| {
        let adds = start + batch.checks.len() + batch.writes.len();
        start = adds + batch.adds.len();
        let sum = |position: usize| sums.get(position)?.as_ref()?.parse::<i128>().ok();
        let position = usize::try_from(refused).unwrap_or_default().saturating_sub(adds + 1);
        match (ended, batch.adds.get(position)) {
            (0, _) => {
                let sums: Option<Vec<_>> = (adds..start).map(sum).collect();
                sums.ok_or_else(|| StoreError::Unknown("the database returned no sum".to_owned()))
            }
            (1, _) => Err(StoreError::Conflict),
            (2, Some(add)) => Err(StoreError::Beyond { position, limit: add.limit, sum: sum(adds + position).unwrap_or_default() }),
            (_, Some(add)) => Err(not_a_sum(&add.key)),
            (_, None) => Err(StoreError::Unknown(format!("the database returned {ended}"))),
        }
    });
    Ok(outcomes.collect())
}
