//! Background threads of the store: they sync buffered frames, verify large spaces, and make checkpoints.

use std::{
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    background::{BackgroundState, CommitJob},
    common::{base_of, check_frames},
    rebuilds::{RebuildRequest, Rebuilds},
    tree,
};
use crate::{
    Batch, Durability, LossImpact, Space, StoreError,
    journal::{Archive, CheckpointItem, CheckpointReader, CheckpointWriter, JournalError, SegmentFile, SegmentKind},
};

/// How long a crash can lose a buffered commit.
const BUFFERED: Duration = Duration::from_millis(500);
/// Approximate bytes of rows read at once. The next commit waits for them.
const PAGE_BYTES: usize = 512 * 1024;
/// Delay after a failed checkpoint.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The background threads. They end when it is dropped.
#[derive(Debug)]
pub(super) struct SyncThreads {
    ended: Arc<AtomicBool>,
    /// Dropping the senders ends the threads.
    wake: Vec<Sender<RebuildRequest>>,
    threads: Vec<JoinHandle<()>>,
}

impl SyncThreads {
    pub(super) fn start(background: Arc<BackgroundState>) -> std::io::Result<Self> {
        let mut threads = Self { ended: Arc::default(), wake: vec![], threads: vec![] };
        let clock = Arc::clone(&background);
        threads.every("store-clock", move |_, _| clock.watch_writer())?;
        let (mut counted, mut not_before) = (false, Instant::now());
        let mut renewals = Rebuilds::new(Arc::clone(&background));
        threads.every("store-keeper", move |ended, request| {
            let reply = match request {
                Some(RebuildRequest::Compaction(reply)) => match background.checkpoint_now(ended) {
                    Ok(()) => Some(reply),
                    // The caller may have gone.
                    Err(error) => {
                        _ = reply.send(Err(error));
                        return;
                    }
                },
                Some(RebuildRequest::Renewal(reply)) => Some(reply),
                None => None,
            };
            if !std::mem::replace(&mut counted, true) {
                background.recount(ended, &background.remaining.spaces);
                background.reread(ended);
            }
            if Instant::now() >= not_before {
                not_before = Instant::now() + RETRY_AFTER;
                if background.checkpoint_if_due(ended).is_ok() {
                    not_before = Instant::now();
                }
            }
            renewals.look(ended, reply);
        })?;
        Ok(threads)
    }

    /// Sends a request to the thread that makes checkpoints and trees.
    pub(super) fn request(&self, request: RebuildRequest) {
        if let Some(sender) = self.wake.last() {
            // If the thread has ended, the request is dropped, which its caller notices.
            _ = sender.send(request);
        }
    }

    fn every(&mut self, name: &str, mut look: impl FnMut(&AtomicBool, Option<RebuildRequest>) + Send + 'static) -> std::io::Result<()> {
        let (wake, woken) = channel();
        let ended = Arc::clone(&self.ended);
        let run = move || {
            loop {
                let request = match woken.recv_timeout(BUFFERED) {
                    Ok(request) => Some(request),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if catch_unwind(AssertUnwindSafe(|| look(&ended, request))).is_err() {
                    tracing::error!("a background thread of the store panicked; the host will try again");
                }
            }
        };
        self.wake.push(wake);
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }
}

impl Drop for SyncThreads {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        self.wake.clear();
        for thread in self.threads.drain(..) {
            // A panic of that thread was reported when it happened. Nothing depends on it.
            let _ = thread.join();
        }
    }
}

impl BackgroundState {
    /// Syncs buffered frames, stops commits while the disk is full, and makes the writer check for free space.
    fn watch_writer(&self) {
        if let Err(error) = self.room().check(0) {
            self.health.fill(&error.to_string());
        }
        if self.counts.unsynced.load(Relaxed) > 0 || self.health.full().is_some() {
            // If it failed, the next commit reports why.
            let _ = self.sync();
        }
    }

    /// Syncs all frames.
    fn sync(&self) -> Result<(), StoreError> {
        let closed = || StoreError::Away("the store is closed".to_owned());
        let (answer, outcome) = oneshot::channel();
        let job = CommitJob { batch: Batch::new(), durability: Durability::Durable, answer, room: None };
        let queue = self.queue.upgrade().ok_or_else(closed)?;
        queue.blocking_send(job).map_err(|_| closed())?;
        drop(queue);
        outcome.blocking_recv().map_err(|_| closed())?.map(|_| ())
    }

    /// Verifies the totals of spaces. Returns whether all are right. If one is wrong, the tree is no longer trusted.
    fn recount(&self, ended: &AtomicBool, spaces: &[Space]) -> bool {
        let mut all = true;
        for space in spaces {
            let counted = catch_unwind(AssertUnwindSafe(|| self.handle.recount(&self.handle.tree(), *space, || ended.load(Relaxed))));
            let wrong = match counted {
                Ok(None) => return false,
                Ok(Some(Ok(true))) => continue,
                Ok(Some(Ok(false))) => "rows are missing or outdated".to_owned(),
                Ok(Some(Err(error))) => error.to_string(),
                Err(_) => "it stopped while it was read".to_owned(),
            };
            all = false;
            if space.stake() != LossImpact::Bulk {
                // Decisions based on wrong rows would put wrong rows into the journal too.
                self.health.end(&format!("rows of {space:?} are damaged on disk"));
            }
            tracing::error!(?space, wrong, "the store's tree is damaged; the next start rebuilds it from the journal");
            if let Err(error) = tree::distrust(&self.store) {
                tracing::error!(%error, "the tree could not be marked as damaged");
            }
        }
        all
    }

    /// Reads the checkpoint and the frames that were not read at the start, which nothing else reads while the tree is
    /// intact. If they are damaged, a new checkpoint replaces them.
    fn reread(&self, ended: &AtomicBool) {
        let read = || -> Result<(), JournalError> {
            let mut checkpoint = CheckpointReader::newest(&self.store)?;
            let base = base_of(checkpoint.as_ref());
            while let Some(reading) = &mut checkpoint
                && !ended.load(Relaxed)
                && matches!(reading.next()?, CheckpointItem::Rows(_))
            {}
            if self.remaining.until > base.sequence {
                check_frames(&self.store, base, &mut 0, |last| last < self.remaining.until && !ended.load(Relaxed))?;
            }
            Ok(())
        };
        if let Err(error) = read() {
            self.health.damaged(&error);
            if let Err(error) = self.checkpoint(ended) {
                tracing::error!(%error, "the store could not make another checkpoint");
            }
        }
    }

    fn checkpoint_if_due(&self, ended: &AtomicBool) -> Result<(), StoreError> {
        let held = self.handle.still().totals.bytes();
        if self.counts.bytes.load(Relaxed) <= self.config.checkpoint_bytes.max(held) {
            return Ok(());
        }
        match self.checkpoint(ended) {
            Ok(Some(frame)) => tracing::info!(frame, "the store made a checkpoint"),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the store could not make a checkpoint; it tries again in a minute");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes a checkpoint now, even if it is not due.
    fn checkpoint_now(&self, ended: &AtomicBool) -> Result<(), StoreError> {
        let cut_off = || StoreError::Away("the store is closed, or is being copied".to_owned());
        self.checkpoint(ended)?.map(drop).ok_or_else(cut_off)
    }

    /// Writes the tree's rows to a checkpoint, then removes what it replaces. Returns `None` if the store is closed
    /// first or is being copied.
    fn checkpoint(&self, ended: &AtomicBool) -> Result<Option<u64>, StoreError> {
        // A running copy reads frames that would be removed.
        let Ok(_frames) = self.frames.try_lock() else { return Ok(None) };
        // Everything before the checkpoint will be removed, so the tree must be complete.
        if tree::is_distrusted(&self.store) || !self.recount(ended, &Space::ALL) {
            return if ended.load(Relaxed) { Ok(None) } else { Err(StoreError::Away("the tree is damaged".to_owned())) };
        }
        let (start, bytes) = {
            let position = self.handle.still();
            (*position, self.counts.bytes.load(Relaxed))
        };
        // Filling the disk would stop commits.
        self.room().check(start.totals.bytes()).map_err(StoreError::away)?;
        let mut dump = CheckpointWriter::begin(&self.store, start.sequence, start.link).map_err(StoreError::away)?;
        let mut location = Bound::Unbounded;
        while self.handle.walk(&mut location, PAGE_BYTES, |space, key, value| dump.add(space, key, value).map_err(StoreError::away))? {
            if ended.load(Relaxed) {
                return Ok(None);
            }
        }
        let until = self.handle.still().sequence;
        self.sync()?;
        dump.finish(until, &start.totals).map_err(StoreError::away)?;
        self.counts.bytes.fetch_sub(bytes, Relaxed);
        // The tree has data in memory that is no longer in the journal.
        self.handle.tree().flush().map_err(StoreError::away)?;
        self.drop_segments(start.sequence).map_err(StoreError::away)?;
        self.health.mark_repaired(start.sequence);
        Ok(Some(start.sequence))
    }

    /// Removes older checkpoints, and segments without a frame after this one. Their money goes to the archive first.
    fn drop_segments(&self, sequence: u64) -> Result<(), JournalError> {
        for named in SegmentFile::list(&self.store, SegmentKind::Checkpoint)? {
            if named.sequence < sequence {
                std::fs::remove_file(&named.path).map_err(JournalError::io(&named.path))?;
            }
        }
        let taken = Archive::take(&self.store, sequence);
        if let Err(error @ JournalError::Damaged(_)) = &taken {
            self.health.archive_damaged(error);
        }
        taken
    }
}
