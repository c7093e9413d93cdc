//! Opens a store: brings the tree up to the end of the journal, or rebuilds it.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use sled::Db;
use tollhouse_base::folder;

use super::{
    OpenError, SledConfig,
    begin::begin,
    disk::{self, Disk},
    footing::{Base, Left, Stopped, Unfit, base_of, corrupt, damaged, format, is_loose, parts_of, writer_settings},
    home, look,
    make::make,
    moment::Moment,
    position::Position,
    recount,
    standing::Standing,
    tree, values,
};
use crate::{
    Space, StoreError,
    journal::{Archive, Blank, Checkpoint, Counts, End, JournalError, Kind, Named, Walk, Writer},
};

/// Maximum size of a checkpoint that is verified before the store opens, in bytes.
const READ_AT_ONCE: u64 = 16 * 1024 * 1024;

/// An open store.
pub(super) struct Opened {
    pub(super) disk: Disk,
    pub(super) moment: Arc<Moment>,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    pub(super) left: Left,
    pub(super) lock: File,
}

/// Opens or creates the store in a folder.
pub(super) fn open(store: &Path, config: &SledConfig) -> Result<Opened, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    folder::make_private(store).map_err(io)?;
    let lock = tree::lock(store, config)?;
    clear_unfinished(store).map_err(io)?;
    let segments = Named::all(store, Kind::Segment).map_err(io)?;
    let checkpoints = Named::all(store, Kind::Checkpoint).map_err(io)?;
    let (db, position, journal, left) = match segments.first() {
        None => {
            let (db, position, journal) = begin(store, config, !checkpoints.is_empty())?;
            (db, position, journal, Left::default())
        }
        Some(_) => resume(store, config)?,
    };
    tree::trust(store).map_err(io)?;
    // The names of new files are directory entries, which must be on disk too.
    File::open(store).and_then(|folder| folder.sync_all()).and_then(|()| folder::sync_entry(store)).map_err(io)?;
    if let Err(error) = Archive::look(store) {
        tracing::error!(%error, "the archive of money is damaged; the host runs without it, and only a backup has what is missing");
    }
    let moment = Arc::new(Moment::new(db, position));
    let counts = journal.counts();
    let standing = Arc::<Standing>::default();
    look_at_checkpoint(store, &standing);
    let disk = Disk::new(Arc::clone(&moment), journal, Arc::clone(&standing));
    let disk = disk.map_err(|error| corrupt(store, error.to_string()))?;
    Ok(Opened { disk, moment, counts, standing, left, lock })
}

/// Reads the checkpoint if that is quick, so that the start reports damage. A large one is read while the host serves.
fn look_at_checkpoint(store: &Path, standing: &Standing) {
    let newest = Named::all(store, Kind::Checkpoint).ok().and_then(|mut all| all.pop());
    let bytes = newest.and_then(|newest| fs::metadata(newest.path).ok()).map_or(0, |about| about.len());
    if bytes <= READ_AT_ONCE
        && let Err(error) = look::checkpoint(store)
    {
        standing.damaged(&error);
    }
}

/// Removes unfinished files.
fn clear_unfinished(store: &Path) -> io::Result<()> {
    fs::create_dir_all(store.join(Kind::Segment.folder()))?;
    Blank::clear(store)?;
    home::clear_others(store)?;
    for kind in [Kind::Checkpoint, Kind::Archive] {
        for entry in fs::read_dir(store.join(kind.folder())).into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Brings the tree up to the end of the journal.
fn resume(store: &Path, config: &SledConfig) -> Result<(Db, Position, Writer, Left), OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let base = base_of(Checkpoint::newest(store).map_err(|error| damaged(store, error))?.as_ref());
    let brought = match tree_of(store, config)? {
        Ok((db, position)) => bring(store, config, &db, position, base).map(|brought| (db, brought)),
        Err(unfit) => Err(Stopped::Tree(unfit)),
    };
    let (db, Brought { position, end, left }) = match brought {
        Ok((db, brought))
            if db.size_on_disk().is_ok_and(|bytes| is_loose(bytes, brought.position.totals.bytes(), config))
                && look::all(store).is_ok() =>
        {
            drop(db);
            tracing::info!("the store's tree is much larger than what it holds, and is made anew from the journal");
            let made = make_anew(store, config)?;
            tree::forget_aside(store).map_err(io)?;
            made
        }
        Ok(brought) => brought,
        Err(Stopped::Journal(error)) => return Err(damaged(store, error)),
        Err(Stopped::Tree(Unfit(reason))) => {
            // Keep this tree until it is known that it can be rebuilt: it may contain what the journal lost.
            look::all(store).map_err(|error| damaged(store, error))?;
            tracing::warn!(reason, "the store's tree is not right, and is made anew from the journal; it is kept in `aside`");
            make_anew(store, config)?
        }
    };
    let journal = Writer::go_on(writer_settings(store, config), &end).map_err(io)?;
    if end.torn {
        tracing::warn!(frame = end.sequence + 1, "the torn end of the last write, which nobody was told of, was dropped");
    }
    Ok((db, position, journal, left))
}

/// Moves the tree aside and builds a new one from checkpoint and journal.
fn make_anew(store: &Path, config: &SledConfig) -> Result<(Db, Brought), OpenError> {
    tree::put_aside(store).map_err(|source| OpenError::Io { path: store.to_owned(), source })?;
    let (db, position, end) = make(store, config)?;
    tracing::info!(frames = end.sequence, "the store's tree is made anew");
    Ok((db, Brought { position, end, left: Left::default() }))
}

/// Opens the tree if the journal can continue from it. Fails only if another process has it open or a later version
/// wrote it.
pub(super) fn tree_of(store: &Path, config: &SledConfig) -> Result<Result<(Db, Position), Unfit>, OpenError> {
    if tree::is_distrusted(store) {
        return Ok(Err(Unfit("it did not hold what its totals say".to_owned())));
    }
    if !tree::is_there(store) {
        return Ok(Err(Unfit("it is not there".to_owned())));
    }
    let db = match tree::open(store, config) {
        Ok(db) => db,
        Err(OpenError::Locked(path)) => return Err(OpenError::Locked(path)),
        Err(error) => return Ok(Err(Unfit(error.to_string()))),
    };
    let read = || Ok::<_, StoreError>((format(&db)?, Position::of(&db)?));
    let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(StoreError::Away("it stopped".to_owned())));
    Ok(match read {
        Ok((Some(found), _)) if found.parse().is_ok_and(|found: u32| found > 3) => {
            return Err(OpenError::Format { path: store.to_owned(), found });
        }
        Ok((Some(found), Some(position))) if found == values::FORMAT => Ok((db, position)),
        Ok(_) => Err(Unfit("it is not of this journal".to_owned())),
        Err(error) => Err(error.into()),
    })
}

/// The result of bringing a tree up to the end of the journal.
struct Brought {
    position: Position,
    end: End,
    left: Left,
}

/// Brings a tree up to the end of the journal. If the journal is too long to verify before the start, reads it only
/// from the tree's position, if possible.
fn bring(store: &Path, config: &SledConfig, db: &Db, position: Position, base: Base) -> Result<Brought, Stopped> {
    let folder = store.join(Kind::Segment.folder());
    let segments = Named::all(store, Kind::Segment).map_err(JournalError::io(&folder))?;
    let full = segments.iter().rev().skip(1).filter_map(|segment| segment.path.metadata().ok());
    let bytes: u64 = full.map(|full| full.len()).sum();
    let (counted, spaces) = recount::in_turns(&position.totals, config.start_bytes);
    if bytes > config.start_bytes
        && position.sequence >= base.sequence
        && let Ok((position_after, end)) =
            bring_from(Base { sequence: position.sequence, link: position.link }, store, db, position, &counted)
    {
        let left = Left { until: position.sequence, spaces };
        return Ok(Brought { position: position_after, end: End { bytes: end.bytes + bytes, ..end }, left });
    }
    let (position, end) = bring_from(base, store, db, position, &counted)?;
    Ok(Brought { position, end, left: Left { until: 0, spaces } })
}

/// Applies the frames that the tree lacks, and verifies spaces.
fn bring_from(base: Base, store: &Path, db: &Db, position: Position, counted: &[Space]) -> Result<(Position, End), Stopped> {
    let unfit = |reason: &str| Stopped::Tree(Unfit(reason.to_owned()));
    if position.sequence < base.sequence {
        return Err(unfit("it is behind the checkpoint"));
    }
    let mut walk = Walk::start(store, base.sequence, base.link)?;
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
            let what = "the journal ends before frames that were on disk; the tree still holds what they wrote";
            return Err(Stopped::Journal(end.short_of(position.synced, what).into()));
        }
        if position.sequence > end.sequence {
            return Err(unfit("it is ahead of the journal"));
        }
        if at.sequence == position.sequence && link != position.link {
            return Err(unfit("it comes from another journal"));
        }
        let wrong = recount::some(db, &at.totals, counted)?;
        if wrong.is_empty() { Ok((at, end)) } else { Err(unfit(&format!("it does not hold what its totals say: {wrong:?}"))) }
    }));
    brought.unwrap_or_else(|_| Err(unfit("it stopped while it was read")))
}
