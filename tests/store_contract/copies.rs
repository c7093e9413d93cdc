//! Copies: all rows at one moment while others write, in a file in which any damage is detected,
//! and in another store.

use std::{
    io::Cursor,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use tokio::sync::mpsc;
use tollhouse::store::{
    CopyPage,
    dump::{DumpError, DumpReader, DumpWriter},
    import::{self, FillError, Importer},
};

use super::harness::*;

/// Returns all pages of a copy.
async fn pages(store: &dyn Store) -> Vec<CopyPage> {
    let (hand, mut pages) = mpsc::channel(2);
    let taking = async {
        let mut taken = Vec::new();
        while let Some(page) = pages.recv().await {
            taken.push(page);
        }
        taken
    };
    let (copied, taken) = tokio::join!(store.copy(hand), taking);
    copied.unwrap();
    assert!(matches!(taken.last(), Some(CopyPage::End(_))));
    taken
}

/// Fills an empty in-memory store from a copy, and checks it against the totals of the copy.
async fn filled(pages: Vec<CopyPage>) -> Result<Arc<dyn Store>, FillError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    fill_with(&store, pages).await.map(|()| store)
}

async fn fill_with(store: &Arc<dyn Store>, pages: Vec<CopyPage>) -> Result<(), FillError> {
    let mut filler = Importer::new(Arc::clone(store));
    for page in pages {
        let end = if let CopyPage::End(sums) = &page { Some(**sums) } else { None };
        filler.take(page).await?;
        if let Some(sums) = end {
            return filler.settle(&sums).await;
        }
    }
    panic!("a copy without an end");
}

async fn rows(store: &dyn Store) -> Vec<(Space, KeyValues)> {
    let mut rows = Vec::new();
    for space in Space::ALL {
        rows.push((space, store.scan(space, KeyRange::all(), usize::MAX, Forward).await.unwrap()));
    }
    rows
}

/// Writes rows of several spaces, small and large ones, and replaces or deletes some of them.
async fn some_rows(store: &impl Store) {
    fill(store, 300).await;
    for (round, size) in [0, 1, 5_000, 300_000, 20].into_iter().enumerate() {
        for space in [Space::Meta, Space::Receipts, Space::Sessions] {
            put(store, space, &key(round % 3), &bytes_of(round, size)).await;
        }
    }
    put(store, Space::Receipts, b"gone", b"gone").await;
    delete(store, Space::Receipts, b"gone").await;
    store.apply(Batch::new(), Durable).await.unwrap();
}

pub async fn a_copy_holds_every_row_and_fills_another_store(store: impl Store) {
    some_rows(&store).await;
    let copy = filled(pages(&store).await).await.unwrap();
    assert_eq!(rows(&*copy).await, rows(&store).await);
}

pub async fn a_store_is_filled_with_what_a_copy_holds_and_nothing_else(store: impl Store) {
    let from = MemoryStore::new();
    some_rows(&from).await;
    let store: Arc<dyn Store> = Arc::new(store);
    assert!(import::is_empty(&*store).await.unwrap());
    fill_with(&store, pages(&from).await).await.unwrap();
    assert!(!import::is_empty(&*store).await.unwrap());
    assert_eq!(rows(&*store).await, rows(&from).await);

    // An additional row, a missing row, a different value: each is detected, and its space is
    // named.
    let answer = pages(&from).await;
    let write = |write| store.apply(Batch::of(vec![], vec![write]), Durable);
    for wrong in [Write::put(Space::Kv, b"more", b""), Write::delete(Space::Kv, key(7)), Write::put(Space::Kv, key(8), b"another")] {
        let was = store.get(Space::Kv, &wrong.key).await.unwrap();
        write(wrong.clone()).await.unwrap();
        let Some(CopyPage::End(sums)) = answer.last() else { unreachable!() };
        let settled = Importer::new(Arc::clone(&store)).settle(sums).await;
        assert!(matches!(settled, Err(FillError::Differs(spaces)) if spaces == [Space::Kv]), "{wrong:?}");
        write(Write { value: was, ..wrong }).await.unwrap();
    }
    import::clear(&*store).await.unwrap();
    assert!(import::is_empty(&*store).await.unwrap());
}

/// Sequential commits each write one row in the first and one in the last space. A copy has the
/// rows of the first commits up to some number, and no half commit.
pub async fn copy_under_commits_is_consistent(store: impl Store) {
    fill(&store, 2_000).await;
    let (store, ended) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    let writing = tokio::spawn({
        let (store, ended) = (Arc::clone(&store), Arc::clone(&ended));
        async move {
            let mut n = 0;
            while !ended.load(SeqCst) {
                let ends =
                    [Space::Meta, Space::Kv, Space::Sessions].map(|space| Write::put(space, [b"n".as_slice(), &key(n)].concat(), b""));
                let last = [Space::Meta, Space::Sessions].map(|space| Write::put(space, b"last", key(n)));
                let kv = [Write::delete(Space::Kv, key(n % 2_000)), Write::put(Space::Kv, key(2_000 + n), bytes(n % 100))];
                let writes = ends.into_iter().chain(last).chain(kv).collect();
                store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
                n += 1;
            }
            n
        }
    });
    let mut found = Vec::new();
    // On a loaded machine, five copies can be done before the second commit.
    while found.len() < 5 || found.len() < 500 && found.first() == found.last() {
        let copy = filled(pages(&*store).await).await.unwrap();
        let numbered = |pairs: KeyValues| pairs.into_iter().filter(|(key, _)| key.len() == 5).map(|(key, _)| key).collect::<Vec<_>>();
        let [first, middle, last] = [Space::Meta, Space::Kv, Space::Sessions].map(|space| {
            let copy = Arc::clone(&copy);
            async move { numbered(copy.scan(space, KeyRange::prefix(b"n"), usize::MAX, Forward).await.unwrap()) }
        });
        let (first, middle, last) = (first.await, middle.await, last.await);
        let count = first.len();
        assert_eq!(first, (0..count).map(|n| [b"n".as_slice(), &key(n)].concat()).collect::<Vec<_>>(), "the first so many");
        assert_eq!((middle.len(), last.len()), (count, count), "each whole");
        for space in [Space::Meta, Space::Sessions] {
            let newest = copy.get(space, b"last").await.unwrap();
            assert_eq!(newest.as_deref(), count.checked_sub(1).map(key).as_ref().map(|key| &key[..]));
        }
        found.push(count);
    }
    ended.store(true, SeqCst);
    let written = writing.await.unwrap();
    assert!(found.is_sorted() && found.last() > found.first() && found.last() <= Some(&written), "{found:?} of {written}");
}

/// Returns a dump of these pages.
fn dump(pages: &[CopyPage]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut dump = DumpWriter::begin(&mut bytes, &serde_json::json!({ "of": "a test" })).unwrap();
    pages.iter().for_each(|page| dump.page(page).unwrap());
    drop(dump);
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<CopyPage>, DumpError> {
    let mut dump = DumpReader::begin(Cursor::new(bytes))?;
    let mut pages = Vec::new();
    while let Some(page) = dump.next_page()? {
        pages.push(page);
    }
    assert_eq!(dump.header()["of"], "a test");
    Ok(pages)
}

pub async fn a_dump_is_read_as_it_was_written(store: impl Store) {
    some_rows(&store).await;
    let pages = pages(&store).await;
    let from_dump = filled(read(&dump(&pages)).unwrap()).await.unwrap();
    assert_eq!(rows(&*from_dump).await, rows(&store).await);
}

/// Tests pages with and without changes that commits made during the walk.
#[tokio::test]
async fn any_byte_of_a_dump_that_is_another_is_found() {
    let store = MemoryStore::new();
    for n in 0..3 {
        put(&store, Space::Kv, &key(n), &bytes(n * 9)).await;
        put(&store, Space::Receipts, &key(n), &bytes(n)).await;
    }
    let whole = pages(&store).await;
    let [rows, end] = &whole[..] else { panic!("{whole:?}") };
    let changes = CopyPage::Changes(vec![Write::put(Space::Kv, key(0), bytes(0)), Write::delete(Space::Logs, b"none")]);
    for pages in [vec![rows.clone(), end.clone()], vec![rows.clone(), changes, end.clone()]] {
        let sound = dump(&pages);
        assert_eq!(read(&sound).unwrap().last(), Some(end));
        for at in 0..sound.len() {
            for flipped in [0x01, 0x40, 0xff] {
                let mut damaged = sound.clone();
                damaged[at] ^= flipped;
                assert!(read(&damaged).is_err(), "byte {at} of {}, {flipped:x}", sound.len());
            }
            assert!(read(&sound[..at]).is_err(), "cut off at {at}");
        }
        assert!(read(&[&sound[..], b"0"].concat()).is_err(), "something behind it");
    }
}
