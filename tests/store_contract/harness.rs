//! Helpers of the tests: bytes and values of all sizes, and stores to test.

pub use std::{collections::BTreeMap, ops::Bound, sync::Arc};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use tempfile::TempDir;
pub use tollhouse::store::{
    Add, Batch, Check, CommittedChange, Counter, DeclaredTable, Direction, Durability, IndexEntry, KeyRange, KeyValues, MAX_CHANGES,
    MAX_KEY_BYTES, MAX_VALUE_BYTES, Space, SpaceSize, Store, StoreError, SumLimit, Table, TablePlan, TerminatedText, Write,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    postgres::{PostgresConfig, PostgresStore},
    sled::{OpenError, SledConfig, SledStore},
};

pub use Direction::{Backward, Forward};
pub use Durability::{Buffered, Durable};

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub fn open(folder: &TempDir) -> SledStore {
    SledStore::open(folder.path().join("store"), SledConfig::default()).unwrap()
}

/// Opens a store in its own schema.
pub async fn in_database() -> PostgresStore {
    at(&super::postgres::Postgres::shared().schema().await).await
}

/// Opens the store at this address.
pub async fn at(address: &str) -> PostgresStore {
    PostgresStore::open(PostgresConfig::new(address, None).unwrap()).await.unwrap()
}

pub async fn put(store: &impl Store, space: Space, key: &[u8], value: &[u8]) {
    store.apply(Batch::of(vec![], vec![Write::put(space, key, value)]), Buffered).await.unwrap();
}

pub async fn delete(store: &impl Store, space: Space, key: &[u8]) {
    store.apply(Batch::of(vec![], vec![Write::delete(space, key)]), Buffered).await.unwrap();
}

pub async fn all(store: &impl Store, space: Space) -> KeyValues {
    store.scan(space, KeyRange::all(), usize::MAX, Forward).await.unwrap()
}

pub async fn fill(store: &impl Store, count: usize) {
    let writes = (0..count).map(|n| Write::put(Space::Kv, key(n), bytes(n))).collect();
    store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
}

pub async fn number(store: &impl Store, key: &[u8]) -> u64 {
    let value = store.get(Space::Kv, key).await.unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

pub async fn increment(store: &impl Store, key: &[u8], durability: Durability) {
    loop {
        let before = store.get(Space::Kv, key).await.unwrap();
        let after = before.clone().map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap())) + 1;
        let check = Check { space: Space::Kv, key: key.to_vec(), expected: before.map(Into::into) };
        match store.apply(Batch::of(vec![check], vec![Write::put(Space::Kv, key, after.to_be_bytes())]), durability).await {
            Ok(_) => return,
            Err(StoreError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn names(pairs: &KeyValues) -> Vec<&[u8]> {
    pairs.iter().map(|(key, _)| &key[..]).collect()
}

pub fn key(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap().to_be_bytes()
}

pub fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 + n / 251 + size) as u8).collect()
}

/// Returns `size` bytes, all equal to the round.
pub fn bytes_of(round: usize, size: usize) -> Vec<u8> {
    vec![u8::try_from(round).unwrap(); size]
}

pub fn try_open(folder: &TempDir) -> Result<SledStore, OpenError> {
    SledStore::open(folder.path().join("store"), SledConfig::default())
}

/// Opens the tree of a closed store, which releases its lock a moment later.
pub fn tree_of(path: &Path) -> ::sled::Db {
    let tree = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        ::sled::open(path).ok()
    });
    tree.unwrap()
}

pub fn segments(folder: &TempDir) -> Vec<PathBuf> {
    let mut found = files_of(&folder.path().join("store/journal"));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "journal"));
    found.sort();
    found
}

pub fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_of(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in files_of(from) {
        let copied = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(copied.parent().unwrap()).unwrap();
        std::fs::copy(&file, copied).unwrap();
    }
}

pub fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

/// Polls a condition that work in the background fulfills. Panics if it takes longer than a minute.
pub async fn until(is_so: impl Fn() -> bool) {
    until_async(async || is_so()).await;
}

/// The same, for a condition that is itself asynchronous.
pub async fn until_async(is_so: impl AsyncFn() -> bool) {
    for _ in 0..3_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the condition is not fulfilled within a minute");
}
