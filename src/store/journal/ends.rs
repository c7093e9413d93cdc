//! What the archive has to begin with and come to, and where its files do not follow each other, by their ends alone.

use std::path::Path;

use super::{
    damage::{Damage, JournalError},
    link::{Hash, Link},
    reader::{Found, Reader},
    segment::{Kind, Named},
};

/// Follows what the files of the archive come to.
///
/// A journal begins with a chain of nothing, and its oldest segment says what all before it comes to: the archive leads from the one
/// to the other. A file of that segment or a later one was written and the segment not removed yet.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// What the files so far come to.
    chain: Hash,
    /// The oldest segment, until the archive was held against it.
    oldest: Option<(u64, Hash)>,
}

impl Ends {
    pub(super) fn of(store: &Path) -> Result<Self, JournalError> {
        let folder = store.join(Kind::Segment.folder());
        let oldest = Named::all(store, Kind::Segment).map_err(JournalError::io(&folder))?.into_iter().next();
        // One that does not read is damage of the journal's own.
        let oldest = oldest.and_then(|oldest| Some((oldest.sequence, Reader::open(&oldest.path, Kind::Segment).ok()?.opening.link.chain)));
        Ok(Self { chain: Hash::default(), oldest })
    }

    /// Begins a file.
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

    /// Ends a file, that comes to `chain`.
    pub(super) fn close(&mut self, chain: Hash) {
        self.chain = chain;
    }

    /// Holds what there is against where the journal goes on.
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

/// Looks at the first sector and the last frame of every file.
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
