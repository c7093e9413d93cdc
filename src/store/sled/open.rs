//! Opens a store: brings the tree up to the end of the journal, or rebuilds it.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use sled::Db;
use tollhouse_base::fsync_dir;

use super::{
    OpenError, SledConfig,
    common::{
        JOURNAL_IS_SHORT, JournalBase, RemainingCheck, ReplayError, TreeUnusable, base_of, check_all, check_checkpoint, corrupt, damaged,
        format, is_loose, parts_of, writer_settings,
    },
    disk::{self, Disk},
    health::StoreHealth,
    position::TreePosition,
    read_guard::TreeHandle,
    recount, tree,
    tree_builder::make,
    tree_dir, values,
};
use crate::{
    Space, StoreError,
    journal::{
        Archive, ChainLink, CheckpointReader, FrameWalk, JournalDamage, JournalEnd, JournalWriter, SegmentFile, SegmentKind, WriterCounts,
        ZeroedFile,
    },
};

/// Maximum size of a checkpoint that is verified before the store opens, in bytes.
const READ_AT_ONCE: u64 = 16 * 1024 * 1024;

pub(super) struct OpenStore {
    pub(super) disk: Disk,
    pub(super) handle: Arc<TreeHandle>,
    pub(super) counts: Arc<WriterCounts>,
    pub(super) health: Arc<StoreHealth>,
    pub(super) remaining: RemainingCheck,
    pub(super) lock: File,
}

/// Opens or creates the store in a folder.
pub(super) fn open(store: &Path, config: &SledConfig) -> Result<OpenStore, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    fsync_dir::make_private(store).map_err(io)?;
    let lock = tree::lock(store, config)?;
    clear_unfinished(store).map_err(io)?;
    let segments = SegmentFile::all(store, SegmentKind::Segment).map_err(io)?;
    let checkpoints = SegmentFile::all(store, SegmentKind::Checkpoint).map_err(io)?;
    let (db, position, journal, remaining) = match segments.first() {
        None => {
            let (db, position, journal) = begin(store, config, !checkpoints.is_empty())?;
            (db, position, journal, RemainingCheck::default())
        }
        Some(_) => resume(store, config)?,
    };
    tree::trust(store).map_err(io)?;
    // The names of new files are directory entries, which must be on disk too.
    File::open(store).and_then(|folder| folder.sync_all()).and_then(|()| fsync_dir::sync_entry(store)).map_err(io)?;
    let handle = Arc::new(TreeHandle::new(db, position));
    let counts = journal.counts();
    let health = Arc::<StoreHealth>::default();
    report_checkpoint(store, &health);
    if let Err(error) = Archive::look(store) {
        health.archive_damaged(&error);
    }
    let disk = Disk::new(Arc::clone(&handle), journal, Arc::clone(&health));
    let disk = disk.map_err(|error| corrupt(store, error.to_string()))?;
    Ok(OpenStore { disk, handle, counts, health, remaining, lock })
}

/// Reads the checkpoint if that is quick, so that the start reports damage. A large one is read while the host serves.
fn report_checkpoint(store: &Path, health: &StoreHealth) {
    let newest = SegmentFile::all(store, SegmentKind::Checkpoint).ok().and_then(|mut all| all.pop());
    let bytes = newest.and_then(|newest| fs::metadata(newest.path).ok()).map_or(0, |about| about.len());
    if bytes <= READ_AT_ONCE
        && let Err(error) = check_checkpoint(store)
    {
        health.damaged(&error);
    }
}

/// Removes unfinished files.
fn clear_unfinished(store: &Path) -> io::Result<()> {
    fs::create_dir_all(store.join(SegmentKind::Segment.folder()))?;
    ZeroedFile::clear(store)?;
    tree_dir::clear_others(store)?;
    for kind in [SegmentKind::Checkpoint, SegmentKind::Archive] {
        for entry in fs::read_dir(store.join(kind.folder())).into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Begins the journal of a new store, and builds its tree. A folder that has a tree or a checkpoint has lost its journal.
fn begin(store: &Path, config: &SledConfig, has_checkpoint: bool) -> Result<(Db, TreePosition, JournalWriter), OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    if tree::is_there(store) {
        let found = format(&tree::open(store, config)?).map_err(|error| corrupt(store, error.to_string()))?;
        if found.as_deref() != Some(values::FORMAT) {
            return Err(OpenError::Format { path: store.to_owned(), found: found.unwrap_or_else(|| "none".to_owned()) });
        }
    }
    if tree::is_there(store) || has_checkpoint {
        return Err(damaged(store, JournalDamage::new(&store.join(SegmentKind::Segment.folder()), "the journal is missing").into()));
    }
    tree_dir::forget(store).map_err(io)?;
    drop(JournalWriter::begin(writer_settings(store, config), 0, ChainLink::default()).map_err(io)?);
    let (db, position, end) = make(store, config)?;
    Ok((db, position, JournalWriter::next_file(writer_settings(store, config), &end).map_err(io)?))
}

/// Brings the tree up to the end of the journal.
fn resume(store: &Path, config: &SledConfig) -> Result<(Db, TreePosition, JournalWriter, RemainingCheck), OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let base = base_of(CheckpointReader::newest(store).map_err(|error| damaged(store, error))?.as_ref());
    let brought = match tree_of(store, config)? {
        Ok((db, position)) => replay(store, config, &db, position, base).map(|brought| (db, brought)),
        Err(unfit) => Err(ReplayError::Tree(unfit)),
    };
    let (db, ReplayedTree { position, end, remaining }) = match brought {
        Ok((db, brought))
            if db.size_on_disk().is_ok_and(|bytes| is_loose(bytes, brought.position.totals.bytes(), config))
                && check_all(store).is_ok() =>
        {
            drop(db);
            tracing::info!("the store's tree is much larger than its rows, and is rebuilt from the journal");
            let made = rebuild_tree(store, config)?;
            tree::clear_quarantine(store).map_err(io)?;
            made
        }
        Ok(brought) => brought,
        Err(ReplayError::Journal(error)) => return Err(damaged(store, error)),
        Err(ReplayError::Tree(TreeUnusable(reason))) => {
            // Keep this tree until it is known that it can be rebuilt: it may contain what the journal lost.
            check_all(store).map_err(|error| damaged(store, error))?;
            tracing::warn!(reason, "the store's tree is damaged, and is rebuilt from the journal; the old one is in `aside`");
            rebuild_tree(store, config)?
        }
    };
    let journal = JournalWriter::next_file(writer_settings(store, config), &end).map_err(io)?;
    if end.torn {
        tracing::warn!(frame = end.sequence + 1, "the torn end of the last write, which was never confirmed, was dropped");
    }
    Ok((db, position, journal, remaining))
}

/// Moves the tree aside and builds a new one from checkpoint and journal.
fn rebuild_tree(store: &Path, config: &SledConfig) -> Result<(Db, ReplayedTree), OpenError> {
    tree::quarantine(store).map_err(|source| OpenError::Io { path: store.to_owned(), source })?;
    let (db, position, end) = make(store, config)?;
    tracing::info!(frames = end.sequence, "the store's tree is rebuilt");
    Ok((db, ReplayedTree { position, end, remaining: RemainingCheck::default() }))
}

/// Opens the tree if the journal can continue from it. Fails only if another process has it open or a later version
/// wrote it.
pub(super) fn tree_of(store: &Path, config: &SledConfig) -> Result<Result<(Db, TreePosition), TreeUnusable>, OpenError> {
    if tree::is_distrusted(store) {
        return Ok(Err(TreeUnusable("its rows did not match its totals".to_owned())));
    }
    if !tree::is_there(store) {
        return Ok(Err(TreeUnusable("it is missing".to_owned())));
    }
    let db = match tree::open(store, config) {
        Ok(db) => db,
        Err(OpenError::Locked(path)) => return Err(OpenError::Locked(path)),
        Err(error) => return Ok(Err(TreeUnusable(error.to_string()))),
    };
    let read = || Ok::<_, StoreError>((format(&db)?, TreePosition::of(&db)?));
    let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(StoreError::Away("it stopped".to_owned())));
    Ok(match read {
        Ok((Some(found), _)) if found != values::FORMAT => return Err(OpenError::Format { path: store.to_owned(), found }),
        Ok((Some(_), Some(position))) => Ok((db, position)),
        Ok(_) => Err(TreeUnusable("it does not belong to this journal".to_owned())),
        Err(error) => Err(error.into()),
    })
}

/// The result of bringing a tree up to the end of the journal.
struct ReplayedTree {
    position: TreePosition,
    end: JournalEnd,
    remaining: RemainingCheck,
}

/// Brings a tree up to the end of the journal. If the journal is too long to verify before the start, reads it only
/// from the tree's position, if possible.
fn replay(store: &Path, config: &SledConfig, db: &Db, position: TreePosition, base: JournalBase) -> Result<ReplayedTree, ReplayError> {
    let segments = SegmentFile::list(store, SegmentKind::Segment)?;
    let full = segments.iter().rev().skip(1).filter_map(|segment| segment.path.metadata().ok());
    let bytes: u64 = full.map(|full| full.len()).sum();
    let (counted, spaces) = recount::in_turns(&position.totals, config.start_bytes);
    if bytes > config.start_bytes
        && position.sequence >= base.sequence
        && let Ok((position_after, end)) =
            replay_from(JournalBase { sequence: position.sequence, link: position.link }, store, db, position, &counted)
    {
        let remaining = RemainingCheck { until: position.sequence, spaces };
        return Ok(ReplayedTree { position: position_after, end: JournalEnd { bytes: end.bytes + bytes, ..end }, remaining });
    }
    let (position, end) = replay_from(base, store, db, position, &counted)?;
    Ok(ReplayedTree { position, end, remaining: RemainingCheck { until: 0, spaces } })
}

/// Applies the frames that the tree lacks, and verifies spaces.
fn replay_from(
    base: JournalBase,
    store: &Path,
    db: &Db,
    position: TreePosition,
    counted: &[Space],
) -> Result<(TreePosition, JournalEnd), ReplayError> {
    let unfit = |reason: &str| ReplayError::Tree(TreeUnusable(reason.to_owned()));
    if position.sequence < base.sequence {
        return Err(unfit("it is behind the checkpoint"));
    }
    let mut walk = FrameWalk::start(store, base.sequence, base.link)?;
    let (mut at, mut link) = (position, base.link);
    let brought = catch_unwind(AssertUnwindSafe(|| {
        while let Some(frame) = walk.next()? {
            if frame.sequence() <= position.sequence {
                link = frame.link();
                continue;
            }
            if at.sequence == position.sequence && link != position.link {
                return Err(unfit("it comes from another journal"));
            }
            (at.sequence, at.link) = (frame.sequence(), frame.link());
            disk::replay(db, parts_of(store, &frame)?, &mut at)?;
        }
        let end = walk.end();
        if position.synced > end.sequence {
            return Err(ReplayError::Journal(end.short_of(position.synced, JOURNAL_IS_SHORT).into()));
        }
        if position.sequence > end.sequence {
            return Err(unfit("it is ahead of the journal"));
        }
        if at.sequence == position.sequence && link != position.link {
            return Err(unfit("it comes from another journal"));
        }
        let wrong = recount::some(db, &at.totals, counted)?;
        if wrong.is_empty() { Ok((at, end)) } else { Err(unfit(&format!("its rows do not match its totals: {wrong:?}"))) }
    }));
    brought.unwrap_or_else(|_| Err(unfit("it stopped while it was read")))
}
