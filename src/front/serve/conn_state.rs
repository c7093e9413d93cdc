//! Activity of a connection, reported by its tasks, and its time limits.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tollhouse_base::lock::Lock;
use tollhouse_config::ConnectionSettings;

use super::frames;
use crate::quota::QuotaShare;

/// Maximum requests that a client can reset on one connection beyond the number answered. HTTP/2 lets a client send
/// another at once, however many are still being cleaned up.
const MAX_RESETS: usize = 100;

/// Heads up to this size are not counted. The limits on connections and concurrent requests bound them.
pub(super) const UNCOUNTED_BYTES: usize = 4 << 10;

/// Maximum unread answers of a connection while the memory for answers is full.
const MAX_UNREAD: usize = 8;

/// Bytes and overhead frames that a connection can read before other tasks of its thread get a turn. A frame takes
/// about a microsecond.
const TURN_BYTES: usize = 64 << 10;
const TURN_FRAMES: u32 = 256;

/// Checks of a connection within its shortest time limit, and bounds of the interval.
const CHECKS: u32 = 4;
const MAX_INTERVAL: Duration = Duration::from_secs(1);
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// The origin of moments.
static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An optional moment that several tasks set and read.
#[derive(Debug, Default)]
pub(super) struct SharedInstant(AtomicU64);

impl SharedInstant {
    /// Returns milliseconds since [`BASE`], but never 0, which means none.
    fn now() -> u64 {
        u64::try_from(BASE.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    pub(super) fn set(&self) {
        self.0.store(Self::now(), Relaxed);
    }

    fn set_once(&self) {
        if self.0.load(Relaxed) == 0 {
            self.set();
        }
    }

    pub(super) fn clear(&self) {
        if self.0.load(Relaxed) != 0 {
            self.0.store(0, Relaxed);
        }
    }

    /// Returns whether the moment is set and at least `limit` ago. False if there is no limit.
    pub(super) fn beyond(&self, limit: Option<Duration>) -> bool {
        let (at, Some(limit)) = (self.0.load(Relaxed), limit) else { return false };
        at != 0 && Duration::from_millis(Self::now().saturating_sub(at)) >= limit
    }

    fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

/// Returns how often to check `limits`, or `None` if there are none.
pub(super) fn check_interval(limits: &[Option<Duration>]) -> Option<Duration> {
    let shortest = limits.iter().flatten().min()?;
    Some((*shortest / CHECKS).clamp(MIN_INTERVAL, MAX_INTERVAL))
}

/// The activity of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnState {
    /// Requests being answered. Each counts until the last byte of its answer.
    answering: AtomicUsize,
    answered: AtomicUsize,
    resets: AtomicUsize,
    /// A request has arrived.
    requested: AtomicBool,
    /// The latest request used HTTP/2.
    http2: AtomicBool,
    /// When the last answer ended, while no request is being answered.
    idle_for: SharedInstant,
    /// When the current head began to arrive.
    head: SharedInstant,
    /// Bytes of the current HTTP/1 head, and their share of the memory for bodies.
    head_bytes: AtomicUsize,
    head_share: Lock<Option<QuotaShare>>,
    /// When the client stopped reading.
    blocked: SharedInstant,
    /// Complete answers that the client has not fully read.
    unread_answers: AtomicUsize,
    /// The client leaves too many answers unread, or a head unfinished, for the memory that is left.
    is_hoarding: AtomicBool,
    /// HTTP/2 frames earned by the requests and answers so far.
    earned: AtomicU64,
    /// Frames earned by requests that were then rejected, and not paid for yet.
    forfeited: AtomicU32,
    /// Chunks of HTTP/1 bodies that count as overhead, and are not paid for yet.
    chunks: AtomicU32,
    /// More frames arrived than were earned and allowed.
    flooded: AtomicBool,
    /// Bytes and overhead frames read in this turn.
    turn_bytes: AtomicUsize,
    turn_frames: AtomicU32,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// A head takes too long.
    Head,
    /// No request arrives.
    Idle,
    /// The client does not read its answer.
    Unread,
    /// The client resets too many requests.
    Resets,
    /// Too many frames belong to no request or answer, or too many chunks carry next to nothing.
    Frames,
    /// Too many answers are unread, or a head is unfinished, while the memory for them is full.
    Held,
}

impl CloseReason {
    /// Returns its label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Unread => "unread",
            Self::Resets => "reset",
            Self::Frames => "frames",
            Self::Held => "held",
        }
    }
}

/// Takes what was counted. Mostly, that is nothing.
fn take(counted: &AtomicU32) -> u32 {
    if counted.load(Relaxed) == 0 { 0 } else { counted.swap(0, Relaxed) }
}

impl ConnState {
    pub(super) fn new() -> Arc<Self> {
        let conn = Self::default();
        conn.idle_for.set();
        Arc::new(conn)
    }

    /// Records a request, which is being answered until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, http2: bool) -> AnswerGuard {
        self.answering.fetch_add(1, Relaxed);
        self.requested.store(true, Relaxed);
        self.http2.store(http2, Relaxed);
        self.head.clear();
        if self.head_bytes.swap(0, Relaxed) > UNCOUNTED_BYTES {
            *self.head_share.lock() = None;
        }
        let answering = AnswerGuard { conn: Arc::clone(self), earns: http2, is_complete: false, is_unread: false };
        answering.credit_frames(frames::PER_REQUEST);
        answering
    }

    /// Returns the HTTP/2 frames earned by the requests and answers so far.
    pub(super) fn earned(&self) -> u64 {
        self.earned.load(Relaxed)
    }

    /// Takes the cost of rejected requests, in overhead frames.
    pub(super) fn take_forfeited(&self) -> u32 {
        take(&self.forfeited)
    }

    /// Counts a chunk of an HTTP/1 body that carries next to nothing.
    pub(super) fn count_chunk(&self) {
        self.chunks.fetch_add(1, Relaxed);
    }

    /// Takes the cost of such chunks, in overhead frames.
    pub(super) fn take_chunks(&self) -> u32 {
        take(&self.chunks)
    }

    /// Records that more frames arrived than the connection and its address can send.
    pub(super) fn flood(&self) {
        self.flooded.store(true, Relaxed);
    }

    /// Returns whether requests use HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2.load(Relaxed)
    }

    /// Begins a turn of the connection on its thread.
    pub(super) fn begin_turn(&self) {
        self.turn_bytes.store(0, Relaxed);
        self.turn_frames.store(0, Relaxed);
    }

    /// Counts bytes read in this turn, and the overhead frames among them.
    pub(super) fn read(&self, bytes: usize, frames: u32) {
        self.turn_bytes.fetch_add(bytes, Relaxed);
        self.turn_frames.fetch_add(frames, Relaxed);
    }

    /// Returns whether other tasks must get a turn before more is read.
    pub(super) fn is_turn_over(&self) -> bool {
        self.turn_bytes.load(Relaxed) >= TURN_BYTES || self.turn_frames.load(Relaxed) >= TURN_FRAMES
    }

    /// Records that the memory for answers is full. The connection is closed if it leaves many answers unread.
    pub(super) fn answers_are_full(&self) {
        if self.unread_answers.load(Relaxed) >= MAX_UNREAD {
            self.is_hoarding.store(true, Relaxed);
        }
    }

    /// Records received bytes. They belong to a head if no request is being answered.
    pub(super) fn note_read(&self, bytes: usize) {
        if self.answering.load(Relaxed) == 0 {
            self.head.set_once();
            self.head_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// Takes memory for the unfinished HTTP/1 head, until its request begins: adds what is missing to a share, which is
    /// `empty` at first. Returns whether `take` could add it.
    pub(super) fn hold_head(&self, empty: impl FnOnce() -> QuotaShare, take: impl FnOnce(&mut QuotaShare, usize) -> bool) -> bool {
        let bytes = self.head_bytes.load(Relaxed);
        if bytes <= UNCOUNTED_BYTES {
            return true;
        }
        let mut held = self.head_share.lock();
        let share = held.get_or_insert_with(empty);
        let missing = bytes.saturating_sub(share.amount());
        missing == 0 || take(share, missing)
    }

    /// Records that there is no memory for the unfinished head.
    pub(super) fn heads_are_full(&self) {
        self.is_hoarding.store(true, Relaxed);
    }

    /// Records that bytes were sent.
    pub(super) fn wrote(&self) {
        self.blocked.clear();
    }

    /// Records that no more bytes can be sent for now.
    pub(super) fn cannot_write(&self) {
        self.blocked.set_once();
    }

    /// Returns why the connection must be closed at once, if it must.
    pub(super) fn exceeded(&self) -> Option<CloseReason> {
        if self.resets.load(Relaxed) > self.answered.load(Relaxed).saturating_add(MAX_RESETS) {
            return Some(CloseReason::Resets);
        }
        if self.flooded.load(Relaxed) {
            return Some(CloseReason::Frames);
        }
        self.is_hoarding.load(Relaxed).then_some(CloseReason::Held)
    }

    /// Returns why the connection must be closed because of a time limit, if it must. `stall` is the maximum time
    /// without progress in reading an answer.
    pub(super) fn overdue(&self, limits: &ConnectionSettings, stall: Option<Duration>) -> Option<CloseReason> {
        if self.blocked.beyond(stall) {
            return Some(CloseReason::Unread);
        }
        if self.answering.load(Relaxed) > 0 {
            return None;
        }
        if self.blocked.is_set() {
            // The end of an answer is still being sent. The connection becomes idle once it has been sent.
            self.idle_for.set();
            return None;
        }
        if !self.requested.load(Relaxed) {
            return self.idle_for.beyond(limits.head).then_some(CloseReason::Head);
        }
        // In HTTP/2, bytes between two requests need not be a head.
        if !self.http2.load(Relaxed) && self.head.is_set() {
            return self.head.beyond(limits.head).then_some(CloseReason::Head);
        }
        self.idle_for.beyond(limits.idle).then_some(CloseReason::Idle)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct AnswerGuard {
    conn: Arc<ConnState>,
    /// The request and its answer earn frames. Those of HTTP/1 and rejected requests earn none.
    earns: bool,
    is_complete: bool,
    is_unread: bool,
}

impl AnswerGuard {
    /// Records that the answer is complete and waits for the client.
    pub(super) fn complete(&mut self) {
        self.is_unread = true;
        self.conn.unread_answers.fetch_add(1, Relaxed);
    }

    fn credit_frames(&self, frames: u64) {
        if self.earns {
            self.conn.earned.fetch_add(frames, Relaxed);
        }
    }

    /// Records that the request was rejected because it was too large, or because there were too many. Neither the request
    /// nor its answer earns frames, and parsing its `fields` counts as overhead.
    pub(super) fn refused(&mut self, fields: usize) {
        let earned = if self.earns { u32::try_from(frames::PER_REQUEST).unwrap_or(u32::MAX) } else { 0 };
        self.earns = false;
        self.conn.forfeited.fetch_add(earned.saturating_add(frames::refusal_cost(fields)), Relaxed);
    }

    /// Records that this many bytes of the answer were passed on.
    pub(super) fn sends(&self, bytes: usize) {
        self.credit_frames(frames::earned_by(bytes));
    }

    /// Records that the whole answer was passed on.
    pub(super) fn end(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        let count = if self.is_complete { &self.conn.answered } else { &self.conn.resets };
        count.fetch_add(1, Relaxed);
        if self.is_unread {
            self.conn.unread_answers.fetch_sub(1, Relaxed);
        }
        if self.conn.answering.fetch_sub(1, Relaxed) == 1 {
            self.conn.idle_for.set();
        }
    }
}
