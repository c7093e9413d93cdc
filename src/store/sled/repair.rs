//! Checks and repairs a store that no host has open.
//!
//! Damaged data is left out, never guessed. A repaired store has the state after the last frame for which that state is
//! certain: the tree's frame if the tree matches its totals, otherwise the last frame before the damage.

use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use sled::Db;
use tollhouse_base::plural::plural;

use super::{
    OpenError, SledConfig,
    common::{
        CheckpointContents, JOURNAL_IS_SHORT, ReplayError, TreeUnusable, check_checkpoint, check_frames, corrupt, damaged, refusal,
        writer_settings,
    },
    open,
    position::TreePosition,
    recount,
    rows::walk_some,
    tree,
    tree_builder::{self, TreeBuilder},
};
use crate::{
    Space, StoreError,
    journal::{
        Archive, ArchiveGap, CheckpointWriter, JournalDamage, JournalEnd, JournalError, JournalWriter, SegmentFile, SegmentKind, Survey,
        salvage_up_to, salvage_up_to_journal,
    },
};

/// The result of checking a store's folder.
#[derive(Debug, Default)]
pub struct StoreReport {
    /// A sentence about each part.
    pub found: Vec<String>,
    /// Damage that requires a repair or a backup.
    pub damages: Vec<JournalDamage>,
    /// Damage to the archive. A host runs without it.
    pub archive: Option<JournalDamage>,
    /// The last frame before any damage to the journal, if a checkpoint allows the store to end there.
    usable: Option<u64>,
    /// The end of the journal, if all of it could be read.
    end: Option<JournalEnd>,
}

impl StoreReport {
    /// Adds the damage that the journal ends before frames that were on disk, if the tree has them.
    fn compare(&mut self, tree: &TreePosition) {
        let short = self.end.as_ref().filter(|end| tree.synced > end.sequence);
        self.damages.extend(short.map(|end| end.short_of(tree.synced, JOURNAL_IS_SHORT)));
    }
}

/// Checks all of a store.
///
/// # Errors
///
/// The same as for [`super::SledStore::open`], except damage.
pub fn check(store: &Path, config: &SledConfig) -> Result<StoreReport, OpenError> {
    let _lock = lock(store, config)?;
    let mut checked = look_at(store)?;
    let found = match fit_tree(store, config)? {
        Ok((_, position)) => {
            checked.compare(&position);
            format!("the tree is intact, at frame {}", position.sequence)
        }
        Err(TreeUnusable(reason)) => format!("the tree is damaged, and the next start rebuilds it from the journal: {reason}"),
    };
    checked.found.push(found);
    Ok(checked)
}

/// Maximum number of dropped frames that are listed. [`Repair::dropped_frames`] counts all of them.
pub const MAX_LISTED: usize = 10_000;

/// A planned repair.
#[derive(Debug)]
pub struct Repair {
    store: PathBuf,
    config: SledConfig,
    /// The lock file, held locked.
    _lock: File,
    /// The damage to the journal and the checkpoint. If there is none, only the archive is repaired.
    pub damages: Vec<JournalDamage>,
    /// Damage to the archive. A repair records what is missing.
    pub archive: Option<JournalDamage>,
    /// The last frame that is kept.
    pub retained: u64,
    /// The last frame that existed.
    pub last: u64,
    /// The first [`MAX_LISTED`] dropped frames, with the table and key of each row in them if they can be read.
    pub dropped: Vec<(u64, Option<Vec<String>>)>,
    from: RepairSource,
}

/// A completed repair.
#[derive(Debug)]
pub struct Repaired {
    /// The folder with the damaged files.
    pub aside: PathBuf,
    /// The frames whose money the archive lacks, because no intact file has it. Earlier repairs can have recorded some.
    pub archive_gaps: Vec<ArchiveGap>,
}

#[derive(Debug)]
enum RepairSource {
    Tree(Box<(Db, TreePosition)>),
    Journal,
}

/// Plans the repair of a store without changing it.
///
/// # Errors
///
/// The same as for [`super::SledStore::open`], and [`OpenError::Unrepairable`] if nothing is left to repair from.
pub fn repair(store: &Path, config: &SledConfig) -> Result<Repair, OpenError> {
    let lock = lock(store, config)?;
    let mut checked = look_at(store)?;
    let tree = fit_tree(store, config)?.ok();
    tree.iter().for_each(|(_, position)| checked.compare(position));
    let StoreReport { damages, archive, usable, .. } = checked;
    let in_tree = tree.as_ref().map(|(_, position)| position.sequence);
    let Some(retained) = in_tree.max(usable) else {
        let nothing = || JournalDamage::new(store, "neither the journal nor the tree is left to repair it from");
        return Err(OpenError::Unrepairable {
            path: store.to_owned(),
            damage: Box::new(damages.into_iter().next().unwrap_or_else(nothing)),
        });
    };
    let survey = Survey::behind(store, retained).map_err(|source| OpenError::Io { path: store.to_owned(), source })?;
    let last = damages.iter().filter_map(|damage| damage.sequences).map(|(_, to)| to).fold(survey.last, u64::max);
    let mut rows = survey.rows;
    let dropped = (retained.saturating_add(1)..=last).take(MAX_LISTED).map(|frame| (frame, rows.remove(&frame))).collect();
    let from = match tree.filter(|(_, position)| position.sequence == retained) {
        Some(tree) => RepairSource::Tree(Box::new(tree)),
        None => RepairSource::Journal,
    };
    Ok(Repair { store: store.to_owned(), config: config.clone(), _lock: lock, damages, archive, retained, last, dropped, from })
}

impl Repair {
    /// Returns the number of dropped frames.
    pub fn dropped_frames(&self) -> u64 {
        self.last.saturating_sub(self.retained)
    }

    /// Performs the repair: makes a checkpoint of what is kept, and begins a new journal after it. The archive gets the
    /// money of all intact frames, and a record of the gaps.
    /// If it was interrupted, repair again.
    pub fn perform(self) -> Result<Repaired, OpenError> {
        let store = &self.store;
        let io = |source| OpenError::Io { path: store.clone(), source };
        if self.damages.is_empty() {
            let aside = free_name(store);
            fs::create_dir(&aside).map_err(io)?;
            let archive_gaps = salvage_up_to_journal(store, &aside).map_err(|error| damaged(store, error))?;
            return Ok(Repaired { aside, archive_gaps });
        }
        let (db, position) = match self.from {
            RepairSource::Tree(tree) => *tree,
            RepairSource::Journal => {
                tree::quarantine(store).map_err(io)?;
                let db = tree::open(store, &self.config)?;
                let position = fill(store, &db, self.retained).map_err(|stopped| refusal(store, stopped))?;
                (db, position)
            }
        };
        let aside = free_name(store);
        fs::create_dir(&aside).map_err(io)?;
        let archive_gaps = salvage_up_to(store, &aside, position.sequence, position.link.chain).map_err(|error| damaged(store, error))?;
        // Frame numbers are never reused. The checkpoint's number covers all frames that were repaired.
        let sequence = self.last.saturating_add(1);
        dump(store, &db, sequence, &position).map_err(|error| corrupt(store, error.to_string()))?;
        quarantine(store, &aside, sequence).map_err(io)?;
        drop(JournalWriter::begin(writer_settings(store, &self.config), sequence, position.link).map_err(io)?);
        let mut position = TreePosition { sequence, ..position };
        tree_builder::finish(&db, &mut position).map_err(|error| corrupt(store, error.to_string()))?;
        tree::trust(store).map_err(io)?;
        Ok(Repaired { aside, archive_gaps })
    }
}

/// Fills a tree up to frame `kept`.
fn fill(store: &Path, db: &Db, retained: u64) -> Result<TreePosition, ReplayError> {
    let mut filled = TreeBuilder::with_rows(store, db)?;
    // The segment after the checkpoint may be the damaged one.
    if retained > filled.position.sequence {
        filled.add_frames(store, db, retained)?;
    }
    Ok(filled.position)
}

/// Checks what the tree is built from.
fn look_at(store: &Path) -> Result<StoreReport, OpenError> {
    let mut checked = StoreReport::default();
    let checkpoint = match check_checkpoint(store) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            checked.damages.push(damage_of(error)?);
            return Ok(checked);
        }
    };
    let CheckpointContents { base, rows, holds_from } = checkpoint;
    if rows > 0 {
        checked.found.push(format!("the checkpoint of frame {} contains {}", base.sequence, plural(rows, "row")));
    }
    let mut last = base.sequence;
    match check_frames(store, base, &mut last, |_| true) {
        Ok(end) => {
            checked.found.push(format!("the journal after it ends with frame {last}"));
            if let Err(error) = end.reaches(holds_from) {
                checked.damages.push(damage_of(error)?);
            }
            checked.end = Some(end);
        }
        Err(error) => checked.damages.push(damage_of(error)?),
    }
    checked.usable = Some(last).filter(|last| *last >= holds_from);
    match Archive::check(store) {
        Ok(archive) => {
            checked.found.push(format!("the archive contains the money records of {}", plural(archive.frames, "frame")));
            let lacks = |gap: &ArchiveGap| format!("a repair recorded that the archive lacks the money records of {gap}");
            checked.found.extend(archive.gaps.iter().map(lacks));
        }
        Err(error) => checked.archive = Some(damage_of(error)?),
    }
    Ok(checked)
}

/// Opens the tree if all of its rows match its totals.
fn fit_tree(store: &Path, config: &SledConfig) -> Result<Result<(Db, TreePosition), TreeUnusable>, OpenError> {
    let (db, position) = match open::tree_of(store, config)? {
        Ok(tree) => tree,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let counted = catch_unwind(AssertUnwindSafe(|| recount::some(&db, &position.totals, &Space::ALL)));
    Ok(match counted.unwrap_or_else(|_| Err(StoreError::Away("it stopped while it was read".to_owned()))) {
        Ok(wrong) if wrong.is_empty() => Ok((db, position)),
        Ok(wrong) => Err(TreeUnusable(format!("its rows do not match its totals: {wrong:?}"))),
        Err(error) => Err(error.into()),
    })
}

fn dump(store: &Path, db: &Db, sequence: u64, position: &TreePosition) -> Result<(), StoreError> {
    let mut dump = CheckpointWriter::begin(store, sequence, position.link).map_err(StoreError::away)?;
    let mut location = std::ops::Bound::Unbounded;
    while walk_some(db, &mut location, usize::MAX, |space, key, value| dump.add(space, key, value).map_err(StoreError::away))? {}
    dump.finish(sequence, &position.totals).map_err(StoreError::away)
}

/// Moves the journal and all checkpoints before the new one to the folder of damaged files.
fn quarantine(store: &Path, aside: &Path, newest: u64) -> io::Result<()> {
    for kind in [SegmentKind::Checkpoint, SegmentKind::Segment] {
        for named in SegmentFile::all(store, kind)? {
            if kind == SegmentKind::Segment || named.sequence < newest {
                fs::rename(&named.path, aside.join(named.path.file_name().unwrap_or_default()))?;
            }
        }
        File::open(store.join(kind.folder()))?.sync_all()?;
    }
    File::open(aside)?.sync_all()?;
    File::open(store)?.sync_all()
}

fn free_name(store: &Path) -> PathBuf {
    let names = (1..).map(|number: u32| store.join(format!("damaged-{number}")));
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| store.join("damaged"))
}

fn lock(store: &Path, config: &SledConfig) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    fs::metadata(store).map_err(io)?;
    if SegmentFile::all(store, SegmentKind::Segment).map_err(io)?.is_empty()
        && SegmentFile::all(store, SegmentKind::Checkpoint).map_err(io)?.is_empty()
        && !tree::is_there(store)
    {
        return Err(io(io::Error::new(io::ErrorKind::NotFound, "it does not contain a store")));
    }
    tree::lock(store, config)
}

fn damage_of(error: JournalError) -> Result<JournalDamage, OpenError> {
    match error {
        JournalError::Damaged(damage) => Ok(*damage),
        JournalError::Io { path, source } => Err(OpenError::Io { path, source }),
    }
}
