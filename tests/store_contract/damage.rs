//! Damage on disk is repaired or reported.

use std::path::Path;

use tollhouse::store::sled::{check, repair};

use super::{
    harness::*,
    history::{Chance, same_as, step},
    questions::{counted, rows_of},
};

#[tokio::test]
async fn damaged_journal_is_refused_with_advice() {
    let folder = folder();
    let store = open(&folder);
    fill(&store, 2_000).await;
    drop(store);
    let segment = segments(&folder).remove(0);
    let mut frames = std::fs::read(&segment).unwrap();
    frames[700] ^= 0xff;
    std::fs::write(&segment, frames).unwrap();
    let refused = try_open(&folder).unwrap_err();
    let OpenError::Damaged { damage, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((&damage.file, damage.offset, damage.sequences), (&segment, Some(512), Some((1, 1))));
    assert!(damage.rows[0].starts_with("KV `"), "{refused}");
    assert!(refused.to_string().contains("restore the newest backup"), "{refused}");
}

#[tokio::test]
async fn a_damaged_tree_is_rebuilt() {
    let folder = folder();
    let mut chance = Chance::seeded();
    let mut model = BTreeMap::new();
    let damages: [fn(&Path); 4] = [
        |store| flip(&store.join("conf"), 10),
        |store| flip(&store.join("db"), 20_000),
        |store| std::fs::remove_file(store.join("db")).unwrap(),
        |store| std::fs::write(store.join("snap.0000000000000100.generating"), b"half").unwrap(),
    ];
    for damage in damages {
        let store = open(&folder);
        for _ in 0..150 {
            step(&store, &mut model, &mut chance).await;
        }
        drop(store);
        damage(&folder.path().join("store"));
        let store = open(&folder);
        same_as(&store, &model).await;
        assert_eq!(rows_of(&store).await, counted(&store).await);
    }
}

#[tokio::test]
async fn the_journal_alone_makes_the_same_store() {
    let folder = folder();
    let mut chance = Chance::seeded();
    let mut model = BTreeMap::new();
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 512 * 1024, ..SledConfig::default() };
    for _ in 0..4 {
        let store = SledStore::open(folder.path().join("store"), config.clone()).unwrap();
        same_as(&store, &model).await;
        for _ in 0..150 {
            step(&store, &mut model, &mut chance).await;
        }
        drop(store);
        std::fs::remove_dir_all(folder.path().join("store/blobs")).unwrap();
        std::fs::remove_file(folder.path().join("store/db")).unwrap();
        std::fs::remove_file(folder.path().join("store/conf")).unwrap();
    }
}

/// This includes rows that are not counted at the start.
#[tokio::test]
async fn a_wrong_row_is_never_read_as_a_value() {
    let folder = folder();
    let store = open(&folder);
    put(&store, Space::Kv, b"small", b"value").await;
    put(&store, Space::Kv, b"large", &bytes(20_000)).await;
    let path = store.path().to_owned();
    drop(store);
    let tree = tree_of(&path);
    for position in [&b"\x0asmall"[..], b"\xff\x0a\0\0\0\x05large\0\0\0\x01"] {
        let mut wrong = tree.get(position).unwrap().unwrap().to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        tree.insert(position, wrong).unwrap();
    }
    tree.flush().unwrap();
    drop(tree);
    let store = open(&folder);
    for key in [&b"small"[..], b"large"] {
        let refused = store.get(Space::Kv, key).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("KV `")), "{refused}");
    }
    assert!(store.scan(Space::Kv, KeyRange::all(), 10, Forward).await.is_err());
    until(|| path.join("tree-is-wrong").exists()).await;
    drop(store);
    let store = open(&folder);
    assert_eq!(store.get(Space::Kv, b"small").await.unwrap(), Some(b"value".to_vec()));
    assert_eq!(store.get(Space::Kv, b"large").await.unwrap(), Some(bytes(20_000)));
}

#[tokio::test]
async fn a_missing_row_of_money_is_back_at_the_next_start() {
    let folder = folder();
    let store = open(&folder);
    put(&store, Space::Receipts, b"one", b"value").await;
    put(&store, Space::Receipts, b"two", b"value").await;
    let path = store.path().to_owned();
    drop(store);
    let tree = tree_of(&path);
    tree.remove(b"\x03one").unwrap().unwrap();
    tree.flush().unwrap();
    drop(tree);
    assert_eq!(all(&open(&folder), Space::Receipts).await.len(), 2);
}

#[tokio::test]
async fn a_missing_journal_is_refused() {
    let folder = folder();
    let store = open(&folder);
    put(&store, Space::Receipts, b"one", b"value").await;
    drop(store);
    std::fs::remove_dir_all(folder.path().join("store/journal")).unwrap();
    let refused = try_open(&folder).unwrap_err();
    assert!(refused.to_string().contains("the journal is missing"), "{refused}");
}

/// The last frames are cut or changed at every place. All acknowledged rows are there, or the
/// damage is reported.
#[tokio::test]
async fn no_damage_to_the_journal_is_silent() {
    let folder = folder();
    let store = open(&folder);
    let mut sectors = Vec::new();
    for n in 0..6_u8 {
        let writes = vec![Write::put(Space::Receipts, [n], bytes(700)), Write::put(Space::Kv, [n], bytes(5))];
        store.apply(Batch::of(vec![], writes), Durable).await.unwrap();
        sectors.push(used_sectors(&segments(&folder)[0]));
    }
    drop(store);
    let segment = segments(&folder).remove(0);
    let whole = std::fs::read(&segment).unwrap();
    let (from, to) = (sectors[2] * 512, sectors[5] * 512);
    let cuts = (from..=to).step_by(512).map(|end| whole[..end].to_vec());
    let flips = (from..to + 512).step_by(61).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        changed
    });
    for damaged in cuts.chain(flips) {
        std::fs::write(&segment, &damaged).unwrap();
        match try_open(&folder) {
            Ok(store) => assert_eq!(all(&store, Space::Receipts).await.len(), 6),
            Err(refused) => assert!(refused.to_string().contains("journal"), "{refused}"),
        }
    }
}

/// This includes buffered commits: they are on disk half a second later, and when the store is
/// closed.
#[tokio::test]
async fn last_frames_that_turn_to_zeros_are_missed() {
    for durability in [Durable, Buffered] {
        let folder = folder();
        let store = open(&folder);
        put(&store, Space::Receipts, b"one", b"value").await;
        store.apply(Batch::of(vec![], vec![Write::put(Space::Kv, b"two", b"value")]), durability).await.unwrap();
        drop(store);
        let segment = segments(&folder).remove(0);
        let mut frames = std::fs::read(&segment).unwrap();
        let used = used_sectors(&segment) * 512;
        frames[used - 512..used].fill(0);
        std::fs::write(&segment, frames).unwrap();
        let refused = try_open(&folder).expect_err("a frame that is gone was not missed");
        assert!(matches!(&refused, OpenError::Damaged { damage, .. } if damage.sequences == Some((2, 2))), "{refused}");
    }
}

#[tokio::test]
async fn a_tree_is_not_set_aside_for_a_damaged_journal() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    flip(&segments(&folder)[0], 512 + 2 * 1_024 + 300);
    flip(&path.join("conf"), 10);
    for _ in 0..2 {
        assert!(matches!(try_open(&folder), Err(OpenError::Damaged { .. })));
        assert!(path.join("db").exists() && !path.join("aside").exists(), "the last copy may have moved");
    }
}

/// The variable with the number of stores that [`no_damage_to_any_file_is_silent`] damages.
/// `cargo xtask damage` sets a higher one.
const ROUNDS: &str = "TOLLHOUSE_DAMAGE_ROUNDS";

/// A kind of damage to a file.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Flip,
    Cut,
    /// Some sectors become zeros.
    Zeros,
    /// Some sectors become a copy of other sectors of the file, often of the first ones, as after a
    /// write to the wrong place.
    Misdirected,
}

impl Harm {
    const ALL: [Self; 4] = [Self::Flip, Self::Cut, Self::Zeros, Self::Misdirected];

    /// Damages a file at a random place. Returns a description.
    fn strike(self, file: &Path, chance: &mut Chance) -> String {
        let mut bytes = std::fs::read(file).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        let at = chance.below(used);
        let (sector, some) = (at / 512 * 512, 512 * (1 + chance.below(128)));
        match self {
            Self::Flip => bytes[at] ^= 0xff,
            Self::Cut => bytes.truncate(at),
            Self::Zeros => {
                let end = bytes.len().min(sector + some);
                bytes[sector..end].fill(0);
            }
            Self::Misdirected => {
                // The place may be after the used part.
                let to = chance.below(bytes.len()) / 512 * 512;
                let from = if chance.below(2) == 0 { 0 } else { sector };
                let length = some.min(bytes.len() - to).min(bytes.len() - from);
                bytes.copy_within(from..from + length, to);
                std::fs::write(file, bytes).unwrap();
                return format!("{length} bytes of {} from {from} to {to}", file.display());
            }
        }
        std::fs::write(file, bytes).unwrap();
        format!("{} at {at}, {self:?}", file.display())
    }
}

/// Random damage anywhere in any file. All acknowledged rows are there, or the damage is reported.
/// A repair that can use the tree loses none of them.
#[tokio::test]
async fn no_damage_to_any_file_is_silent() {
    #[expect(clippy::disallowed_methods, reason = "how the long form asks for more")]
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(25);
    let mut chance = Chance::seeded();
    let folder = folder();
    let path = folder.path().join("store");
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 64 * 1024, ..SledConfig::default() };
    let store = SledStore::open(&path, config).unwrap();
    let written = path.join("archive");
    let mut n = 0;
    while !written.exists() || n < 200 {
        let writes = vec![Write::put(Space::Receipts, key(n), bytes(n % 1_400)), Write::put(Space::Credits, key(n % 5), bytes(n % 99))];
        store.apply(Batch::of(vec![], writes), Durable).await.unwrap();
        n += 1;
    }
    let (receipts, credits) = (all(&store, Space::Receipts).await, all(&store, Space::Credits).await);
    if chance.below(2) == 0 {
        // The tree is in its own folder, and a file names that folder.
        store.renew().await.unwrap();
    }
    drop(store);
    let stored = folder.path().join("kept");
    copy(&path, &stored);
    let (mut repaired, mut opened) = (0, 0);
    for round in 0..rounds {
        std::fs::remove_dir_all(&path).unwrap();
        copy(&stored, &path);
        let mut files = files_of(&path);
        files.retain(|file| file.metadata().unwrap().len() > 0);
        let file = &files[chance.below(files.len())];
        let story = Harm::ALL[round % Harm::ALL.len()].strike(file, &mut chance);
        let store = match try_open(&folder) {
            Ok(store) => {
                opened += 1;
                store
            }
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged { .. }), "{story}: {error}");
                check(&path, &SledConfig::default()).unwrap_or_else(|error| panic!("{story}: {error}"));
                let planned = repair(&path, &SledConfig::default()).unwrap_or_else(|error| panic!("{story}: {error}"));
                assert!(planned.dropped.len() <= n, "{story}: more frames than were written");
                planned.perform().unwrap_or_else(|error| panic!("{story}: {error}"));
                let after = check(&path, &SledConfig::default()).unwrap_or_else(|error| panic!("{story}: {error}"));
                assert!(after.damages.is_empty() && after.archive.is_none(), "{story}: {after:?}");
                repaired += 1;
                try_open(&folder).unwrap_or_else(|error| panic!("{story}: {error}"))
            }
        };
        assert!(all(&store, Space::Receipts).await == receipts, "{story}");
        assert!(all(&store, Space::Credits).await == credits, "{story}");
    }
    println!("{opened} opened with all there was, {repaired} were refused by name and repaired");
}

/// The first sector of a segment contains the segment's number. Copied elsewhere, it must not be
/// read as the number of a frame.
#[tokio::test]
async fn repair_ignores_impossible_sequence_numbers() {
    for length in [4 << 10, 16 << 10, 64 << 10] {
        let folder = folder();
        six(&folder).await;
        let path = folder.path().join("store");
        let segment = segments(&folder).remove(0);
        let mut frames = std::fs::read(&segment).unwrap();
        frames.copy_within(0..length, 100_352);
        std::fs::write(&segment, frames).unwrap();
        let refused = try_open(&folder).unwrap_err();
        assert!(matches!(&refused, OpenError::Damaged { damage, .. } if damage.offset == Some(100_352)), "{refused}");
        let planned = repair(&path, &SledConfig::default()).unwrap();
        assert_eq!((planned.retained, planned.dropped_frames()), (6, planned.dropped.len() as u64), "{:?}", planned.damages);
        assert!(planned.last <= 7, "{}", planned.last);
        planned.perform().unwrap();
        assert_eq!(receipts(&folder).await, 6);
    }
    // Without the tree, only the journal up to the damage is left.
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    let segment = segments(&folder).remove(0);
    let mut frames = std::fs::read(&segment).unwrap();
    frames.copy_within(0..512, 512 + 2 * 1_024);
    std::fs::write(&segment, frames).unwrap();
    std::fs::remove_file(path.join("db")).unwrap();
    let planned = repair(&path, &SledConfig::default()).unwrap();
    assert_eq!((planned.retained, planned.last), (2, 6), "{:?}", planned.damages);
    planned.perform().unwrap();
    assert_eq!(receipts(&folder).await, 2);
}

/// The tree has all rows. The host starts, reports the damage, and writes another checkpoint.
#[tokio::test]
async fn damaged_checkpoint_is_named_at_the_start_and_yields_to_another() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    let store = open(&folder);
    fill(&store, 200).await;
    store.compact().await.unwrap();
    let rows = (all(&store, Space::Receipts).await, all(&store, Space::Kv).await);
    assert_eq!(store.sizes().damage, None);
    drop(store);
    for harm in [Harm::Flip, Harm::Cut, Harm::Zeros] {
        let checkpoints = files_of(&path.join("checkpoint"));
        let [checkpoint] = &checkpoints[..] else { panic!("{checkpoints:?}") };
        let mut bytes = std::fs::read(checkpoint).unwrap();
        let middle = bytes.len() / 1_024 * 512;
        match harm {
            Harm::Cut => bytes.truncate(middle),
            Harm::Zeros => bytes[middle..middle + 512].fill(0),
            Harm::Flip | Harm::Misdirected => bytes[middle + 100] ^= 1,
        }
        std::fs::write(checkpoint, bytes).unwrap();
        let store = open(&folder);
        let reported = store.sizes().damage.unwrap_or_else(|| panic!("{harm:?}: it is not reported"));
        assert!(reported.contains(&checkpoint.display().to_string()), "{reported}");
        until(|| store.sizes().damage.is_none()).await;
        assert!((all(&store, Space::Receipts).await, all(&store, Space::Kv).await) == rows, "{harm:?}");
        drop(store);
        assert_eq!(check(&path, &SledConfig::default()).unwrap().damages, []);
    }
}

/// Makes six commits of one receipt each, in frames 1 to 6.
async fn six(folder: &TempDir) {
    let store = open(folder);
    for n in 1..=6_u8 {
        store.apply(Batch::of(vec![], vec![Write::put(Space::Receipts, [n], bytes(700))]), Durable).await.unwrap();
    }
}

async fn receipts(folder: &TempDir) -> usize {
    all(&open(folder), Space::Receipts).await.len()
}

#[tokio::test]
async fn a_repair_takes_from_the_tree_what_the_journal_lost() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    flip(&segments(&folder)[0], 512 + 2 * 1_024 + 300);
    let checked = check(&path, &SledConfig::default()).unwrap();
    assert_eq!(checked.damages[0].sequences, Some((3, 3)), "{:?}", checked.damages);
    let planned = repair(&path, &SledConfig::default()).unwrap();
    assert_eq!((planned.retained, planned.last, planned.dropped.len()), (6, 6, 0));
    drop(planned);
    assert!(matches!(try_open(&folder), Err(OpenError::Damaged { .. })), "a plan has changed something");
    let repaired = repair(&path, &SledConfig::default()).unwrap().perform().unwrap();
    assert!(repaired.aside.join("00000000000000000001.journal").exists());
    assert_eq!((receipts(&folder).await, receipts(&folder).await), (6, 6));
    assert!(check(&path, &SledConfig::default()).unwrap().damages.is_empty());
}

#[tokio::test]
async fn a_repair_says_which_rows_it_drops() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    flip(&segments(&folder)[0], 512 + 2 * 1_024 + 300);
    std::fs::remove_file(path.join("db")).unwrap();
    let planned = repair(&path, &SledConfig::default()).unwrap();
    assert_eq!((planned.retained, planned.last), (2, 6));
    let frames: Vec<_> = planned.dropped.iter().map(|(frame, rows)| (*frame, rows.is_some())).collect();
    assert_eq!(frames, [(3, false), (4, true), (5, true), (6, true)]);
    assert_eq!(planned.dropped[3].1.as_deref(), Some(&["RECEIPTS `\\x06`".to_owned()][..]));
    planned.perform().unwrap();
    assert_eq!(receipts(&folder).await, 2);
    put(&open(&folder), Space::Receipts, b"later", b"value").await;
    flip(&path.join("conf"), 10);
    assert_eq!(receipts(&folder).await, 3);
}

#[tokio::test]
async fn repair_of_a_healthy_store_drops_nothing() {
    let folder = folder();
    six(&folder).await;
    let planned = repair(&folder.path().join("store"), &SledConfig::default()).unwrap();
    assert_eq!((planned.damages.len(), planned.dropped.len()), (0, 0));
}

#[tokio::test]
async fn missing_journal_is_restarted_from_the_tree() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    std::fs::remove_dir_all(path.join("journal")).unwrap();
    std::fs::create_dir(path.join("journal")).unwrap();
    assert!(matches!(try_open(&folder), Err(OpenError::Damaged { .. })));
    repair(&path, &SledConfig::default()).unwrap().perform().unwrap();
    assert_eq!(receipts(&folder).await, 6);
}

fn used_sectors(segment: &Path) -> usize {
    std::fs::read(segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap() / 512 + 1
}

#[tokio::test]
async fn a_repair_without_tree_and_checkpoint_sends_to_the_backup_alone() {
    let folder = folder();
    six(&folder).await;
    let path = folder.path().join("store");
    flip(&segments(&folder)[0], 512 + 2 * 1_024 + 300);
    drop(repair(&path, &SledConfig::default()).unwrap().perform().unwrap());
    let checkpoint = files_of(&path.join("checkpoint")).pop().unwrap();
    flip(&checkpoint, 700);
    std::fs::remove_dir_all(path.join("blobs")).ok();
    std::fs::remove_file(path.join("db")).unwrap();
    let refused = repair(&path, &SledConfig::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Unrepairable { .. }), "{refused}");
    assert!(refused.to_string().contains("Restore the newest backup") && !refused.to_string().contains("would drop"), "{refused}");
}
