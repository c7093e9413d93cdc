use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_store::{KeyRange, Space, Value as _, memory::MemoryStore, test_wrappers::InterleavingStore};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::receipt::{PaymentKind, ReceiptDraft, UnsignedReceipt};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY: u64 = 24 * 3_600_000;

struct Fixture {
    memory: Arc<MemoryStore>,
    store: Arc<dyn Store>,
    clock: Clock,
    settings: FreeReceiptSettings,
    free: Arc<FreeReceipts>,
}

impl Fixture {
    async fn keeping(count: u64) -> Self {
        let (memory, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(NOW));
        let store: Arc<dyn Store> = Arc::clone(&memory) as _;
        let settings = FreeReceiptSettings { count, ..FreeReceiptSettings::default() };
        let free = FreeReceipts::new(Arc::clone(&store), clock.clone(), settings);
        Self { memory, store, clock, settings, free }
    }

    async fn restarted(self) -> Self {
        let free = FreeReceipts::new(Arc::clone(&self.store), self.clock.clone(), self.settings);
        Self { free, ..self }
    }

    /// Stores a batch of `count` receipts of calls that began at `at`.
    async fn add(&self, at: Timestamp, count: usize) -> Vec<ReceiptId> {
        let ids: Vec<_> = (0..count).map(|_| ReceiptId::of_time(at)).collect();
        let records: Vec<_> = ids.iter().map(|id| UnsignedReceipt::free(draft(id)).to_bytes()).collect();
        let receipts = ids.iter().zip(records.iter().map(Vec::as_slice));
        FreeReceipts::stored(receipts).commit(&*self.store, Durability::Buffered).await.unwrap();
        ids
    }

    async fn has(&self, id: &ReceiptId) -> bool {
        let Some(stored) = self.free.get(id).await.unwrap() else { return false };
        let record: UnsignedReceipt = serde_json::from_slice(&stored).unwrap();
        assert_eq!((&record.draft.receipt_id, record.kind), (id, PaymentKind::Free));
        true
    }

    async fn how_many(&self, ids: &[ReceiptId]) -> usize {
        let mut found = 0;
        for id in ids {
            found += usize::from(self.has(id).await);
        }
        found
    }

    async fn all(&self, space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.store.scan(space, KeyRange::all(), 100_000, Direction::Forward).await.unwrap()
    }

    /// Counts the stored receipts by a scan.
    async fn counted(&self) -> SpaceSize {
        let packs = self.all(Space::FreeReceipts).await;
        let bytes = packs.iter().map(|(key, pack)| (key.len() + pack.len()) as u64).sum();
        SpaceSize { entries: packs.iter().map(|(_, pack)| Pack::of_bytes(pack).unwrap().items().count() as u64).sum(), bytes }
    }
}

fn draft(id: &ReceiptId) -> ReceiptDraft {
    ReceiptDraft {
        receipt_id: id.clone(),
        slug: "a-tool".parse().unwrap(),
        endpoint_id: EndpointId::generate(),
        version: "v".repeat(71),
        price_usd: MicroUsd::ZERO,
        quote_id: None,
        max_price_usd: None,
        owner: false,
        resource_url: "https://tools.example/tools/a-tool".to_owned(),
        request_hash: "h".repeat(71),
        result_hash: "h".repeat(71),
        streamed: false,
        settle: Default::default(),
        started_at: id.made_at(),
        issued_at: id.made_at(),
    }
}

#[tokio::test]
async fn receipt_is_found_by_id_in_any_batch() {
    let fixture = Fixture::keeping(10_000).await;
    let mut ids = vec![];
    for batch in 0..20 {
        // Calls of one batch began at different times, and those of one time are in several batches.
        for back in [0, 3, 12, 5_000] {
            ids.extend(fixture.add(Timestamp(NOW.0 + batch * 7 - back), 9).await);
        }
    }
    assert_eq!(fixture.how_many(&ids).await, 720);
    assert!(!fixture.has(&ReceiptId::of_time(NOW)).await);
    assert_eq!((fixture.free.size().await, fixture.free.size().await.entries), (fixture.counted().await, 720));
    let fixture = fixture.restarted().await;
    assert_eq!(fixture.free.size().await, fixture.counted().await);
    assert!(fixture.all(Space::FreeReceipts).await.len() < 300, "they share keys");
}

#[tokio::test]
async fn the_oldest_go_when_there_are_too_many() {
    let fixture = Fixture::keeping(100).await;
    let mut ids = vec![];
    for n in 0..40 {
        ids.extend(fixture.add(NOW.plus_millis(n * 1_000), 10).await);
    }
    fixture.free.turn().await.unwrap();
    let remaining = fixture.free.size().await.entries;
    assert!((100..110).contains(&remaining), "{remaining}");
    assert_eq!(fixture.how_many(&ids[300..]).await, 100, "the newest are there");
    assert_eq!(fixture.how_many(&ids[..290]).await, 0);
    assert_eq!(fixture.free.size().await, fixture.counted().await);
    // The count survives a restart.
    let fixture = fixture.restarted().await;
    fixture.add(NOW.plus_millis(100_000), 50).await;
    fixture.free.turn().await.unwrap();
    assert_eq!(fixture.free.size().await, fixture.counted().await);
    assert!((100..110).contains(&fixture.free.size().await.entries));
}

#[tokio::test]
async fn expired_entries_are_removed_however_few_there_are() {
    let fixture = Fixture::keeping(100).await;
    let old = fixture.add(NOW, 5).await;
    let young = fixture.add(NOW.plus_millis(DAY), 5).await;
    fixture.clock.set(NOW.plus_millis(7 * DAY));
    fixture.free.turn().await.unwrap();
    assert_eq!(fixture.how_many(&old).await, 5, "to the very day");
    fixture.clock.set(NOW.plus_millis(7 * DAY + 20));
    fixture.free.turn().await.unwrap();
    assert_eq!((fixture.how_many(&old).await, fixture.how_many(&young).await), (0, 5));
    assert_eq!(fixture.free.size().await, fixture.counted().await);
}

#[tokio::test]
async fn pack_is_removed_only_if_enough_remains() {
    let fixture = Fixture::keeping(100).await;
    let first = fixture.add(NOW, 10).await;
    fixture.add(NOW.plus_millis(1_000), 100).await;
    fixture.free.turn().await.unwrap();
    assert_eq!((fixture.how_many(&first).await, fixture.free.size().await.entries), (0, 100));
    // One too many. The oldest pack, from the last moment that is kept, has more than that.
    fixture.add(NOW.plus_millis(DAY), 1).await;
    fixture.clock.set(NOW.plus_millis(1_000 + 7 * DAY));
    fixture.free.turn().await.unwrap();
    assert_eq!(fixture.free.size().await.entries, 101);
}

#[tokio::test]
async fn hosts_of_one_store_count_together_and_remove_each_receipt_once() {
    let fixture = Fixture::keeping(10).await;
    fixture.free.turn().await.unwrap();
    let open = async |store: Arc<dyn Store>| FreeReceipts::new(store, fixture.clock.clone(), fixture.settings);
    let other = open(Arc::clone(&fixture.store)).await;
    for n in 0..5 {
        fixture.add(NOW.plus_millis(n * 1_000), 10).await;
    }
    assert_eq!((fixture.free.size().await, other.size().await.entries), (other.size().await, 50));
    // Both hosts have read the excess when one of them deletes it.
    let late = open(InterleavingStore::before_commit(1, Arc::clone(&fixture.memory), async move { other.turn().await.unwrap() })).await;
    late.turn().await.unwrap();
    assert_eq!((late.size().await, late.size().await.entries), (fixture.counted().await, 10));
}
