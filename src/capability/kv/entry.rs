//! A kv entry: its encoding, the comparison in checks, and the effect of writes.

use bytes::Bytes;
use serde_json::Value;
use tollhouse_base::clock::Timestamp;
use tollhouse_protocol::{AtomicWrite, OpFailure};
use tollhouse_store::Value as Stored;

use crate::failure::invalid_argument;

/// The largest integer that JavaScript represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// A stored value: a format byte, the expiry in milliseconds since 1970 (0: never), and JSON text.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(super) expires: Timestamp,
    pub(crate) json: Bytes,
}

impl Entry {
    const FORMAT: u8 = 1;

    /// Returns whether readers see it.
    pub(super) fn live(&self, now: Timestamp) -> bool {
        self.expires.0 == 0 || self.expires > now
    }
}

impl Stored for Entry {
    fn to_bytes(&self) -> Vec<u8> {
        [&[Self::FORMAT], &self.expires.0.to_be_bytes()[..], &self.json].concat()
    }

    fn of_bytes(stored: &[u8]) -> Option<Self> {
        match stored.split_first_chunk::<9>() {
            Some(([Self::FORMAT, expires @ ..], json)) => {
                Some(Self { expires: Timestamp(u64::from_be_bytes(*expires)), json: Bytes::copy_from_slice(json) })
            }
            _ => None,
        }
    }
}

/// Returns whether a check's value equals the current one as JSON, regardless of formatting.
pub(super) fn holds(expected: Option<&[u8]>, current: Option<&[u8]>) -> bool {
    match (expected, current) {
        (None, None) => true,
        (Some(expected), Some(current)) => {
            expected == current
                || matches!(
                    (serde_json::from_slice::<Value>(expected), serde_json::from_slice::<Value>(current)),
                    (Ok(expected), Ok(current)) if expected == current
                )
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Applies `write` to `current`, which is unexpired or absent.
pub(super) fn apply(write: &AtomicWrite, current: Option<Entry>, now: Timestamp) -> Result<Option<Entry>, OpFailure> {
    match write {
        AtomicWrite::Delete { .. } => Ok(None),
        AtomicWrite::Set { value, ttl_ms, .. } => {
            let expires = ttl_ms.map_or(Timestamp(0), |ttl| now.plus_millis(ttl));
            Ok(Some(Entry { expires, json: value.clone() }))
        }
        AtomicWrite::Add { key, by } => {
            let number = match &current {
                None => 0,
                Some(entry) => serde_json::from_slice::<i64>(&entry.json)
                    .map_err(|_| invalid_argument(format!("the value at `{key}` is not an integer")))?,
            };
            let sum = number.checked_add(*by).filter(|sum| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(sum));
            let sum = sum.ok_or_else(|| invalid_argument(format!("the sum at `{key}` is outside JavaScript's safe integers")))?;
            let expires = current.map_or(Timestamp(0), |entry| entry.expires);
            Ok(Some(Entry { expires, json: sum.to_string().into() }))
        }
    }
}
