//! Repairs leave a store that all checks accept, and record the money that the archive lost.

use std::path::Path;

use tollhouse::store::sled::{ArchiveGap, MoneyRows, StoreReport, check, repair};

use super::harness::*;

const ROWS: usize = 300;

/// Makes a store with a frame for each of [`ROWS`] receipts, in several segments.
async fn sold(path: &Path) -> SledStore {
    let store = SledStore::open(path, SledConfig { segment_bytes: 64 * 1024, ..SledConfig::default() }).unwrap();
    for n in 0..ROWS {
        store.apply(Batch::of(vec![], vec![Write::put(Space::Receipts, key(n), bytes(500 + n))]), Durable).await.unwrap();
    }
    store
}

/// Checks that a repaired store has all rows, that nothing is damaged, and that the gaps are named. Returns the number
/// of archived rows.
async fn is_repaired(folder: &TempDir, gaps: &[ArchiveGap], story: &str) -> usize {
    let path = folder.path().join("store");
    let StoreReport { found, damages, archive, .. } = check(&path, &SledConfig::default()).unwrap();
    assert!(damages.is_empty() && archive.is_none(), "{story}: {damages:?} {archive:?}");
    for gap in gaps {
        assert!(found.iter().any(|found| found.ends_with(&format!("lacks the money records of {gap}"))), "{story}: {found:?}");
    }
    let mut rows = MoneyRows::of(&path).unwrap();
    let mut archived = 0;
    while let Some(written) = rows.next_frame().unwrap_or_else(|error| panic!("{story}: {error}")) {
        archived += written.len();
    }
    assert_eq!(rows.gaps(), gaps, "{story}");
    let again = repair(&path, &SledConfig::default()).unwrap();
    assert!(again.damages.is_empty() && again.archive.is_none(), "{story}");
    drop(again);
    let store = try_open(folder).unwrap_or_else(|error| panic!("{story}: {error}"));
    assert_eq!((all(&store, Space::Receipts).await.len(), store.sizes().damage), (ROWS, None), "{story}");
    archived
}

/// Regression test: after a repair, no check accepted the store, because money was missing from the archive.
#[tokio::test]
async fn checks_pass_after_the_repair_of_any_segment() {
    let folder = folder();
    let (path, kept) = (folder.path().join("store"), folder.path().join("kept"));
    drop(sold(&path).await);
    copy(&path, &kept);
    let count = segments(&folder).len();
    assert!(count > 3, "{count} segments");
    let mut gaps_found = 0;
    for number in 0..count {
        // The header of a segment, and a frame in the middle.
        for is_header in [true, false] {
            std::fs::remove_dir_all(&path).unwrap();
            copy(&kept, &path);
            let segment = segments(&folder).swap_remove(number);
            let used = std::fs::read(&segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
            let at = if is_header { 20 } else { used / 2 };
            flip(&segment, at);
            let story = format!("{} at {at}", segment.display());
            let planned = repair(&path, &SledConfig::default()).unwrap();
            assert_eq!((planned.damages.len(), planned.dropped.len()), (1, 0), "{story}");
            let gaps = planned.perform().unwrap().archive_gaps;
            let lost: u64 = gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
            assert!(lost <= u64::from(!is_header), "{story}: more than the damaged frame is missing: {gaps:?}");
            gaps_found += gaps.len();
            assert_eq!(is_repaired(&folder, &gaps, &story).await as u64, ROWS as u64 - lost, "{story}");
        }
    }
    assert!(gaps_found > 1, "{gaps_found} gaps of {count} segments");
}

/// Regression test: the host refused to start, and neither the check nor the repair found anything.
#[tokio::test]
async fn journal_that_ends_before_the_tree_is_reported_and_repaired_from_the_tree() {
    let folder = folder();
    let path = folder.path().join("store");
    drop(sold(&path).await);
    let segment = segments(&folder).pop().unwrap();
    let mut content = std::fs::read(&segment).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap();
    content[used / 1024 * 512..].fill(0);
    std::fs::write(&segment, content).unwrap();
    let refused = try_open(&folder).unwrap_err().to_string();
    let checked = check(&path, &SledConfig::default()).unwrap();
    assert_eq!(checked.damages.len(), 1, "{checked:?}");
    let damage = checked.damages[0].to_string();
    assert!(refused.contains("the journal ends before") && damage.contains("the journal ends before"), "{refused}: {damage}");
    let planned = repair(&path, &SledConfig::default()).unwrap();
    assert_eq!((planned.damages.len(), planned.dropped_frames()), (1, 0));
    let gaps = planned.perform().unwrap().archive_gaps;
    let lost: u64 = gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
    assert!(gaps.len() == 1 && lost > 0, "{gaps:?}");
    assert_eq!(is_repaired(&folder, &gaps, "the end of the journal").await as u64, ROWS as u64 - lost);
}

#[tokio::test]
async fn gap_of_the_archive_is_reported_until_a_repair_records_it() {
    let folder = folder();
    let (path, kept) = (folder.path().join("store"), folder.path().join("kept"));
    sold(&path).await.compact().await.unwrap();
    copy(&path, &kept);
    let files = files_of(&path.join("archive"));
    assert!(files.len() > 1 && check(&path, &SledConfig::default()).unwrap().archive.is_none(), "{files:?}");
    // One file is changed at two places, one is missing, all are missing.
    for harm in 0..4 {
        std::fs::remove_dir_all(&path).unwrap();
        copy(&kept, &path);
        match harm {
            0 => flip(&files[1], 20),
            1 => flip(&files[0], std::fs::read(&files[0]).unwrap().len() / 2),
            2 => std::fs::remove_file(&files[1]).unwrap(),
            _ => std::fs::remove_dir_all(path.join("archive")).unwrap(),
        }
        let story = format!("harm {harm}");
        let checked = check(&path, &SledConfig::default()).unwrap();
        assert!(checked.archive.is_some() && checked.damages.is_empty(), "{story}: {checked:?}");
        let mut rows = MoneyRows::of(&path).unwrap();
        let ended = loop {
            match rows.next_frame() {
                Ok(Some(_)) => {}
                ended => break ended,
            }
        };
        assert!(matches!(ended, Err(OpenError::Archive { .. })), "{story}");
        let planned = repair(&path, &SledConfig::default()).unwrap();
        assert!(planned.archive == checked.archive && planned.damages.is_empty(), "{story}");
        let gaps = planned.perform().unwrap().archive_gaps;
        assert_eq!(gaps.len(), usize::from(harm > 0), "{story}: {gaps:?}");
        is_repaired(&folder, &gaps, &story).await;
    }
}

#[tokio::test]
async fn damaged_archive_is_reported_while_the_store_is_open() {
    let folder = folder();
    let path = folder.path().join("store");
    sold(&path).await.compact().await.unwrap();
    std::fs::remove_dir_all(path.join("archive")).unwrap();
    let store = try_open(&folder).unwrap();
    let damage = store.sizes().damage.unwrap();
    assert!(damage.contains("is missing at its end"), "{damage}");
    assert_eq!(all(&store, Space::Receipts).await.len(), ROWS, "the rows are in the store");
}
