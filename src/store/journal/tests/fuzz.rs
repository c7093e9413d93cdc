//! Fuzz targets: files of the journal, its checkpoints and its archive with arbitrary bytes.

use super::*;
use crate::journal::sector::ROOM;

/// Builds a file of sectors. The first byte says whether each sector gets a valid checksum, as if the disk kept it
/// intact but its writer was not ours.
fn file_of(bytes: &[u8]) -> Vec<u8> {
    let Some((sealed, content)) = bytes.split_first() else { return vec![] };
    if sealed & 1 == 0 {
        return content.to_vec();
    }
    let mut file = Vec::new();
    for sector in content.chunks(4 + ROOM) {
        let mut rest = sector.to_vec();
        rest.resize(4 + ROOM, 0);
        let used = rest.iter().any(|byte| *byte != 0);
        file.extend_from_slice(&if used { crc32fast::hash(&rest).to_be_bytes() } else { [0; 4] });
        file.extend_from_slice(&rest);
    }
    file
}

/// Creates a store folder with one file of a kind.
fn placed(kind: SegmentKind, number: u64, bytes: &[u8]) -> Folder {
    let folder = Folder::new();
    let path = folder.path().join(kind.folder());
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(kind.file_name(number)), bytes).unwrap();
    folder
}

/// Checks that every frame follows from the one before, fits in the file, and is written back as it was read.
fn follow(folder: &Folder, bytes: usize) -> Result<u64, JournalError> {
    let mut walk = FrameWalk::start(folder.path(), 0, ChainLink::default())?;
    let (mut last, mut taken) = (0, 0);
    while let Some(frame) = walk.next()? {
        assert_eq!(frame.sequence(), last + 1);
        last = frame.sequence();
        taken += frame.money.len() + frame.rest.len();
        if let Some(parts) = frame.parts() {
            let again = parts.each_ref().map(|part| FramePart::read(&part.bytes()).expect("the written bytes are those that were read"));
            assert_eq!(parts, again);
        }
    }
    assert!(taken <= bytes && walk.end().sequence == last);
    Ok(last)
}

#[test]
fn segment_is_read_to_its_end_or_damaged_and_the_same_every_time() {
    tollhouse_fuzz::check("journal", |bytes| {
        let file = file_of(bytes);
        let folder = placed(SegmentKind::Segment, 1, &file);
        let read = || follow(&folder, file.len()).map_err(|error| error.to_string());
        assert_eq!(read(), read());
        let named = SegmentFile::all(folder.path(), SegmentKind::Segment).unwrap();
        if let Ok(last) = read() {
            fs::create_dir_all(folder.path().join(SegmentKind::Archive.folder())).unwrap();
            Archive::keep(folder.path(), &named[0], last).expect("a readable entry can be written");
            assert!(Archive::check(folder.path()).expect("a written entry can be read").last <= last);
        }
    });
}

#[test]
fn archive_and_checkpoint_are_read_to_their_ends_or_damaged() {
    tollhouse_fuzz::check("archive", |bytes| {
        let file = file_of(bytes);
        let folder = placed(SegmentKind::Archive, 1, &file);
        if let Ok(archive) = Archive::check(folder.path()) {
            assert!(archive.files == 1 && archive.frames as usize <= file.len() / SECTOR);
            Archive::look(folder.path()).expect("a readable segment has undamaged ends");
        }
        let folder = placed(SegmentKind::Checkpoint, 1, &file);
        if let Ok(Some(mut checkpoint)) = CheckpointReader::newest(folder.path()) {
            let mut taken = 0;
            while let Ok(CheckpointItem::Rows(rows)) = checkpoint.next() {
                taken += rows.len();
                assert!(taken <= file.len());
            }
        }
    });
}

#[test]
fn part_of_a_frame_is_read_as_it_is_written_or_not_at_all() {
    tollhouse_fuzz::check("frame-part", |bytes| {
        if let Some(part) = FramePart::read(bytes) {
            assert_eq!(FramePart::read(&part.bytes()).as_ref(), Some(&part));
            assert!(part.bytes().len() <= bytes.len());
        }
        let (keys, _) = super::super::part::keys_within(bytes, std::slice::from_ref(&(0..bytes.len())));
        assert!(keys.len() <= bytes.len());
    });
}
