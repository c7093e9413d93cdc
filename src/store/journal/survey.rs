//! Salvages a damaged journal: finds every intact frame, wherever it is.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use super::{
    damage::name,
    frame::{Frame, FrameHead, HEAD},
    sector::{self, ROOM, Sector, low_bits, sectors},
    segment::{SegmentFile, SegmentKind},
};

/// The frames found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Table and key of the rows in each intact frame after the given one.
    pub(crate) rows: BTreeMap<u64, Vec<String>>,
    /// The highest number of a frame that its segment has room for.
    pub(crate) last: u64,
}

impl Survey {
    /// Searches all segments for frames after `after`.
    pub(crate) fn behind(store: &Path, after: u64) -> io::Result<Self> {
        let mut survey = Self { last: after, ..Self::default() };
        for named in SegmentFile::all(store, SegmentKind::Segment)? {
            survey.last = survey.last.max(named.sequence.saturating_sub(1));
            survey.look(&named, after)?;
        }
        Ok(survey)
    }

    fn look(&mut self, segment: &SegmentFile, after: u64) -> io::Result<()> {
        let file = File::open(&segment.path)?;
        let bytes = file.metadata()?.len();
        let mut input = BufReader::new(file);
        let mut started: Option<(FrameHead, Vec<u8>)> = None;
        // The first sector is the header of the file.
        sector::next(&mut input)?;
        while let Some(sector) = sector::next(&mut input)? {
            started = match (sector::read(&sector), started) {
                (Sector::Good { first: true, content, .. }, _) => {
                    FrameHead::read(content).filter(|head| head.fits(segment.sequence, bytes)).map(|head| (head, content.to_vec()))
                }
                (Sector::Good { first: false, low, content }, Some((head, mut found))) if low == low_bits(head.sequence) => {
                    found.extend_from_slice(content);
                    Some((head, found))
                }
                _ => None,
            };
            if let Some((head, found)) = &started {
                self.last = self.last.max(head.sequence);
                let bytes = usize::try_from(head.frame_bytes()).unwrap_or(usize::MAX);
                if found.len() == sectors(bytes).saturating_mul(ROOM) && head.sequence > after {
                    let frame = found.get(HEAD..bytes).and_then(|parts| Frame::of(*head, parts));
                    self.rows.insert(head.sequence, frame.map(|frame| rows(&frame)).unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

fn rows(frame: &Frame) -> Vec<String> {
    let parts = frame.parts().into_iter().flatten();
    parts.flat_map(|part| part.rows).map(|row| name(row.space, &row.key)).collect()
}
