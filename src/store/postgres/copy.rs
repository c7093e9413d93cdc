//! Copies all rows in one transaction, which is a snapshot, on a separate connection.

use tokio::sync::mpsc::Sender;
use tokio_postgres::Error;

use super::{address::PostgresConfig, judge::told, reader::Reader};
use crate::{Direction, KeyRange, Page, Space, StoreError, Sums, Write};

/// Maximum number of rows read at once.
const SOME: usize = 1_000;
/// Approximate number of bytes read at once.
const SOME_BYTES: usize = 1024 * 1024;

/// Sends all rows, then their totals.
pub(super) async fn copy(config: &PostgresConfig, to: Sender<Page>) -> Result<(), StoreError> {
    let away = |error: &Error| StoreError::Away(told(error));
    let gone = |_| StoreError::Away("nobody takes the copy any more".to_owned());
    let reader = Reader::open(config).await.map_err(|error| StoreError::Away(error.in_full()))?;
    reader.stand_still().await.map_err(|error| away(&error))?;
    let mut sums = Sums::default();
    for space in Space::ALL {
        let mut range = KeyRange { bytes: SOME_BYTES, ..KeyRange::all() };
        loop {
            let pairs = reader.scan(space, &range, SOME, Direction::Forward).await.map_err(|error| away(&error))?;
            let Some((last, _)) = pairs.last() else { break };
            range = range.after(last);
            pairs.iter().for_each(|(key, value)| sums.add(space, key, value));
            let rows = pairs.into_iter().map(|(key, value)| Write { space, key, value: Some(value) });
            to.send(Page::Rows(rows.collect())).await.map_err(gone)?;
        }
    }
    to.send(Page::End(Box::new(sums))).await.map_err(gone)
}
