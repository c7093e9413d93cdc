//! `ctx.log`: the log of each tool, limited by count and age, and its live feed.
//!
//! A line never waits for the store. It goes into a queue of its tool. One task takes from all queues in turn, writes
//! in batches ([`Durability::Buffered`](tollhouse_store::Durability::Buffered)) and trims. Only a tool that writes too
//! fast, or more than its share when the queues are full, loses lines. They are counted, and its log says how many.

mod entry;
mod pending;
pub(super) mod position;
mod sanitize;
mod settings;
mod writer;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::{CallId, EndpointId},
};
use tollhouse_event::feed::{Feed, Follower, Position as _, TooManyFollowers};
use tollhouse_protocol::LogLevel;
use tollhouse_store::{CountedText, Direction, Store, StoreError, Value as _};
use tollhouse_tool::Owner;

pub(super) use self::sanitize::sanitize;
pub use self::{entry::LogEntry, position::LogPosition, settings::LogSettings};
use self::{
    pending::{PendingLine, PendingLines},
    position::LOGS,
    writer::{LogWriter, remove_until},
};

tollhouse_store::json_values!(LogEntry);

#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only lines from this time on.
    pub since: Option<Timestamp>,
    /// Only lines of this level or a more serious one.
    pub level: Option<LogLevel>,
    /// Only lines of this call.
    pub call: Option<CallId>,
    /// Maximum number of lines in the answer.
    pub limit: usize,
    /// The cursor from the previous page.
    pub cursor: Option<String>,
}

/// A page of lines, newest first.
#[derive(Debug, Clone, Default)]
pub struct LogPage {
    /// The matching lines, up to the limit.
    pub entries: Vec<LogEntry>,
    /// The cursor for the next page, if there may be more.
    pub next_cursor: Option<String>,
}

/// A line with its position in the log.
#[derive(Debug, Clone)]
pub struct FollowedLine {
    pub position: LogPosition,
    pub entry: LogEntry,
}

pub struct Logs {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: LogSettings,
    waiting: Arc<PendingLines>,
    feed: Arc<Feed<Arc<FollowedLine>>>,
    sequence: AtomicU64,
}

impl Logs {
    /// Name of the round of [`Logs::sweep`] in the store.
    pub const ROUND: &str = "logs";

    /// Starts the writing task, which ends when the value is dropped and all lines are written, and the task that
    /// delivers lines of other hosts.
    pub fn start(store: Arc<dyn Store>, clock: Clock, settings: LogSettings) -> Self {
        let waiting = Arc::new(PendingLines::new(&settings));
        tokio::spawn(LogWriter::new(Arc::clone(&store), clock.clone(), settings.clone(), Arc::clone(&waiting)).run());
        // Hosts that share a store start their sequence numbers at different values.
        let sequence = AtomicU64::new(getrandom::u64().unwrap_or(0));
        let feed = Feed::of(&*store, &clock);
        feed.pull(&store, |followed: &FollowedLine| followed.position.clone(), stored_after);
        Self { store, clock, settings, waiting, feed, sequence }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Queues a line, or drops and counts one if there are too many.
    pub fn write(&self, owner: &Owner, endpoint: &EndpointId, entry: LogEntry) {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let position = LogPosition(entry.at, sequence);
        self.feed.publish(endpoint.as_str(), || Arc::new(FollowedLine { position: position.clone(), entry: entry.clone() }));
        self.waiting.push(owner, endpoint, PendingLine { position, entry: entry.to_bytes() });
    }

    /// Waits until every line so far is in the store or given up.
    #[boxed]
    pub async fn flush(&self) {
        self.waiting.flush().await;
    }

    /// Returns the number of lines dropped since the start, of all tools.
    pub fn dropped(&self) -> u64 {
        self.waiting.dropped()
    }

    /// Follows the lines of `endpoint` from now on. A slow follower learns how many lines it missed.
    pub fn follow(&self, endpoint: &EndpointId) -> Result<Follower<Arc<FollowedLine>>, TooManyFollowers> {
        self.feed.follow(endpoint.as_str())
    }

    /// Returns up to `limit` lines of `endpoint` after `position`, oldest first.
    #[boxed]
    pub async fn after(&self, endpoint: &EndpointId, position: &LogPosition, limit: usize) -> Result<Vec<FollowedLine>, StoreError> {
        let from = position.clone().max(LogPosition::start_of(self.settings.oldest(&self.clock)));
        stored_after(Arc::clone(&self.store), endpoint.to_string(), from, limit).await
    }

    /// Returns the lines of `endpoint` that match `query`, or `Ok(None)` if its cursor is invalid.
    #[boxed]
    pub async fn list(&self, endpoint: &EndpointId, query: &LogQuery) -> Result<Option<LogPage>, StoreError> {
        let oldest = self.settings.oldest(&self.clock).max(query.since.unwrap_or(Timestamp(0)));
        let own = CountedText(endpoint.clone());
        let mut range = LOGS.under(&own).from(&(own.clone(), oldest));
        if let Some(cursor) = &query.cursor {
            let Some(LogPosition(at, number)) = LogPosition::from_cursor(cursor) else { return Ok(None) };
            range = range.before(&(own, at, number));
        }
        let (entries, next) = LOGS.newest(&*self.store, range, query.limit, |entry| query.wants(entry)).await?;
        Ok(Some(LogPage { entries, next_cursor: next.map(|(_, at, number)| LogPosition(at, number).to_cursor()) }))
    }

    /// Removes old lines, in one turn of a [round](tollhouse_store::sweep_cursor) through tools that continues where the last
    /// sweep stopped.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next call tries the rest again.
    #[boxed]
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = LOGS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        let oldest = self.settings.oldest(&self.clock);
        while let Some((own, first, _)) = round.next().await? {
            if first < oldest {
                remove_until(&*self.store, &own.0, oldest).await?;
            }
            round.past(&own);
        }
        round.end().await
    }

    pub(super) async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.flush().await;
        LOGS.clear(&*self.store, &LOGS.under(&CountedText(endpoint.clone())), u64::MAX).await.map(|_| ())
    }
}

/// Returns up to `limit` stored lines of `endpoint` after `position`, oldest first.
async fn stored_after(
    store: Arc<dyn Store>,
    endpoint: String,
    LogPosition(at, number): LogPosition,
    limit: usize,
) -> Result<Vec<FollowedLine>, StoreError> {
    let Ok(endpoint) = endpoint.parse::<EndpointId>() else { return Ok(vec![]) };
    let own = CountedText(endpoint);
    let range = LOGS.under(&own).after(&(own, at, number));
    let rows = LOGS.readable(&*store, &range, limit, Direction::Forward).await?;
    let followed =
        rows.into_iter().filter_map(|((_, at, number), entry)| Some(FollowedLine { position: LogPosition(at, number), entry: entry? }));
    Ok(followed.collect())
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

impl LogQuery {
    /// Returns whether `entry` matches the time, the level and the call.
    pub fn wants(&self, entry: &LogEntry) -> bool {
        self.since.is_none_or(|since| entry.at >= since)
            && self.level.is_none_or(|level| entry.level >= level)
            && self.call.as_ref().is_none_or(|call| entry.call_id.as_ref() == Some(call))
    }
}

#[cfg(test)]
mod tests;
