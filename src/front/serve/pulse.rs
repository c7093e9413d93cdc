//! What goes on on a connection, as the tasks that have to do with it tell, and whether it goes on long enough.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tollhouse_config::ConnectionSettings;

use super::frames;

/// Requests that a client may take back on one connection beyond those that were answered: HTTP/2 lets it ask for
/// another one at once, however many are being cleared away.
const TAKEN_BACK: usize = 100;

/// Answers that a connection may leave untaken while the memory for answers is full.
const UNTAKEN: usize = 8;

/// Bytes and frames of overhead that a connection may read before other tasks of its thread have their turn. A frame takes about a
/// microsecond.
const TURN_BYTES: usize = 64 << 10;
const TURN_FRAMES: u32 = 256;

/// Looks at a connection within its shortest limit.
const LOOKS: u32 = 4;
const LONGEST_LOOK: Duration = Duration::from_secs(1);
const SHORTEST_LOOK: Duration = Duration::from_millis(5);

/// Where moments are counted from.
static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A moment, or none, that several tasks set and ask for.
#[derive(Debug, Default)]
pub(super) struct Moment(AtomicU64);

impl Moment {
    /// Milliseconds, and never 0, which is none.
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

    /// True when it is set, and so long ago or longer. Never beyond no limit.
    pub(super) fn beyond(&self, limit: Option<Duration>) -> bool {
        let (at, Some(limit)) = (self.0.load(Relaxed), limit) else { return false };
        at != 0 && Duration::from_millis(Self::now().saturating_sub(at)) >= limit
    }

    fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

/// How often to look whether one of `limits` is passed; `None` when there is none.
pub(super) fn look(limits: &[Option<Duration>]) -> Option<Duration> {
    let shortest = limits.iter().flatten().min()?;
    Some((*shortest / LOOKS).clamp(SHORTEST_LOOK, LONGEST_LOOK))
}

/// What goes on on one connection.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Requests being answered, the last byte of the answer included.
    answering: AtomicUsize,
    answered: AtomicUsize,
    taken_back: AtomicUsize,
    /// A request has come.
    asked: AtomicBool,
    /// One of HTTP/2.
    http2: AtomicBool,
    /// Since when no request is being answered.
    quiet: Moment,
    /// Since when a head is being sent.
    head: Moment,
    /// Since when the client takes nothing of what is to be sent.
    blocked: Moment,
    /// Answers that are made and that the client has not taken whole.
    untaken: AtomicUsize,
    /// The client leaves too many answers untaken.
    hoards: AtomicBool,
    /// Frames of HTTP/2 that go with the requests and answers so far.
    earned: AtomicU64,
    /// Frames that requests had earned which were refused, and that are not paid for yet.
    forfeited: AtomicU32,
    /// More frames came than those, and than the allowances.
    flooded: AtomicBool,
    /// Bytes and frames of overhead that were read since the connection had its turn.
    turn_bytes: AtomicUsize,
    turn_frames: AtomicU32,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A head that takes too long.
    Head,
    /// No request.
    Idle,
    /// An answer of which nothing is taken.
    Unread,
    /// Requests that were reset.
    TakenBack,
    /// Frames that belong to no request or answer.
    Frames,
    /// Answers that are left untaken while the memory for them is full.
    Held,
}

impl Overdue {
    /// As metrics have it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Unread => "unread",
            Self::TakenBack => "reset",
            Self::Frames => "frames",
            Self::Held => "held",
        }
    }
}

impl Pulse {
    pub(super) fn new() -> Arc<Self> {
        let pulse = Self::default();
        pulse.quiet.set();
        Arc::new(pulse)
    }

    /// A request has come, and is being answered until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>, http2: bool) -> Answering {
        self.answering.fetch_add(1, Relaxed);
        self.asked.store(true, Relaxed);
        self.http2.store(http2, Relaxed);
        self.head.clear();
        let answering = Answering { pulse: Arc::clone(self), earns: http2, to_its_end: false, untaken: false };
        answering.earn(frames::PER_REQUEST);
        answering
    }

    /// Frames of HTTP/2 that go with the requests and answers so far.
    pub(super) fn earned(&self) -> u64 {
        self.earned.load(Relaxed)
    }

    /// Takes what refused requests cost, in frames of overhead.
    pub(super) fn take_forfeited(&self) -> u32 {
        if self.forfeited.load(Relaxed) == 0 { 0 } else { self.forfeited.swap(0, Relaxed) }
    }

    /// Notes that more frames came than the connection and its address may send.
    pub(super) fn flood(&self) {
        self.flooded.store(true, Relaxed);
    }

    /// Whether requests come over HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2.load(Relaxed)
    }

    /// Begins a turn of the connection at its thread.
    pub(super) fn begin_turn(&self) {
        self.turn_bytes.store(0, Relaxed);
        self.turn_frames.store(0, Relaxed);
    }

    /// Counts bytes that were read in this turn, and the frames of overhead among them.
    pub(super) fn read(&self, bytes: usize, frames: u32) {
        self.turn_bytes.fetch_add(bytes, Relaxed);
        self.turn_frames.fetch_add(frames, Relaxed);
    }

    /// True when other tasks must have their turn before more is read.
    pub(super) fn is_turn_over(&self) -> bool {
        self.turn_bytes.load(Relaxed) >= TURN_BYTES || self.turn_frames.load(Relaxed) >= TURN_FRAMES
    }

    /// The memory for answers is full: the connection is closed if it leaves many of them untaken.
    pub(super) fn answers_are_full(&self) {
        if self.untaken.load(Relaxed) >= UNTAKEN {
            self.hoards.store(true, Relaxed);
        }
    }

    /// Bytes have come: of a head, when nothing is being answered.
    pub(super) fn heard(&self) {
        if self.answering.load(Relaxed) == 0 {
            self.head.set_once();
        }
    }

    /// Bytes have gone out.
    pub(super) fn wrote(&self) {
        self.blocked.clear();
    }

    /// No more bytes can go out for now.
    pub(super) fn cannot_write(&self) {
        self.blocked.set_once();
    }

    /// Why the connection is to be closed at once, if it is.
    pub(super) fn exceeded(&self) -> Option<Overdue> {
        if self.taken_back.load(Relaxed) > self.answered.load(Relaxed).saturating_add(TAKEN_BACK) {
            return Some(Overdue::TakenBack);
        }
        if self.flooded.load(Relaxed) {
            return Some(Overdue::Frames);
        }
        self.hoards.load(Relaxed).then_some(Overdue::Held)
    }

    /// Why the connection is to be closed, if it is; `stall` is how long its client may take nothing of an answer.
    pub(super) fn overdue(&self, limits: &ConnectionSettings, stall: Option<Duration>) -> Option<Overdue> {
        if self.blocked.beyond(stall) {
            return Some(Overdue::Unread);
        }
        if self.answering.load(Relaxed) > 0 {
            return None;
        }
        if self.blocked.is_set() {
            // The end of an answer is still on its way: the connection is idle when that is there.
            self.quiet.set();
            return None;
        }
        if !self.asked.load(Relaxed) {
            return self.quiet.beyond(limits.head).then_some(Overdue::Head);
        }
        // What comes between two requests of HTTP/2 need not be a head.
        if !self.http2.load(Relaxed) && self.head.is_set() {
            return self.head.beyond(limits.head).then_some(Overdue::Head);
        }
        self.quiet.beyond(limits.idle).then_some(Overdue::Idle)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering {
    pulse: Arc<Pulse>,
    /// Frames go with the request and its answer: those of HTTP/1 have none, and those that are refused earn none.
    earns: bool,
    to_its_end: bool,
    untaken: bool,
}

impl Answering {
    /// The answer is made, and waits for its client.
    pub(super) fn made(&mut self) {
        self.untaken = true;
        self.pulse.untaken.fetch_add(1, Relaxed);
    }

    fn earn(&self, frames: u64) {
        if self.earns {
            self.pulse.earned.fetch_add(frames, Relaxed);
        }
    }

    /// The request was refused for being one too many, or too large: neither it nor its answer earns anything, and its `fields` cost
    /// what they took to read.
    pub(super) fn refused(&mut self, fields: usize) {
        let earned = if self.earns { u32::try_from(frames::PER_REQUEST).unwrap_or(u32::MAX) } else { 0 };
        self.earns = false;
        self.pulse.forfeited.fetch_add(earned.saturating_add(frames::refusal_cost(fields)), Relaxed);
    }

    /// So many bytes of the answer are handed over.
    pub(super) fn sends(&self, bytes: usize) {
        self.earn(frames::earned_by(bytes));
    }

    /// The whole answer is on its way.
    pub(super) fn end(&mut self) {
        self.to_its_end = true;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let count = if self.to_its_end { &self.pulse.answered } else { &self.pulse.taken_back };
        count.fetch_add(1, Relaxed);
        if self.untaken {
            self.pulse.untaken.fetch_sub(1, Relaxed);
        }
        if self.pulse.answering.fetch_sub(1, Relaxed) == 1 {
            self.pulse.quiet.set();
        }
    }
}
