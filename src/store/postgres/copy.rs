//! Copies all rows in one transaction, which is a snapshot, on a separate connection.

use tokio::sync::mpsc::Sender;
use tokio_postgres::Error;

use super::{address::PostgresConfig, error_class::describe, reader::ReadConnection};
use crate::{CopyPage, Direction, KeyRange, RowSums, Space, StoreError, Write};

/// Maximum number of rows read at once.
const SOME: usize = 1_000;
/// Approximate number of bytes read at once.
const SOME_BYTES: usize = 1024 * 1024;

/// Sends all rows, then their totals.
pub(super) async fn copy(config: &PostgresConfig, to: Sender<CopyPage>) -> Result<(), StoreError> {
    let away = |error: &Error| StoreError::Away(describe(error));
    let removed = |_| StoreError::Away("nobody takes the copy any more".to_owned());
    let reader = ReadConnection::open(config).await.map_err(|error| StoreError::Away(error.in_full()))?;
    reader.read_only_snapshot().await.map_err(|error| away(&error))?;
    let mut sums = RowSums::default();
    for space in Space::ALL {
        let mut range = KeyRange { bytes: SOME_BYTES, ..KeyRange::all() };
        loop {
            let pairs = reader.scan(space, &range, SOME, Direction::Forward).await.map_err(|error| away(&error))?;
            let Some((last, _)) = pairs.last() else { break };
            range = range.after(last);
            pairs.iter().for_each(|(key, value)| sums.add(space, key, value));
            let rows = pairs.into_iter().map(|(key, value)| Write { space, key, value: Some(value) });
            to.send(CopyPage::Rows(rows.collect())).await.map_err(removed)?;
        }
    }
    to.send(CopyPage::End(Box::new(sums))).await.map_err(removed)
}
