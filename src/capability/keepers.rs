//! Who keeps something: a way through the endpoints that have keys, files, secrets or log lines, part by part.

use futures_util::future::BoxFuture;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_store::{Direction, Store, StoreError};

use super::{files::FILES, kv::KV, log::place::LOGS, secret::SECRETS};

/// A kind of what endpoints keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Keys and values.
    Keys,
    /// Files.
    Files,
    /// Secrets.
    Secrets,
    /// Log lines.
    Logs,
}

/// A turn of a [round](tollhouse_store::round) through those who keep something of one kind.
pub struct Keepers<'a> {
    /// Whom it came by. No more than a turn reads rows.
    pub found: Vec<EndpointId>,
    end: BoxFuture<'a, Result<(), StoreError>>,
}

impl Kept {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Keys, Self::Files, Self::Secrets, Self::Logs];

    /// What the store calls the round through it.
    #[must_use]
    pub fn round(self) -> &'static str {
        match self {
            Self::Keys => "keepers-of-keys",
            Self::Files => "keepers-of-files",
            Self::Secrets => "keepers-of-secrets",
            Self::Logs => "keepers-of-logs",
        }
    }

    /// The next turn.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn turn(self, store: &dyn Store, now: Timestamp) -> Result<Keepers<'_>, StoreError> {
        macro_rules! turn {
            ($table:ident) => {{
                let mut round = $table.round(store, self.round(), Direction::Forward, now).await?;
                let mut found = Vec::new();
                while let Some(key) = round.next().await? {
                    round.past(&key.0);
                    found.push(key.0.0);
                }
                Ok(Keepers { found, end: Box::pin(round.end()) })
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

impl Keepers<'_> {
    /// Ends the turn: the next one goes on from here. Without it the next turn comes by the same.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn end(self) -> Result<(), StoreError> {
        self.end.await
    }
}
