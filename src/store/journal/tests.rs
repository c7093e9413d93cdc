//! Tests of the journal's guarantees on real files.

mod fuzz;

use std::{fs, io::Read as _, os::unix::fs::FileExt as _, path::Path, sync::Arc};

use super::{part::tests::row, sector::SECTOR, walk::JournalEnd, *};

const MONEY: u8 = 3;
const KV: u8 = 10;

/// Number and row keys of each frame.
type Keys = Vec<(u64, Vec<u8>)>;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("journal")).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn begin(&self) -> JournalWriter {
        JournalWriter::begin(settings(self), 0, ChainLink::default()).unwrap()
    }

    /// Returns the frames after `after`, and the end of the journal.
    fn read(&self, after: u64, link: ChainLink) -> Result<(Keys, JournalEnd), JournalDamage> {
        let read = || {
            let mut walk = FrameWalk::start(self.path(), after, link)?;
            let mut frames = Vec::new();
            while let Some(frame) = walk.next()? {
                let [money, rest] = frame.parts().unwrap();
                let keys = money.rows.iter().chain(&rest.rows).flat_map(|row| row.key.clone()).collect();
                frames.push((frame.sequence(), keys));
            }
            Ok((frames, walk.end()))
        };
        read().map_err(|error| match error {
            JournalError::Damaged(damage) => *damage,
            JournalError::Io { path, source } => panic!("{}: {source}", path.display()),
        })
    }

    fn all(&self) -> Result<(Keys, JournalEnd), JournalDamage> {
        self.read(0, ChainLink::default())
    }
}

fn settings(folder: &Folder) -> WriterSettings {
    let room = DiskSpace { store: folder.path().to_owned(), reserved: 0, free_bytes: Arc::new(|_| Ok(u64::MAX)) };
    WriterSettings { segment_bytes: 16 * 1024, room, before_sync: Arc::new(|| Ok(())) }
}

/// Appends a frame: with money if its number is a multiple of three, and with a value that spans some sectors.
fn append(writer: &mut JournalWriter, sync: bool) {
    let sequence = writer.sequence() + 1;
    let (paid, size) = (sequence.is_multiple_of(3), usize::try_from(sequence % 4).unwrap() * 700);
    let money =
        FramePart { rows: paid.then(|| row(MONEY, &format!("r{sequence}"), Some(100))).into_iter().collect(), ..FramePart::default() };
    let rest = FramePart { rows: vec![row(KV, &format!("k{sequence}"), Some(size))], ..FramePart::default() };
    writer.append(money.bytes(), rest.bytes()).unwrap();
    if sync {
        writer.sync().unwrap();
    }
}

fn damage(file: &Path, at: u64, change: impl FnOnce(&mut [u8; SECTOR])) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut sector = [0; SECTOR];
    file.read_exact_at(&mut sector, at).unwrap();
    change(&mut sector);
    file.write_all_at(&sector, at).unwrap();
}

/// Returns the segment and the offsets at which its last frames start and end.
fn starts(folder: &Folder, frames: u64, last: usize) -> (std::path::PathBuf, Vec<u64>) {
    let mut writer = folder.begin();
    let mut starts = vec![folder.all().unwrap().1.at];
    for _ in 0..frames {
        append(&mut writer, true);
        starts.push(folder.all().unwrap().1.at);
    }
    (folder.all().unwrap().1.segment, starts[starts.len() - 1 - last..].to_vec())
}

#[test]
fn frames_are_read_back_over_segments() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    let mut links = vec![writer.link()];
    for _ in 0..60 {
        append(&mut writer, true);
        links.push(writer.link());
    }
    drop(writer);
    assert!(SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap().len() > 2, "there is one segment to test");
    for (after, link) in (0..).zip(links) {
        let (frames, end) = folder.read(after, link).unwrap();
        let numbers: Vec<_> = frames.iter().map(|(number, _)| *number).collect();
        assert_eq!((numbers, end.sequence, end.torn), ((after + 1..=60).collect(), 60, false));
    }
    assert!(folder.read(5, ChainLink::default()).is_err(), "another past was taken for the frames' own");
}

#[test]
fn a_journal_resumes_where_it_ended() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for round in 1..=20 {
        append(&mut writer, false);
        append(&mut writer, true);
        drop(writer);
        let (frames, end) = folder.all().unwrap();
        assert_eq!((frames.len() as u64, end.sequence), (round * 2, round * 2));
        writer = JournalWriter::next_file(settings(&folder), &end).unwrap();
    }
}

#[test]
fn frame_longer_than_a_segment_gets_its_own_segment() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    append(&mut writer, true);
    writer.append(vec![], FramePart { rows: vec![row(KV, "long", Some(100_000))], ..FramePart::default() }.bytes()).unwrap();
    append(&mut writer, true);
    drop(writer);
    assert_eq!(folder.all().unwrap().1.sequence, 3);
}

#[test]
fn every_flipped_byte_is_reported() {
    let folder = Folder::new();
    let (file, starts) = starts(&folder, 7, 3);
    let (from, to) = (starts[0], *starts.last().unwrap() + 1_024);
    for at in from..to {
        let flip = |sector: &mut [u8; SECTOR]| sector[usize::try_from(at).unwrap() % SECTOR] ^= 0x10;
        let sector = at / SECTOR as u64 * SECTOR as u64;
        damage(&file, sector, flip);
        let found = folder.all().expect_err("a flipped byte was not noticed");
        assert_eq!((&found.file, found.offset), (&file, Some(sector)), "{at}: {found}");
        let (first, last) = found.sequences.unwrap();
        let frame = 4 + starts.iter().filter(|start| **start <= at).count() as u64;
        assert!(first <= frame && frame <= last + 1, "{at}: {found} is not frame {frame}");
        damage(&file, sector, flip);
    }
    assert_eq!(folder.all().unwrap().1.sequence, 7);
}

#[test]
fn a_damaged_row_is_reported() {
    let folder = Folder::new();
    let (file, starts) = starts(&folder, 7, 1);
    damage(&file, starts[0] + SECTOR as u64, |sector| sector[300] ^= 1);
    let found = folder.all().unwrap_err();
    assert_eq!((found.rows, found.more_rows), (vec!["KV `k7`".to_owned()], false));
    damage(&file, starts[0] + SECTOR as u64, |sector| sector[300] ^= 1);
    damage(&file, starts[0], |sector| sector[300] ^= 1);
    assert_eq!(folder.all().unwrap_err().rows, ["KV `k7`"], "also in the first sector");
}

#[test]
fn every_truncation_is_reported() {
    let folder = Folder::new();
    let (file, starts) = starts(&folder, 7, 3);
    let mut whole = Vec::new();
    fs::File::open(&file).unwrap().read_to_end(&mut whole).unwrap();
    let ends = (starts[0]..starts[3] + 1_024).step_by(SECTOR).flat_map(|end| [end, end + 100]);
    for end in ends {
        fs::write(&file, &whole[..usize::try_from(end).unwrap()]).unwrap();
        let found = folder.all().expect_err("a cut was not noticed");
        assert_eq!(found.file, file, "{end}: {found}");
    }
    fs::write(&file, &whole).unwrap();
    assert_eq!(folder.all().unwrap().1.sequence, 7);
}

#[test]
fn the_torn_end_of_a_write_is_dropped() {
    for sectors in 0..3 {
        let folder = Folder::new();
        let mut writer = folder.begin();
        append(&mut writer, true);
        append(&mut writer, true);
        let at = folder.all().unwrap().1.at;
        append(&mut writer, false);
        append(&mut writer, false);
        drop(writer);
        let file = folder.all().unwrap().1.segment;
        damage(&file, at + sectors * SECTOR as u64, |sector| *sector = [0; SECTOR]);
        let (frames, end) = folder.all().unwrap();
        assert_eq!((frames.len(), end.sequence, end.torn, end.at), (2, 2, true, at));
        let mut writer = JournalWriter::next_file(settings(&folder), &end).unwrap();
        assert!(!folder.all().unwrap().1.torn, "the torn end is still there");
        append(&mut writer, true);
        assert_eq!(folder.all().unwrap().1.sequence, 3);
    }
}

#[test]
fn zeros_in_place_of_synced_frames_are_reported() {
    let folder = Folder::new();
    let (file, starts) = starts(&folder, 7, 3);
    for sectors in 0..2 {
        let at = starts[0] + sectors * SECTOR as u64;
        let mut stored = [0; SECTOR];
        damage(&file, at, |sector| stored = std::mem::replace(sector, stored));
        let found = folder.all().expect_err("a frame that is gone was not missed");
        assert_eq!((found.offset, found.sequences), (Some(starts[0]), Some((5, 5))), "{found}");
        damage(&file, at, |sector| *sector = stored);
    }
}

#[test]
fn a_missing_segment_is_reported() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for _ in 0..60 {
        append(&mut writer, true);
    }
    drop(writer);
    let segments = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap();
    let aside = folder.path().join("aside");
    for (position, segment) in segments.iter().enumerate().take(segments.len() - 1) {
        fs::rename(&segment.path, &aside).unwrap();
        let found = folder.all().expect_err("a segment that is gone was not missed");
        let to = segments[position + 1].sequence - 1;
        assert_eq!(found.sequences, Some((segment.sequence, to)), "{found}");
        fs::rename(&aside, &segment.path).unwrap();
    }
}

#[test]
fn a_segment_without_its_trailing_zeros_is_intact() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for _ in 0..60 {
        append(&mut writer, true);
    }
    drop(writer);
    let first = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap().remove(0);
    let file = fs::OpenOptions::new().write(true).open(&first.path).unwrap();
    let whole = fs::read(&first.path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() / SECTOR + 1;
    file.set_len((used * SECTOR) as u64).unwrap();
    assert_eq!(folder.all().unwrap().1.sequence, 60);
}

fn dumped(folder: &Folder) -> SegmentFile {
    let mut totals = SpaceTotals::default();
    totals.set(&[(KV, SpaceTotal { entries: 1, bytes: 2, print: 3 })]);
    let mut dump = CheckpointWriter::begin(folder.path(), 8, ChainLink::default()).unwrap();
    for n in 0..400_u32 {
        dump.add(KV, n.to_be_bytes().to_vec(), vec![1; 1_000]).unwrap();
    }
    dump.finish(11, &totals).unwrap();
    SegmentFile::all(folder.path(), SegmentKind::Checkpoint).unwrap().remove(0)
}

/// Returns the number of rows, the number from which they are consistent, and the bytes in the totals at the
/// checkpoint's own number.
fn rows_of(mut checkpoint: CheckpointReader) -> Result<(usize, u64, u64), JournalError> {
    let mut rows = 0;
    loop {
        match checkpoint.next()? {
            CheckpointItem::Rows(some) => rows += some.len(),
            CheckpointItem::End { until, totals } => return Ok((rows, until, totals.bytes())),
        }
    }
}

#[test]
fn a_checkpoint_is_read_as_it_was_written() {
    let folder = Folder::new();
    dumped(&folder);
    let checkpoint = CheckpointReader::newest(folder.path()).unwrap().unwrap();
    assert_eq!(checkpoint.sequence, 8);
    assert_eq!(rows_of(checkpoint).unwrap(), (400, 11, 2));
}

#[test]
fn damage_to_a_checkpoint_is_reported() {
    let folder = Folder::new();
    let named = dumped(&folder);
    let whole = fs::read(&named.path).unwrap();
    let check = || CheckpointReader::open(&named).and_then(rows_of);
    for at in (0..whole.len()).step_by(1_777) {
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(&named.path, changed).unwrap();
        assert!(matches!(check(), Err(JournalError::Damaged(_))), "byte {at} of {}", whole.len());
        fs::write(&named.path, &whole[..at]).unwrap();
        assert!(matches!(check(), Err(JournalError::Damaged(_))), "cut at {at} of {}", whole.len());
    }
}

#[test]
fn the_archive_keeps_the_money_and_proves_it() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for _ in 0..60 {
        append(&mut writer, true);
    }
    let (end, link) = (writer.sequence(), writer.link());
    drop(writer);
    let last = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap().pop().unwrap().sequence;
    Archive::take(folder.path(), end).unwrap();
    assert_eq!(SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap().len(), 1);
    let archive = Archive::check(folder.path()).unwrap();
    assert_eq!((archive.frames, archive.last), ((last - 1) / 3, (last - 1) / 3 * 3));
    let file = SegmentFile::all(folder.path(), SegmentKind::Archive).unwrap().remove(1).path;
    let stored = fs::read(&file).unwrap();
    for at in (0..stored.len()).step_by(97) {
        let mut changed = stored.clone();
        changed[at] ^= 1;
        fs::write(&file, changed).unwrap();
        assert!(Archive::check(folder.path()).is_err(), "byte {at}");
    }
    fs::remove_file(&file).unwrap();
    assert!(Archive::check(folder.path()).is_err(), "a file of the archive is gone");
    assert!(folder.read(end, link).is_ok());
}

#[test]
fn segments_without_money_leave_nothing_in_the_archive() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for round in 0..3 {
        for n in 0..80 {
            let rest = FramePart { rows: vec![row(KV, "often", Some(n * 20))], ..FramePart::default() };
            writer.append(vec![], rest.bytes()).unwrap();
        }
        (0..3).for_each(|_| append(&mut writer, true));
        let before = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap().len();
        Archive::take(folder.path(), writer.sequence()).unwrap();
        let files = SegmentFile::all(folder.path(), SegmentKind::Archive).unwrap().len();
        assert!(before > 2 && files <= 2 * (round + 1), "{files} files of {before} segments");
        Archive::look(folder.path()).unwrap();
        Archive::check(folder.path()).unwrap();
    }
}

#[test]
fn a_missing_archive_file_is_reported() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for _ in 0..60 {
        append(&mut writer, true);
    }
    let end = writer.sequence();
    drop(writer);
    Archive::take(folder.path(), end).unwrap();
    Archive::look(folder.path()).unwrap();
    let files = SegmentFile::all(folder.path(), SegmentKind::Archive).unwrap();
    let with_money: Vec<_> = files.iter().filter(|file| file.path.metadata().unwrap().len() > SECTOR as u64).collect();
    assert!(with_money.len() > 2);
    for file in with_money {
        let stored = fs::read(&file.path).unwrap();
        fs::remove_file(&file.path).unwrap();
        assert!(Archive::look(folder.path()).is_err() && Archive::check(folder.path()).is_err(), "{}", file.path.display());
        fs::write(&file.path, &stored[..stored.len() - 1]).unwrap();
        assert!(Archive::look(folder.path()).is_err() && Archive::check(folder.path()).is_err(), "{} is short", file.path.display());
        fs::write(&file.path, stored).unwrap();
    }
    Archive::look(folder.path()).unwrap();
    fs::remove_dir_all(folder.path().join(SegmentKind::Archive.folder())).unwrap();
    let Err(JournalError::Damaged(damage)) = Archive::look(folder.path()) else { panic!("nobody misses the archive") };
    assert!(damage.what.contains("is missing at its end"), "{damage}");
}

#[test]
fn a_failed_sync_leaves_frames_unsynced() {
    let folder = Folder::new();
    let refuse = WriterSettings { before_sync: Arc::new(|| Err(std::io::Error::other("no"))), ..settings(&folder) };
    let mut writer = JournalWriter::begin(refuse, 0, ChainLink::default()).unwrap();
    append(&mut writer, false);
    assert!(writer.sync().is_err());
    assert_eq!((writer.sequence(), writer.synced()), (1, 0));
}

#[test]
fn a_segment_that_cannot_be_created_changes_nothing() {
    let folder = Folder::new();
    let full = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let reported = Arc::clone(&full);
    let free_bytes = Arc::new(move |_: &Path| Ok(if reported.load(std::sync::atomic::Ordering::SeqCst) { 9 } else { u64::MAX }));
    folder.begin();
    let end = folder.all().unwrap().1;
    let room = DiskSpace { free_bytes, ..settings(&folder).room };
    let mut writer = JournalWriter::next_file(WriterSettings { room, ..settings(&folder) }, &end).unwrap();
    let long = || FramePart { rows: vec![row(KV, "long", Some(100_000))], ..FramePart::default() }.bytes();
    append(&mut writer, true);
    assert!(matches!(writer.append(vec![], long()), Err(WriteError::NoRoom(_))));
    assert!(writer.make_room().is_err());
    append(&mut writer, true);
    assert_eq!(folder.all().unwrap().1.sequence, 2, "blocks that fit are written in place");
    full.store(false, std::sync::atomic::Ordering::SeqCst);
    writer.make_room().unwrap();
    writer.append(vec![], long()).unwrap();
    append(&mut writer, true);
    assert_eq!(folder.all().unwrap().1.sequence, 4);
    assert!(ZeroedFile::make(&DiskSpace { store: folder.path().join("none"), ..settings(&folder).room }, 8).is_err());
}

#[test]
fn an_unfinished_checkpoint_is_removed() {
    let folder = Folder::new();
    let mut dump = CheckpointWriter::begin(folder.path(), 8, ChainLink::default()).unwrap();
    dump.add(KV, vec![1], vec![1; 1_000_000]).unwrap();
    let files = || fs::read_dir(folder.path().join("checkpoint")).unwrap().count();
    assert_eq!(files(), 1);
    drop(dump);
    assert_eq!(files(), 0, "a checkpoint that failed is still there");
}

#[test]
fn a_segment_that_lost_frames_is_not_removed() {
    let folder = Folder::new();
    let mut writer = folder.begin();
    for _ in 0..60 {
        append(&mut writer, true);
    }
    let (end, link) = (writer.sequence(), writer.link());
    drop(writer);
    let segments = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap();
    let short = &fs::read(&segments[1].path).unwrap()[..SECTOR];
    fs::write(&segments[1].path, short).unwrap();
    let Err(JournalError::Damaged(found)) = Archive::take(folder.path(), end) else { panic!("a loss was not noticed") };
    assert_eq!(found.file, segments[1].path.with_extension("damaged"), "{found}");
    assert_eq!(fs::read(&found.file).unwrap(), short);
    assert_eq!(SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap(), [segments.last().unwrap().clone()]);
    assert!(Archive::check(folder.path()).is_err(), "nothing reports money missing from the archive");
    Archive::take(folder.path(), end).unwrap();
    assert!(folder.read(end, link).is_ok(), "a needed segment is unreadable");
}
