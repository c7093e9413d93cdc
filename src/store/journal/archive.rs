//! The archive: the money of segments that are no longer needed.
//!
//! A file for each segment that has money, with its frames that have some, and of these the money alone. In place of what all
//! frames before come to, each has the chain before it and the rest that went in, from which the chain is followed
//! ([`super::link`]). A file starts from where its segment did.

use std::{
    fs::{self, File},
    path::Path,
};

use super::{
    archived::Archived,
    damage::{Damage, JournalError},
    ends,
    frame::Frame,
    link::Link,
    reader::{Found, Reader},
    segment::{Kind, Named, Opening},
    unfinished::Unfinished,
};

/// The extension of a segment that could not be read when its money was to be kept.
const DAMAGED: &str = "damaged";

/// What the archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Archive {
    pub(crate) files: u64,
    pub(crate) frames: u64,
    /// The number of the last frame in it.
    pub(crate) last: u64,
}

impl Archive {
    /// Keeps the money of the segments that hold no frame behind `sequence`, then removes them. The last one stays. One that is
    /// damaged stays too, under another name; what is wrong with the first of these is answered once all others are done.
    pub(crate) fn take(store: &Path, sequence: u64) -> Result<(), JournalError> {
        let folder = store.join(Kind::Segment.folder());
        let segments = Named::all(store, Kind::Segment).map_err(JournalError::io(&folder))?;
        let mut damaged = Ok(());
        for pair in segments.windows(2) {
            if let [segment, next] = pair
                && next.sequence <= sequence + 1
            {
                match Self::keep(store, segment, next.sequence - 1) {
                    Ok(()) => fs::remove_file(&segment.path).map_err(JournalError::io(&segment.path))?,
                    Err(JournalError::Damaged(damage)) => {
                        let aside = segment.path.with_extension(DAMAGED);
                        fs::rename(&segment.path, &aside).map_err(JournalError::io(&aside))?;
                        damaged = damaged.and(Err(Damage { file: aside, ..*damage }.into()));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(JournalError::io(&folder))?;
        damaged
    }

    /// Follows the chain through the archive.
    pub(crate) fn check(store: &Path) -> Result<Self, JournalError> {
        let mut archived = Archived::start(store)?;
        let files = archived.files();
        let mut frames = 0;
        while archived.next()?.is_some() {
            frames += 1;
        }
        Ok(Self { files, frames, last: archived.last() })
    }

    /// Whether files are missing, or damaged at their ends. What lies between is not read.
    pub(crate) fn look(store: &Path) -> Result<(), JournalError> {
        ends::look(store)
    }

    /// Keeps the money of the frames of a segment up to `until`; where it is damaged, of those before.
    pub(crate) fn keep(store: &Path, segment: &Named, until: u64) -> Result<(), JournalError> {
        let path = store.join(Kind::Archive.folder()).join(Kind::Archive.file_name(segment.sequence));
        let mut reader = Reader::open(&segment.path, Kind::Segment)?;
        let opening = Opening { kind: Kind::Archive, size: 0, ..reader.opening };
        let mut file = Unfinished::begin(path.clone()).map_err(JournalError::io(&path))?;
        let mut sectors = opening.sector();
        let (mut sequence, mut link) = (opening.sequence, opening.link);
        let mut read = Ok(());
        while read.is_ok() && sequence <= until {
            match follow(&mut reader, sequence, link, until) {
                Ok(frame) => {
                    (sequence, link) = (sequence + 1, frame.link());
                    kept(&frame).iter().for_each(|kept| kept.write(&mut sectors));
                    file.write(&std::mem::take(&mut sectors)).map_err(JournalError::io(&path))?;
                }
                Err(error) => read = Err(error),
            }
        }
        if read.is_ok() && link.chain == opening.link.chain {
            // Without money the chain goes on from the file before.
            return Ok(());
        }
        file.write(&sectors).and_then(|()| file.finish()).map_err(JournalError::io(&path))?;
        read
    }
}

/// The frame that has to come next.
fn follow(reader: &mut Reader, sequence: u64, link: Link, until: u64) -> Result<Box<Frame>, JournalError> {
    let at = reader.at();
    match reader.next(sequence)? {
        Found::Frame(frame) if frame.head.sequence == sequence && frame.head.link == link => Ok(frame),
        Found::Frame(_) => Err(reader.damage("a frame that does not follow from those before it", at, sequence).into()),
        Found::Zeros { .. } | Found::End => Err(reader.damage("it ends before its last frame", at, sequence).of(sequence, until).into()),
    }
}

/// What stays of a frame: nothing, if it has no money.
fn kept(frame: &Frame) -> Option<Frame> {
    let head = frame.head;
    let folded = head.link.next(head.sequence, b"", &frame.rest).rest;
    let link = Link { chain: head.link.chain, rest: folded };
    let money = Some(frame.money.clone()).filter(|money| !money.is_empty())?;
    Frame::new(head.sequence, head.synced, link, money, vec![])
}
