//! Following what happens as Server-Sent Events: what is stored from a place on, then live.
//!
//! A reader who is slow costs a buffer of fixed size and no more: what does not fit is left out, and a
//! `lagged` event says how many entries are missing. They are in the store, to be paged.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    http::{HeaderMap, request::Parts},
    response::{Response, sse::Event},
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tollhouse_base::clock::Timestamp;
use tollhouse_event::feed::{Crowded, FeedItem, Follower, Position};
use tollhouse_front::{Code, Fault, Places, Shared, peer, sse};
use tollhouse_store::StoreError;

/// Stored entries read at once.
const PAGE: usize = 100;
/// Entries that are remembered for not being told twice, where the stored ones end and the live ones begin.
const REMEMBERED: usize = 2_048;
/// When readers come back whom a host that ends lets go.
const COMES_BACK_MS: RangeInclusive<u64> = 100..=1_000;
/// How far the last reading of the store goes back behind what was read before: entries of one time may be
/// stored in any order.
const OVERLAP_MS: u64 = 10_000;

/// An entry on its way to a reader.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The SSE `id`, which `Last-Event-ID` brings back.
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) data: Value,
}

/// Something that is stored in an order, and happens.
#[async_trait]
pub(super) trait Source: Send + Sync + 'static {
    type Place: Position;
    type Item: Send + Sync;

    /// All that is published from now on.
    fn follow(&self) -> Result<Follower<Arc<Self::Item>>, Crowded>;
    /// Waits until what was published is stored.
    async fn settle(&self) {}
    /// What is stored after `place`, oldest first.
    async fn after(&self, place: &Self::Place, limit: usize) -> Result<Vec<Self::Item>, StoreError>;
    /// Where it stands.
    fn place(item: &Self::Item) -> Self::Place;
    /// As a reader gets it; `None` when this one did not ask for it.
    fn entry(&self, item: &Self::Item) -> Option<Entry>;
}

/// Where a stream begins: behind what the reader had last, when it comes back, or at `since`. `read` knows the place by an id, and
/// `what` says of what the ids are.
pub(super) fn from<P: Position>(
    headers: &HeaderMap,
    since: Option<Timestamp>,
    read: impl FnOnce(&str) -> Option<P>,
    what: &str,
) -> Result<Option<P>, Fault> {
    match headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty()) {
        Some(last) => read(last).map(Some).ok_or_else(|| Fault::bad_request(format!("`Last-Event-ID` is the id of {what}"))),
        None => Ok(since.map(P::start_of)),
    }
}

/// Streams what is stored after `from`, then what happens, to who made the request. Without `from` only what happens.
pub(super) fn stream<S: Source>(shared: &Shared, request: &Parts, source: S, from: Option<S::Place>) -> Result<Response, Fault> {
    let (followers, address) = (&shared.intake.followers, peer(&request.extensions));
    let places = Places::take(followers, &shared.intake, address, "streams that follow something", "close one, or ask for pages")?;
    let crowded = |error: Crowded| Fault::new(Code::RateLimited, error.to_string()).retry_after(30);
    // Refused before the stream begins. While it reads the store it follows nothing, so that it does not lag behind.
    let follower = source.follow().map_err(crowded)?;
    let phase = match from.clone() {
        None => Phase::Live(follower),
        Some(from) => Phase::Stored(from),
    };
    let ending = shared.shutdown.token();
    let state = Following { ending, source, from, phase, ready: VecDeque::new(), told: Recent::default(), _places: places };
    let events = stream::unfold(state, |mut state| async { state.next().await.map(|event| (Ok::<_, Infallible>(event), state)) });
    Ok(sse::response(events))
}

struct Following<S: Source> {
    /// A host that is ending waits for no reader.
    ending: CancellationToken,
    source: S,
    /// Where the reader asked to begin.
    from: Option<S::Place>,
    phase: Phase<S>,
    /// Read and not sent yet: at most a page.
    ready: VecDeque<Entry>,
    told: Recent,
    _places: Places,
}

enum Phase<S: Source> {
    /// Reading what is stored after the place.
    Stored(S::Place),
    /// Following, and reading the last of what is stored.
    Joining(S::Place, Follower<Arc<S::Item>>),
    Live(Follower<Arc<S::Item>>),
    Over,
}

impl<S: Source> Following<S> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                if self.told.has(&entry.id) {
                    continue;
                }
                self.told.remember(&entry.id);
                return Some(event(&entry));
            }
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Stored(place) => match self.read(&place).await {
                    Ok(Some(end)) => self.phase = Phase::Stored(end),
                    Ok(None) => match self.source.follow() {
                        Ok(mut follower) => {
                            if self.ending.run_until_cancelled(follower.begun()).await.is_none() {
                                return Some(elsewhere());
                            }
                            self.source.settle().await;
                            let back = S::Place::start_of(Timestamp(place.at().0.saturating_sub(OVERLAP_MS)));
                            let from = self.from.iter().cloned().chain([back]).max().unwrap_or(place);
                            self.phase = Phase::Joining(from, follower);
                        }
                        Err(error) => return Some(broken(&error.to_string())),
                    },
                    Err(error) => return Some(self.away(&error)),
                },
                Phase::Joining(place, follower) => match self.read(&place).await {
                    Ok(Some(end)) => self.phase = Phase::Joining(end, follower),
                    Ok(None) => self.phase = Phase::Live(follower),
                    Err(error) => return Some(self.away(&error)),
                },
                Phase::Live(mut follower) => {
                    let Some(told) = self.ending.run_until_cancelled(follower.next()).await else { return Some(elsewhere()) };
                    let told = told?;
                    self.phase = Phase::Live(follower);
                    match told {
                        FeedItem::Missed(missed) => {
                            return Some(Event::default().event("lagged").data(json!({ "missed": missed }).to_string()));
                        }
                        FeedItem::Entry(item) => self.ready.extend(self.source.entry(&item)),
                    }
                }
            }
        }
    }

    /// Reads on behind `place`; answers where the reading ended, `None` where nothing more is stored.
    async fn read(&mut self, place: &S::Place) -> Result<Option<S::Place>, StoreError> {
        let items = self.source.after(place, PAGE).await?;
        self.ready.extend(items.iter().filter_map(|item| self.source.entry(item)));
        Ok(items.last().map(S::place))
    }

    /// The end of a stream that cannot go on. Readers come back with the last id they had.
    fn away(&self, error: &StoreError) -> Event {
        tracing::error!(%error, "the store did not answer one who follows");
        broken("the store is away; follow again from the last id")
    }
}

fn event(entry: &Entry) -> Event {
    Event::default().id(&entry.id).event(entry.name).data(entry.data.to_string())
}

/// The end of a stream of a host that is about to end: readers come back, not all at once, and find another host, or this one again.
fn elsewhere() -> Event {
    Event::default().retry(Duration::from_millis(fastrand::u64(COMES_BACK_MS)))
}

fn broken(message: &str) -> Event {
    Event::default().event("error").data(json!({ "ok": false, "error": { "code": "store_unavailable", "message": message } }).to_string())
}

/// The ids told last.
#[derive(Default)]
struct Recent {
    order: VecDeque<String>,
    ids: HashSet<String>,
}

impl Recent {
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
