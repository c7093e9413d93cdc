//! Checking and repairing a store that no host has open.
//!
//! What is damaged is left out, never guessed: a repaired store is as it was after some frame, the last for which that can be
//! said. That is the tree's, where the tree holds what its totals say; else the last before the damage.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use sled::Db;

use super::{
    OpenError, SledConfig,
    footing::{Stopped, Unfit, corrupt, damaged, writer_settings},
    look::{self, Looked},
    make::{self, Filled},
    open,
    position::Position,
    recount,
    rows::walk_some,
    tree,
};
use crate::{
    StoreError,
    journal::{Archive, Damage, Dump, JournalError, Kind, Named, Survey, Writer},
};

/// What a store's folder holds, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Checked {
    /// A sentence for each part.
    pub found: Vec<String>,
    /// What only a repair, or a backup, mends.
    pub damages: Vec<Damage>,
    /// What is wrong with the archive. A host runs without, and only a backup mends it.
    pub archive: Option<Damage>,
    /// The last frame before any damage to the journal, as far as a checkpoint allows it to be the store's last.
    usable: Option<u64>,
}

/// Looks at all of a store.
///
/// # Errors
///
/// As [`super::SledStore::open`], but for damage.
pub fn check(store: &Path, config: &SledConfig) -> Result<Checked, OpenError> {
    let _lock = lock(store, config)?;
    let mut checked = look_at(store)?;
    checked.found.push(match fit_tree(store, config)? {
        Ok((_, position)) => format!("the tree is right, at frame {}", position.sequence),
        Err(Unfit(reason)) => format!("the tree is not right, and the next start makes it anew from the journal: {reason}"),
    });
    Ok(checked)
}

/// Dropped frames that are listed one by one. [`Repair::dropped_frames`] counts all.
pub const MAX_LISTED: usize = 10_000;

/// What a repair would do.
#[derive(Debug)]
pub struct Repair {
    store: PathBuf,
    config: SledConfig,
    /// Held locked.
    _lock: File,
    /// What is wrong. Where it is nothing, there is nothing to do.
    pub damages: Vec<Damage>,
    /// What is wrong with the archive, which stays as it is.
    pub archive: Option<Damage>,
    /// The last frame that is kept.
    pub kept: u64,
    /// The last frame that there was.
    pub last: u64,
    /// The first [`MAX_LISTED`] frames that are dropped, and the table and key of each row in them, where they can be read.
    pub dropped: Vec<(u64, Option<Vec<String>>)>,
    from: From,
}

#[derive(Debug)]
enum From {
    Tree(Box<(Db, Position)>),
    Journal,
}

/// Sees what a repair of a store would do, and does nothing.
///
/// # Errors
///
/// As [`super::SledStore::open`]; [`OpenError::Unrepairable`] where nothing is left to repair from.
pub fn repair(store: &Path, config: &SledConfig) -> Result<Repair, OpenError> {
    let lock = lock(store, config)?;
    let Checked { damages, archive, usable, .. } = look_at(store)?;
    let tree = fit_tree(store, config)?.ok();
    let in_tree = tree.as_ref().map(|(_, position)| position.sequence);
    let Some(kept) = in_tree.max(usable) else {
        let nothing = || Damage::new(store, "neither the journal nor the tree is left to repair it from");
        return Err(OpenError::Unrepairable {
            path: store.to_owned(),
            damage: Box::new(damages.into_iter().next().unwrap_or_else(nothing)),
        });
    };
    let survey = Survey::behind(store, kept).map_err(|source| OpenError::Io { path: store.to_owned(), source })?;
    let last = damages.iter().filter_map(|damage| damage.sequences).map(|(_, to)| to).fold(survey.last, u64::max);
    let mut rows = survey.rows;
    let dropped = (kept.saturating_add(1)..=last).take(MAX_LISTED).map(|frame| (frame, rows.remove(&frame))).collect();
    let from = match tree.filter(|(_, position)| position.sequence == kept) {
        Some(tree) => From::Tree(Box::new(tree)),
        None => From::Journal,
    };
    Ok(Repair { store: store.to_owned(), config: config.clone(), _lock: lock, damages, archive, kept, last, dropped, from })
}

impl Repair {
    /// How many frames are dropped.
    #[must_use]
    pub fn dropped_frames(&self) -> u64 {
        self.last.saturating_sub(self.kept)
    }

    /// Does it: a checkpoint of what is kept, and a new journal behind it. Answers where the damaged files are.
    ///
    /// # Errors
    ///
    /// As [`super::SledStore::open`]. One that was cut off is done by repairing again.
    pub fn perform(self) -> Result<PathBuf, OpenError> {
        let store = &self.store;
        let io = |source| OpenError::Io { path: store.clone(), source };
        let (db, position) = match self.from {
            From::Tree(tree) => *tree,
            From::Journal => {
                tree::put_aside(store).map_err(io)?;
                let db = tree::open(store, &self.config)?;
                let position = fill(store, &db, self.kept).map_err(|stopped| refusal(store, stopped))?;
                (db, position)
            }
        };
        let beside = free_name(store);
        fs::create_dir(&beside).map_err(io)?;
        archive(store, position.sequence).map_err(|error| damaged(store, error))?;
        // Numbers are not given out twice. That of the checkpoint stands for all that was mended.
        let sequence = self.last.saturating_add(1);
        dump(store, &db, sequence, &position).map_err(|error| corrupt(store, error.to_string()))?;
        set_aside(store, &beside, sequence).map_err(io)?;
        drop(Writer::begin(writer_settings(store, &self.config), sequence, position.link).map_err(io)?);
        let mut position = Position { sequence, ..position };
        make::finish(&db, &mut position).map_err(|error| corrupt(store, error.to_string()))?;
        tree::trust(store).map_err(io)?;
        Ok(beside)
    }
}

/// Fills a tree up to the frame `kept`.
fn fill(store: &Path, db: &Db, kept: u64) -> Result<Position, Stopped> {
    let mut filled = Filled::with_rows(store, db)?;
    // The segment behind the checkpoint may be what is damaged.
    if kept > filled.position.sequence {
        filled.add_frames(store, db, kept)?;
    }
    Ok(filled.position)
}

/// Looks at what the tree is made from.
fn look_at(store: &Path) -> Result<Checked, OpenError> {
    let mut checked = Checked::default();
    let checkpoint = match look::checkpoint(store) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            checked.damages.push(damage_of(error)?);
            return Ok(checked);
        }
    };
    let Looked { base, rows, holds_from } = checkpoint;
    if rows > 0 {
        checked.found.push(format!("the checkpoint of frame {} holds {rows} rows", base.sequence));
    }
    let mut last = base.sequence;
    match look::frames(store, base, &mut last, |_| true) {
        Ok(_) => checked.found.push(format!("the journal behind it ends with frame {last}")),
        Err(error) => checked.damages.push(damage_of(error)?),
    }
    checked.usable = Some(last).filter(|last| *last >= holds_from);
    match Archive::check(store) {
        Ok(archive) => checked.found.push(format!("the archive holds the money of {} frames", archive.frames)),
        Err(error) => checked.archive = Some(damage_of(error)?),
    }
    Ok(checked)
}

/// The tree, if it holds what its totals say: all of it.
fn fit_tree(store: &Path, config: &SledConfig) -> Result<Result<(Db, Position), Unfit>, OpenError> {
    let (db, position) = match open::tree_of(store, config)? {
        Ok(tree) => tree,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let counted = catch_unwind(AssertUnwindSafe(|| recount::all(&db, &position.totals)));
    Ok(match counted.unwrap_or_else(|_| Err(StoreError::Away("it stopped while it was read".to_owned()))) {
        Ok(wrong) if wrong.is_empty() => Ok((db, position)),
        Ok(wrong) => Err(Unfit(format!("it does not hold what its totals say: {wrong:?}"))),
        Err(error) => Err(error.into()),
    })
}

/// Keeps the money of the frames that are kept, as far as they can be read.
fn archive(store: &Path, kept: u64) -> Result<(), JournalError> {
    let folder = store.join(Kind::Segment.folder());
    let segments = Named::all(store, Kind::Segment).map_err(JournalError::io(&folder))?;
    let ends = segments.iter().skip(1).map(|next| next.sequence - 1).chain([u64::MAX]);
    for (segment, end) in segments.iter().zip(ends).filter(|(segment, _)| segment.sequence <= kept) {
        match Archive::keep(store, segment, end.min(kept)) {
            // What is behind is beside, with the damaged files.
            Err(JournalError::Damaged(_)) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

fn dump(store: &Path, db: &Db, sequence: u64, position: &Position) -> Result<(), StoreError> {
    let io = |error: io::Error| StoreError::Away(error.to_string());
    let mut dump = Dump::begin(store, sequence, position.link).map_err(io)?;
    let mut place = std::ops::Bound::Unbounded;
    while let Some(last) = walk_some(db, place, usize::MAX, |space, key, value| {
        dump.add(space, key, value).map_err(|error| StoreError::Away(error.to_string()))
    })? {
        place = std::ops::Bound::Excluded(last);
    }
    dump.finish(sequence, &position.totals).map_err(io)
}

/// Moves the journal, and the checkpoints before the new one, beside.
fn set_aside(store: &Path, beside: &Path, newest: u64) -> io::Result<()> {
    for kind in [Kind::Checkpoint, Kind::Segment] {
        for named in Named::all(store, kind)? {
            if kind == Kind::Segment || named.sequence < newest {
                fs::rename(&named.path, beside.join(named.path.file_name().unwrap_or_default()))?;
            }
        }
        File::open(store.join(kind.folder()))?.sync_all()?;
    }
    File::open(beside)?.sync_all()?;
    File::open(store)?.sync_all()
}

fn free_name(store: &Path) -> PathBuf {
    let names = (1..).map(|number: u32| store.join(format!("damaged-{number}")));
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| store.join("damaged"))
}

fn lock(store: &Path, config: &SledConfig) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    fs::metadata(store).map_err(io)?;
    if Named::all(store, Kind::Segment).map_err(io)?.is_empty()
        && Named::all(store, Kind::Checkpoint).map_err(io)?.is_empty()
        && !tree::is_there(store)
    {
        return Err(io(io::Error::new(io::ErrorKind::NotFound, "it holds no store")));
    }
    tree::lock(store, config)
}

fn damage_of(error: JournalError) -> Result<Damage, OpenError> {
    match error {
        JournalError::Damaged(damage) => Ok(*damage),
        JournalError::Io { path, source } => Err(OpenError::Io { path, source }),
    }
}

fn refusal(store: &Path, stopped: Stopped) -> OpenError {
    match stopped {
        Stopped::Journal(error) => damaged(store, error),
        Stopped::Tree(Unfit(reason)) => corrupt(store, reason),
    }
}
