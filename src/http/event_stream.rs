//! Streams entries as Server-Sent Events: stored entries after a position, then live ones.
//!
//! A slow reader costs only a buffer of fixed size. Entries that do not fit are dropped, and a `lagged` event gives
//! their number. They are still in the store and can be read in pages.
//!
//! The reader's credential is checked before each event, and repeatedly while there is none. Once the credential is no
//! longer valid, the stream ends with an `error` event.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use axum::response::sse::Event;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tollhouse_base::clock::Timestamp;
use tollhouse_event::feed::{FeedItem, Follower, Position, TooManyFollowers};
use tollhouse_front::{ApiError, Code, FrontServices, Places, StreamAccess, peer, sse};
use tollhouse_store::StoreError;

use crate::{Answer, HeaderMap, Parts};

/// Stored entries read at once.
const PAGE: usize = 100;
/// Number of recent ids remembered, to send no entry twice between the stored and the live ones.
const REMEMBERED: usize = 2_048;
/// Delay before readers reconnect after this host shuts down, in milliseconds.
const RETRY_MS: RangeInclusive<u64> = 100..=1_000;
/// How far before the last read position the final read of the store begins, in milliseconds. Entries with almost the
/// same time can be stored in any order.
const OVERLAP_MS: u64 = 10_000;

/// An entry to send to a reader.
#[derive(Debug, Clone)]
pub(super) struct StreamEntry {
    /// The SSE `id`, which the reader sends back in `Last-Event-ID`.
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) data: Value,
}

/// A source of entries that are stored in order and published live.
#[async_trait]
pub(super) trait FollowSource: Send + Sync + 'static {
    type Place: Position;
    type Item: Send + Sync;

    /// Subscribes to everything published from now on.
    fn follow(&self) -> Result<Follower<Arc<Self::Item>>, TooManyFollowers>;
    /// Waits until the published entries are stored.
    async fn settle(&self) {}
    /// Returns stored entries after `place`, oldest first.
    async fn after(&self, place: &Self::Place, limit: usize) -> Result<Vec<Self::Item>, StoreError>;
    /// Returns the position of an entry.
    fn place(item: &Self::Item) -> Self::Place;
    /// Returns the entry as sent to the reader, or `None` if the reader's filter excludes it.
    fn entry(&self, item: &Self::Item) -> Option<StreamEntry>;
}

/// Returns the position where a stream begins: after the last entry of a reader that reconnects, otherwise at `since`.
/// `read` parses an id, and `what` describes ids in errors.
pub(super) fn from<P: Position>(
    headers: &HeaderMap,
    since: Option<Timestamp>,
    read: impl FnOnce(&str) -> Option<P>,
    what: &str,
) -> Result<Option<P>, ApiError> {
    match headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty()) {
        Some(last) => read(last).map(Some).ok_or_else(|| ApiError::bad_request(format!("`Last-Event-ID` must be the id of {what}"))),
        None => Ok(since.map(P::start_of)),
    }
}

/// Streams stored entries after `from`, then live ones. Without `from`, streams only live ones.
pub(super) fn stream<S: FollowSource>(shared: &FrontServices, request: &Parts, source: S, from: Option<S::Place>) -> Answer {
    let (followers, address) = (&shared.intake.followers, peer(&request.extensions));
    let positions = Places::take(followers, &shared.intake, address, "event streams", "Close one, or read pages instead of a stream")?;
    let crowded = |error: TooManyFollowers| ApiError::new(Code::RateLimited, error.to_string()).retry_after(30);
    // Subscribing here reports errors before the stream begins. While the stream reads the store it has no
    // subscription, so that it cannot lag behind.
    let follower = source.follow().map_err(crowded)?;
    let phase = match from.clone() {
        None => Phase::Live(follower),
        Some(from) => Phase::Stored(from),
    };
    let state = FollowStream {
        ending: shared.shutdown.token(),
        access: StreamAccess::of(&shared.callers, request),
        check_at: Instant::now() + StreamAccess::CHECK_EVERY,
        source,
        from,
        phase,
        ready: VecDeque::new(),
        sent: RecentIds::default(),
        _places: positions,
    };
    let events = stream::unfold(state, |mut state| async { state.next().await.map(|event| (Ok::<_, Infallible>(event), state)) });
    Ok(sse::response(events))
}

struct FollowStream<S: FollowSource> {
    /// Shutdown does not wait for readers.
    ending: CancellationToken,
    access: StreamAccess,
    /// When to check the access again if nothing is sent before.
    check_at: Instant,
    source: S,
    /// The position from which the reader wants events.
    from: Option<S::Place>,
    phase: Phase<S>,
    /// Entries to send: at most a page.
    ready: VecDeque<StreamEntry>,
    sent: RecentIds,
    _places: Places,
}

enum Phase<S: FollowSource> {
    /// Reading stored entries after the position.
    Stored(S::Place),
    /// Subscribed, and reading the last stored entries.
    Joining(S::Place, Follower<Arc<S::Item>>),
    Live(Follower<Arc<S::Item>>),
    Over,
}

/// The next step of a stream.
enum Step {
    /// Sends an event, if the reader still has access.
    Send(Event),
    /// Has had nothing to send for a while.
    Wait,
    /// Sends the last event, for example an error.
    End(Event),
}

impl<S: FollowSource> FollowStream<S> {
    /// Returns the next event, or `None` after the last one.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let (event, refused) = match self.advance().await? {
                Step::Send(event) => (Some(event), self.access.check().await.err()),
                Step::Wait => (None, self.access.check_idle().await.err()),
                Step::End(event) => return Some(event),
            };
            self.check_at = Instant::now() + StreamAccess::CHECK_EVERY;
            if let Some(refused) = refused {
                self.phase = Phase::Over;
                self.ready.clear();
                return Some(refused_event(&refused));
            }
            if event.is_some() {
                return event;
            }
        }
    }

    async fn advance(&mut self) -> Option<Step> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                if self.sent.has(&entry.id) {
                    continue;
                }
                self.sent.remember(&entry.id);
                return Some(Step::Send(event(&entry)));
            }
            // This is also checked while all new entries are excluded by the reader's filter.
            if Instant::now() >= self.check_at && !matches!(self.phase, Phase::Over) {
                return Some(Step::Wait);
            }
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Stored(position) => match self.read(&position).await {
                    Ok(Some(end)) => self.phase = Phase::Stored(end),
                    Ok(None) => match self.source.follow() {
                        Ok(mut follower) => {
                            if self.ending.run_until_cancelled(follower.started()).await.is_none() {
                                return Some(Step::End(retry_event()));
                            }
                            self.source.settle().await;
                            let back = S::Place::start_of(Timestamp(position.at().0.saturating_sub(OVERLAP_MS)));
                            let from = self.from.iter().cloned().chain([back]).max().unwrap_or(position);
                            self.phase = Phase::Joining(from, follower);
                        }
                        Err(error) => return Some(Step::End(error_event(&error.to_string()))),
                    },
                    Err(error) => return Some(Step::End(self.store_failed(&error))),
                },
                Phase::Joining(position, follower) => match self.read(&position).await {
                    Ok(Some(end)) => self.phase = Phase::Joining(end, follower),
                    Ok(None) => self.phase = Phase::Live(follower),
                    Err(error) => return Some(Step::End(self.store_failed(&error))),
                },
                Phase::Live(mut follower) => {
                    let waiting = timeout_at(self.check_at, self.ending.run_until_cancelled(follower.next())).await;
                    let Ok(reported) = waiting else {
                        self.phase = Phase::Live(follower);
                        continue;
                    };
                    let Some(reported) = reported else { return Some(Step::End(retry_event())) };
                    let reported = reported?;
                    self.phase = Phase::Live(follower);
                    match reported {
                        FeedItem::Missed(missed) => {
                            return Some(Step::Send(Event::default().event("lagged").data(json!({ "missed": missed }).to_string())));
                        }
                        FeedItem::Entry(item) => self.ready.extend(self.source.entry(&item)),
                    }
                }
            }
        }
    }

    /// Reads the next page after `place`. Returns its last position, or `None` if nothing is left.
    async fn read(&mut self, position: &S::Place) -> Result<Option<S::Place>, StoreError> {
        let items = self.source.after(position, PAGE).await?;
        self.ready.extend(items.iter().filter_map(|item| self.source.entry(item)));
        Ok(items.last().map(S::place))
    }

    /// Returns the final event when the store fails. Readers reconnect with the last id they received.
    fn store_failed(&self, error: &StoreError) -> Event {
        tracing::error!(%error, "the store failed while a client followed a stream");
        error_event("The store is unavailable; reconnect with the last event id")
    }
}

fn event(entry: &StreamEntry) -> Event {
    Event::default().id(&entry.id).event(entry.name).data(entry.data.to_string())
}

/// Returns the final event at shutdown. Readers reconnect at different times, to another host or to this one after its
/// restart.
fn retry_event() -> Event {
    Event::default().retry(Duration::from_millis(fastrand::u64(RETRY_MS)))
}

/// Returns the final event of a reader who no longer has access, or whose access cannot be checked.
fn refused_event(refused: &ApiError) -> Event {
    Event::default().event("error").data(refused.envelope().to_string())
}

fn error_event(message: &str) -> Event {
    Event::default().event("error").data(json!({ "ok": false, "error": { "code": "store_unavailable", "message": message } }).to_string())
}

/// The most recent ids sent.
#[derive(Default)]
struct RecentIds {
    order: VecDeque<String>,
    ids: HashSet<String>,
}

impl RecentIds {
    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn remember(&mut self, id: &str) {
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id.to_owned());
        self.ids.insert(id.to_owned());
    }
}
