//! Tests with several owners: who waits for whom, and what is in memory meanwhile.

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tollhouse_base::id::BuilderId;

use super::*;
use crate::testing::settled;

/// An object store in which each write or read needs a permit.
#[derive(Default)]
struct Slow {
    heap: Heap,
    permits: Option<Semaphore>,
    started: AtomicU64,
}

impl Slow {
    async fn turn(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
        if let Some(go) = &self.permits {
            go.acquire().await.unwrap().forget();
        }
    }
}

#[async_trait]
impl Bucket for Slow {
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()> {
        self.turn().await;
        self.heap.put(name, content).await
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        self.turn().await;
        self.heap.get(name).await
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.heap.delete(name).await
    }
}

struct Slowed {
    objects: Arc<Slow>,
    files: Files,
    limits: Limits,
}

impl Slowed {
    fn new() -> Self {
        let objects = Arc::new(Slow { permits: Some(Semaphore::new(0)), ..Slow::default() });
        let store = Arc::new(MemoryStore::new());
        let files = Files::new(store.clone(), Clock::default(), Objects::new(store, Clock::default(), objects.clone()));
        Self { objects, files, limits: Limits::default() }
    }

    fn write<'a>(&'a self, owner: &Owner, endpoint: &EndpointId) -> impl Future<Output = Result<OpValue, OpFailure>> + use<'a> {
        self.files.scoped(owner, endpoint, &self.limits).write("f".into(), Bytes::from_static(b"f"))
    }

    fn started(&self) -> u64 {
        self.objects.started.load(Ordering::Relaxed)
    }

    /// Polls all futures, and lets background tasks run as far as they can.
    async fn poll<F: Future + Unpin>(&self, all: &mut [F]) {
        for _ in 0..8 {
            all.iter_mut().for_each(|one| assert!(one.now_or_never().is_none()));
            tokio::task::yield_now().await;
        }
    }

    fn release(&self, some: usize) {
        self.objects.permits.as_ref().unwrap().add_permits(some);
    }
}

fn builder() -> Owner {
    Owner::Builder(BuilderId::generate())
}

#[tokio::test]
async fn syncs_of_one_owner_at_full_rate_leave_the_next_to_another() {
    let (host, greedy, other) = (Slowed::new(), builder(), builder());
    let endpoints: Vec<_> = (0..2 * CHANGES).map(|_| EndpointId::generate()).collect();
    let mut flood: Vec<_> = endpoints.iter().map(|endpoint| Box::pin(host.write(&greedy, endpoint))).collect();
    host.poll(&mut flood).await;
    assert_eq!(host.started(), CHANGES as u64);
    let mut one = [Box::pin(host.write(&other, &EndpointId::generate()))];
    host.poll(&mut one).await;
    // First one of the flood's writes ends, then all that are in progress, among them the other owner's.
    host.release(1 + CHANGES);
    let [one] = one;
    one.await.unwrap();
    host.release(flood.len());
    for write in flood {
        write.await.unwrap();
    }
}

#[tokio::test]
async fn calls_that_are_stopped_hold_no_more_content_than_is_in_flight() {
    let (host, owner) = (Slowed::new(), builder());
    for _ in 0..5 {
        let endpoints: Vec<_> = (0..CHANGES).map(|_| EndpointId::generate()).collect();
        let mut stopped: Vec<_> = endpoints.iter().map(|endpoint| Box::pin(host.write(&owner, endpoint))).collect();
        host.poll(&mut stopped).await;
        drop(stopped);
    }
    host.release(5 * CHANGES);
    host.files.finish().await;
    assert_eq!(host.started(), CHANGES as u64, "queued ops are dropped with their call");
}

#[tokio::test]
async fn contents_are_read_a_few_at_once_and_owners_take_turns() {
    let ended = Arc::new(Mutex::new(vec![]));
    let (host, greedy, other) = (Slowed::new(), builder(), builder());
    let [endpoint, own] = [(); 2].map(|()| EndpointId::generate());
    host.release(2);
    host.write(&greedy, &endpoint).await.unwrap();
    host.write(&other, &own).await.unwrap();
    let read = |name: &'static str, owner: &Owner, endpoint: &EndpointId| {
        let (files, ended) = (host.files.scoped(owner, endpoint, &host.limits), Arc::clone(&ended));
        tokio::spawn(async move {
            files.read("f".into()).await.unwrap();
            ended.lock().unwrap().push(name);
        })
    };
    let mut all: Vec<_> = (0..5 * READS).map(|_| read("greedy", &greedy, &endpoint)).collect();
    settled().await;
    assert_eq!(host.started(), 2 + READS as u64);
    all.push(read("other", &other, &own));
    settled().await;
    host.release(all.len());
    for read in all {
        read.await.unwrap();
    }
    let position = ended.lock().unwrap().iter().position(|owner| *owner == "other").unwrap();
    // Only those that were in progress, and those that began with it, come first.
    assert!(position < 2 * READS, "{position}");
}

#[tokio::test]
async fn file_of_a_limit_that_was_lowered_is_not_read() {
    let (host, endpoint, limits) = (Host::new(), EndpointId::generate(), Limits::default());
    let files = |file_bytes| host.files[0].scoped(&Owner::Platform, &endpoint, &Limits { file_bytes, ..limits });
    files(limits.file_bytes).write("f".into(), Bytes::from_static(b"12345")).await.unwrap();
    let refused = files(4).read("f".into()).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.message.as_str()), ("quota_exceeded", "the file has 5 bytes, and the maximum is 4"));
    assert_eq!(files(5).read("f".into()).await.unwrap(), OpValue::Bytes(Bytes::from_static(b"12345")));
    files(4).delete("f".into()).await.unwrap();
}
