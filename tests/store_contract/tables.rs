//! Tables, their indexes, and updates.

use tollhouse::store::{Formatted, TextPrefix, Tx, UpdatePlan, update};

use super::harness::*;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Guest {
    name: String,
    room: Option<u32>,
}

impl Formatted for Guest {
    fn write(&self, out: &mut Vec<u8>) {
        tollhouse::store::write_json(self, out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

const fn plan(name: &'static str, prefix: &'static str) -> TablePlan {
    TablePlan { name, space: Space::Builders, prefix, key: "", index_of: "", followed: true }
}

const BY_ROOM: DeclaredTable<(u32, String)> = DeclaredTable::new(const { &plan("BY_ROOM", "r/") });
const GUESTS: Table<(TerminatedText<String>, u32), Guest> = DeclaredTable::new(const { &plan("GUESTS", "g/") }).indexed(&[by_room]);
const ROOMS: Table<(u32, String), ()> = BY_ROOM.holding();
const NUMBERS: Table<String, String> = DeclaredTable::new(const { &plan("NUMBERS", "n/") }).holding();

fn by_room(_: &(TerminatedText<String>, u32), guest: &Guest) -> Option<IndexEntry> {
    guest.room.map(|room| BY_ROOM.entry(&(room, guest.name.clone()), &()))
}

fn at(house: &str, number: u32) -> (TerminatedText<String>, u32) {
    (TerminatedText(house.to_owned()), number)
}

fn guest(name: &str, room: Option<u32>) -> Guest {
    Guest { name: name.to_owned(), room }
}

async fn insert(store: &impl Store, house: &str, number: u32, room: Option<u32>) {
    let mut batch = Batch::new();
    batch.insert(&GUESTS, &at(house, number), &guest(&format!("{house}{number}"), room));
    batch.commit(store, Buffered).await.unwrap();
}

async fn rooms(store: &impl Store) -> Vec<(u32, String)> {
    ROOMS.page(store, &ROOMS.all(), 100, Forward).await.unwrap().into_iter().map(|row| row.key).collect()
}

pub async fn rows_are_read_as_they_were_put(store: impl Store) {
    assert_eq!(GUESTS.get(&store, &at("a", 1)).await.unwrap(), None);
    insert(&store, "a", 1, Some(7)).await;
    assert_eq!(GUESTS.get(&store, &at("a", 1)).await.unwrap(), Some(guest("a1", Some(7))));
    let mut batch = Batch::new();
    batch.insert(&GUESTS, &at("a", 1), &guest("twin", None));
    assert!(matches!(batch.commit(&store, Buffered).await, Err(StoreError::Conflict)), "one is there");
    let changes = store.changes(0, 10).await.unwrap().changes;
    assert_eq!(changes.iter().flat_map(|change| GUESTS.changed(change)).collect::<Vec<_>>(), [at("a", 1)]);
}

pub async fn rows_that_do_not_read_are_reported(store: impl Store) {
    put(&store, Space::Builders, b"g/a\0\0\0\0\x02", b"\xf5\x09of a later version").await;
    let Err(StoreError::Away(reported)) = GUESTS.get(&store, &at("a", 2)).await else { panic!("it reads") };
    assert!(reported.contains("GUESTS"), "{reported}");
    put(&store, Space::Builders, b"g/no end", b"{}").await;
    assert!(GUESTS.page(&store, &GUESTS.all(), 10, Forward).await.is_err());
    assert_eq!(<String as tollhouse::store::Value>::of_bytes(b"\xf5\x09x"), None);
}

pub async fn ranges_are_of_one_table_and_start(store: impl Store) {
    for (house, number) in [("a", 1), ("a", 2), ("a", 3), ("ab", 1), ("b", 1)] {
        insert(&store, house, number, None).await;
    }
    put(&store, Space::Builders, b"f", b"").await;
    put(&store, Space::Builders, b"h", b"").await;
    let names = async |range, limit, direction| {
        let rows = GUESTS.page(&store, &range, limit, direction).await.unwrap();
        rows.into_iter().map(|row| row.value.name).collect::<Vec<_>>()
    };
    let of = |house: &str| TerminatedText(house.to_owned());
    assert_eq!(names(GUESTS.all(), 9, Forward).await, ["a1", "a2", "a3", "ab1", "b1"]);
    assert_eq!(names(GUESTS.under(&of("a")), 9, Forward).await, ["a1", "a2", "a3"]);
    assert_eq!(names(GUESTS.under(&of("a")), 2, Backward).await, ["a3", "a2"]);
    assert_eq!(names(GUESTS.under(&of("a")).after(&at("a", 1)), 9, Forward).await, ["a2", "a3"]);
    assert_eq!(names(GUESTS.under(&of("a")).from(&at("a", 2)).before(&at("a", 3)), 9, Forward).await, ["a2"]);
    assert_eq!(names(GUESTS.under(&of("a")).up_to(&at("a", 2)), 9, Forward).await, ["a1", "a2"]);
    assert_eq!(names(GUESTS.all().behind(&of("a")), 9, Forward).await, ["ab1", "b1"]);
    assert!(GUESTS.under(&of("a")).from(&at("b", 1)).is_empty());
    assert_eq!(GUESTS.count(&store, &GUESTS.all(), 100).await.unwrap(), 5);
    assert_eq!(GUESTS.count(&store, &GUESTS.under(&of("ab")), 100).await.unwrap(), 1);
}

pub async fn entries_of_an_index_go_with_their_rows(store: impl Store) {
    insert(&store, "a", 1, Some(7)).await;
    insert(&store, "a", 2, None).await;
    assert_eq!(rooms(&store).await, [(7, "a1".to_owned())]);
    for (room, requested) in [(Some(8), Some(8)), (Some(8), Some(8)), (None, None), (Some(2), Some(2))] {
        let row = GUESTS.row(&store, &at("a", 1)).await.unwrap().unwrap();
        let mut batch = Batch::new();
        batch.replace(&GUESTS, &row, &guest("a1", room));
        batch.commit(&store, Buffered).await.unwrap();
        assert_eq!(rooms(&store).await, requested.map(|room| (room, "a1".to_owned())).into_iter().collect::<Vec<_>>());
    }
    let row = GUESTS.row(&store, &at("a", 1)).await.unwrap().unwrap();
    let mut batch = Batch::new();
    batch.remove(&GUESTS, &row);
    batch.commit(&store, Buffered).await.unwrap();
    assert_eq!(rooms(&store).await, []);
    assert_eq!(GUESTS.get(&store, &at("a", 1)).await.unwrap(), None);
}

pub async fn a_row_that_changed_is_not_replaced(store: impl Store) {
    insert(&store, "a", 1, None).await;
    let row = GUESTS.row(&store, &at("a", 1)).await.unwrap().unwrap();
    let replace = |name: &str| {
        let mut batch = Batch::new();
        batch.replace(&GUESTS, &row, &guest(name, Some(1)));
        batch
    };
    replace("first").commit(&store, Buffered).await.unwrap();
    assert!(matches!(replace("second").commit(&store, Buffered).await, Err(StoreError::Conflict)));
    let mut batch = Batch::new();
    batch.remove(&GUESTS, &row);
    assert!(matches!(batch.commit(&store, Buffered).await, Err(StoreError::Conflict)));
    assert_eq!(rooms(&store).await, [(1, "first".to_owned())]);
}

async fn counted(tx: &mut Tx<'_>, key: &str) -> Result<u64, StoreError> {
    Ok(tx.get(&NUMBERS, &key.to_owned()).await?.map_or(0, |number| number.parse().unwrap()))
}

pub async fn concurrent_updates_lose_nothing(store: impl Store) {
    let store: Arc<dyn Store> = Arc::new(store);
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..5 {
                    // An update that gave up, because others were faster each time, has no effect.
                    loop {
                        let counting = update(&*store, Durable, |mut tx| async move {
                            let after = counted(&mut tx, "n").await? + 1;
                            tx.put(&NUMBERS, &"n".to_owned(), &after.to_string());
                            tx.answer::<_, StoreError>(after)
                        });
                        match counting.await {
                            Ok(_) => break,
                            Err(error) => assert!(matches!(error, StoreError::Contended), "{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(NUMBERS.get(&*store, &"n".to_owned()).await.unwrap(), Some("320".to_owned()));
}

/// Each of two updates puts its own row only if the other one is absent. Exactly one row exists
/// afterwards.
pub async fn updates_hold_what_they_read(store: impl Store) {
    let store: Arc<dyn Store> = Arc::new(store);
    for round in 0..30 {
        let leave = |own: &'static str, other: &'static str| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let leaving = update(&*store, Durable, |mut tx| async move {
                    if counted(&mut tx, &format!("{round}{other}")).await? == 0 {
                        tx.put(&NUMBERS, &format!("{round}{own}"), &"1".to_owned());
                    }
                    tx.answer::<_, StoreError>(())
                });
                leaving.await.unwrap();
            })
        };
        let (remaining, right) = (leave("left", "right"), leave("right", "left"));
        remaining.await.unwrap();
        right.await.unwrap();
        assert_eq!(NUMBERS.count(&*store, &NUMBERS.under(&TextPrefix(&format!("{round}"))), 9).await.unwrap() % 2, 1);
        let removed: Vec<_> = NUMBERS.page(&*store, &NUMBERS.all(), 9, Forward).await.unwrap();
        let mut batch = Batch::new();
        removed.iter().for_each(|row| _ = batch.remove(&NUMBERS, row));
        batch.commit(&*store, Buffered).await.unwrap();
    }
}

async fn overtaken(mut tx: Tx<'_>) -> Result<UpdatePlan<'_, ()>, StoreError> {
    let before = counted(&mut tx, "n").await?;
    // Another commit is faster.
    let mut other = Batch::new();
    other.put(&NUMBERS, &"n".to_owned(), &(before + 1).to_string());
    other.commit(tx.store(), Buffered).await?;
    tx.put(&NUMBERS, &"mine".to_owned(), &"1".to_owned());
    tx.answer(())
}

pub async fn hopeless_update_gives_up(store: impl Store) {
    let mut tries = 0_u64;
    let busy = |tx| {
        tries += 1;
        overtaken(tx)
    };
    let outcome: Result<(), StoreError> = update(&store, Buffered, busy).await;
    assert!(matches!(outcome, Err(StoreError::Contended)), "{outcome:?}");
    assert!((10..1_000).contains(&tries), "{tries}");
    assert_eq!(NUMBERS.get(&store, &"mine".to_owned()).await.unwrap(), None);
}

pub async fn an_update_that_refuses_writes_nothing(store: impl Store) {
    #[derive(Debug, PartialEq)]
    struct Refused;
    impl From<StoreError> for Refused {
        fn from(error: StoreError) -> Self {
            panic!("{error}")
        }
    }
    let refusing = update(&store, Buffered, |mut tx| async move {
        tx.put(&NUMBERS, &"n".to_owned(), &"1".to_owned());
        Err::<UpdatePlan<'_, ()>, _>(Refused)
    });
    assert_eq!(refusing.await, Err(Refused));
    assert_eq!(all(&store, Space::Builders).await, KeyValues::new());
}
