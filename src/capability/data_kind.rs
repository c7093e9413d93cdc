//! Iterates in parts over the tools that have keys, files, secrets or log lines.

use futures_util::future::BoxFuture;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_store::{Direction, Store, StoreError};

use super::{files::FILES, kv::KV, log::position::LOGS, secret::SECRETS};

/// A kind of data that tools store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    Keys,
    Files,
    Secrets,
    Logs,
}

/// A turn of a [round](tollhouse_store::sweep_cursor) over the tools with one kind of data.
pub struct KindTurn<'a> {
    /// The tools found. There are at most as many as a turn reads rows.
    pub found: Vec<EndpointId>,
    end: BoxFuture<'a, Result<(), StoreError>>,
}

impl DataKind {
    pub const ALL: [Self; 4] = [Self::Keys, Self::Files, Self::Secrets, Self::Logs];

    /// Returns the name of its round in the store.
    pub fn round(self) -> &'static str {
        match self {
            Self::Keys => "keepers-of-keys",
            Self::Files => "keepers-of-files",
            Self::Secrets => "keepers-of-secrets",
            Self::Logs => "keepers-of-logs",
        }
    }

    pub async fn turn(self, store: &dyn Store, now: Timestamp) -> Result<KindTurn<'_>, StoreError> {
        macro_rules! turn {
            ($table:ident) => {{
                let mut round = $table.round(store, self.round(), Direction::Forward, now).await?;
                let mut found = Vec::new();
                while let Some(key) = round.next().await? {
                    round.past(&key.0);
                    found.push(key.0.0);
                }
                Ok(KindTurn { found, end: Box::pin(round.end()) })
            }};
        }
        match self {
            Self::Keys => turn!(KV),
            Self::Files => turn!(FILES),
            Self::Secrets => turn!(SECRETS),
            Self::Logs => turn!(LOGS),
        }
    }
}

impl KindTurn<'_> {
    /// Ends the turn, so that the next one continues from here. Without it, the next turn finds the same tools.
    pub async fn end(self) -> Result<(), StoreError> {
        self.end.await
    }
}
