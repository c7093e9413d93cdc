//! Verifies that the archive is complete from its first and last frames alone: where it must begin, where it must end,
//! and that each file follows from the one before.

use std::path::Path;

use super::{
    damage::{Damage, JournalError},
    link::{Hash, Link},
    reader::{Found, Reader},
    segment::{Kind, Named},
};

/// Tracks the hash chain across the files of the archive.
///
/// A journal begins with an empty chain, and its oldest segment states the chain of everything before it. The archive
/// must lead from one to the other. An archive file for that segment or a later one means that the segment was archived
/// but not removed yet.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The chain after the files so far.
    chain: Hash,
    /// The oldest segment, until the archive has been compared with it.
    oldest: Option<(u64, Hash)>,
}

impl Ends {
    pub(super) fn of(store: &Path) -> Result<Self, JournalError> {
        let folder = store.join(Kind::Segment.folder());
        let oldest = Named::all(store, Kind::Segment).map_err(JournalError::io(&folder))?.into_iter().next();
        // A segment that cannot be read is damage of the journal, not of the archive.
        let oldest = oldest.and_then(|oldest| Some((oldest.sequence, Reader::open(&oldest.path, Kind::Segment).ok()?.opening.link.chain)));
        Ok(Self { chain: Hash::default(), oldest })
    }

    /// Opens the next file and checks that it follows from the one before.
    pub(super) fn open(&mut self, store: &Path, named: &Named) -> Result<Reader, JournalError> {
        if self.oldest.is_some_and(|(sequence, _)| sequence <= named.sequence) {
            self.finish(store)?;
        }
        let reader = Reader::open(&named.path, Kind::Archive)?;
        if reader.opening.link.chain != self.chain || reader.opening.sequence != named.sequence {
            let what = "it does not follow from the file before it, or that one is missing";
            return Err(Damage::new(&named.path, what).at(0).into());
        }
        Ok(reader)
    }

    /// Ends a file, whose chain is `chain`.
    pub(super) fn close(&mut self, chain: Hash) {
        self.chain = chain;
    }

    /// Compares the archive's chain with the one that the journal continues from.
    pub(super) fn finish(&mut self, store: &Path) -> Result<(), JournalError> {
        match self.oldest.take() {
            Some((sequence, chain)) if chain != self.chain => {
                let what = format!("money of frames before {sequence}, with which the journal goes on, is missing at its end");
                Err(Damage::new(&store.join(Kind::Archive.folder()), what).into())
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Checks the first sector and the last frame of every file.
pub(super) fn look(store: &Path) -> Result<(), JournalError> {
    let folder = store.join(Kind::Archive.folder());
    let mut ends = Ends::of(store)?;
    for named in Named::all(store, Kind::Archive).map_err(JournalError::io(&folder))? {
        let mut reader = ends.open(store, &named)?;
        if let Some(last) = reader.last_frame()? {
            let Found::Frame(frame) = reader.next(last)? else {
                return Err(Damage::new(&named.path, "its last frame is not whole").into());
            };
            ends.close(Link::of_money(frame.head.link.chain, frame.head.sequence, &frame.money, frame.head.link.rest).chain);
        }
    }
    ends.finish(store)
}
