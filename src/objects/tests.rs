use std::{
    collections::BTreeMap,
    future::ready,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    update,
};

use super::*;

const DAY: u64 = 24 * 3_600 * 1_000;

/// An in-memory bucket that can become unavailable.
#[derive(Default)]
struct Heap {
    contents: Mutex<BTreeMap<String, Bytes>>,
    away: AtomicBool,
}

impl Heap {
    fn names(&self) -> Vec<String> {
        self.contents.lock().unwrap().keys().cloned().collect()
    }

    fn answers(&self) -> io::Result<()> {
        if self.away.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

#[async_trait]
impl Bucket for Heap {
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()> {
        // The object may be stored even if the call fails.
        self.contents.lock().unwrap().insert(name.to_owned(), content);
        self.answers()
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        self.answers()?;
        Ok(self.contents.lock().unwrap().get(name).cloned())
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.answers()?;
        self.contents.lock().unwrap().remove(name);
        Ok(())
    }
}

struct Host {
    store: Arc<FaultyStore<MemoryStore>>,
    clock: Clock,
    heap: Arc<Heap>,
    objects: Arc<Objects>,
}

fn host() -> Host {
    let (store, clock, heap) =
        (Arc::new(FaultyStore::new(MemoryStore::new())), Clock::fixed(Timestamp(1_700_000_000_000)), Arc::new(Heap::default()));
    let objects = Objects::new(store.clone(), clock.clone(), heap.clone());
    Host { store, clock, heap, objects }
}

impl Host {
    async fn keeps(&self, promised: &PendingObject) -> bool {
        update(&*self.store, Durability::Durable, async |mut tx| {
            let stored = promised.claim(&mut tx).await?;
            tx.answer::<_, StoreError>(stored)
        })
        .await
        .unwrap()
    }

    fn later(&self, ms: u64) {
        self.clock.set(self.clock.now().plus_millis(ms));
    }

    async fn marks(&self) -> usize {
        OBJECT_ENDS.page(&*self.store, &OBJECT_ENDS.all(), 10, Direction::Forward).await.unwrap().len()
    }
}

#[tokio::test]
async fn an_unreferenced_object_is_deleted_after_a_day() {
    let host = host();
    let (held, remaining) = (host.objects.put("held".into()).await.unwrap(), host.objects.put("left".into()).await.unwrap());
    assert!(host.keeps(&held).await);
    host.later(DAY);
    assert_eq!(host.objects.collect().await.unwrap(), 0, "it is promised for that long");
    host.later(1);
    assert_eq!(host.objects.collect().await.unwrap(), 1);
    assert_eq!(host.heap.names(), [held.name]);
    assert!(!host.keeps(&remaining).await, "a row must not name a deleted object");
    assert_eq!(host.marks().await, 0);
}

#[tokio::test]
async fn a_pause_delays_deletions() {
    let host = host();
    let object = host.objects.put("a".into()).await.unwrap();
    assert!(host.keeps(&object).await);
    let (first, second) = (host.objects.pause_deletions(), host.objects.pause_deletions());
    drop(first);
    let mut batch = Batch::new();
    let ended = host.objects.ends(&mut batch, [object.name.clone()]);
    batch.commit(&*host.store, Durability::Durable).await.unwrap();
    host.objects.discard(ended).await;
    host.later(DAY);
    assert_eq!(host.objects.collect().await.unwrap(), 0);
    assert_eq!((host.heap.names(), host.marks().await), (vec![object.name], 1));
    drop(second);
    assert_eq!(host.objects.collect().await.unwrap(), 1);
    assert_eq!((host.heap.names().len(), host.marks().await), (0, 0));
}

#[tokio::test]
async fn unused_objects_are_deleted_at_once_or_when_the_bucket_is_back() {
    let host = host();
    let objects = [host.objects.put("a".into()).await.unwrap(), host.objects.put("b".into()).await.unwrap()];
    for object in &objects {
        assert!(host.keeps(object).await);
    }
    let mut batch = Batch::new();
    let ended = host.objects.ends(&mut batch, objects.iter().map(|object| object.name.clone()));
    batch.commit(&*host.store, Durability::Durable).await.unwrap();
    host.heap.away.store(true, Ordering::Relaxed);
    host.objects.discard(ended).await;
    assert_eq!((host.heap.names().len(), host.marks().await), (2, 2));
    host.heap.away.store(false, Ordering::Relaxed);
    host.later(1);
    assert_eq!(host.objects.collect().await.unwrap(), 2);
    assert_eq!((host.heap.names().len(), host.marks().await), (0, 0));
}

#[tokio::test]
async fn a_name_is_reserved_before_its_object_is_stored() {
    let host = host();
    host.store.fail_nth(1, Fault::Before);
    assert!(matches!(host.objects.put("a".into()).await, Err(PutError::Store(_))));
    assert!(host.heap.names().is_empty());
    // The bucket has stored it but reports an error.
    host.heap.away.store(true, Ordering::Relaxed);
    assert!(matches!(host.objects.put("a".into()).await, Err(PutError::Bucket(_))));
    host.heap.away.store(false, Ordering::Relaxed);
    assert_eq!(host.heap.names().len(), 1);
    host.later(DAY + 1);
    assert_eq!((host.objects.collect().await.unwrap(), host.heap.names().len()), (1, 0));
}

#[tokio::test]
async fn changed_content_is_reported() {
    let host = host();
    let put = host.objects.put("as it was".into()).await.unwrap();
    assert_eq!(host.objects.get(&put.name, Some(&put.sha256)).await.unwrap().unwrap(), "as it was");
    host.heap.contents.lock().unwrap().insert(put.name.clone(), "as it is".into());
    assert_eq!(host.objects.get(&put.name, Some(&put.sha256)).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(host.objects.get(&put.name, None).await.unwrap().unwrap(), "as it is", "of those from before, nothing is known");
}

#[tokio::test]
async fn a_folder_has_only_objects_with_generated_names() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("secret"), "x").unwrap();
    let stored = ObjectLayout::at(&BucketLocation::Folder(root.path().join("objects"))).unwrap();
    stored.check().await.unwrap();
    let (name, other) = (new_name().unwrap(), new_name().unwrap());
    for name in [&name, &other] {
        stored.put(name, "hello".into()).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(root.path().join("objects").join(&name[..2]).join(&name)).unwrap(), "hello");
    stored.delete(&name).await.unwrap();
    stored.delete(&name).await.unwrap();
    assert_eq!(stored.get(&name).await.unwrap(), None);
    assert_eq!(stored.get(&other).await.unwrap().unwrap(), "hello");
    for name in ["../secret", "/etc/passwd", "", "ab", "ABCDEF00000000000000000000000000", "0000000000000000000000000000/../"] {
        assert_eq!(stored.get(name).await.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
}

#[tokio::test]
async fn missing_objects_of_a_sample_are_listed() {
    let root = tempfile::tempdir().unwrap();
    let stored = ObjectLayout::at(&BucketLocation::Folder(root.path().to_owned())).unwrap();
    let (name, lost) = (new_name().unwrap(), new_name().unwrap());
    stored.put(&name, "hello".into()).await.unwrap();
    let object = |name: &String| SampledObject { name: name.clone(), what: format!("the file {name}") };
    let report = SampleReport::of(&stored, vec![object(&lost), object(&name)]).await.unwrap();
    assert_eq!((report.checked, &report.missing), (2, &vec![object(&lost)]));
    // An object counts only if two reports in a row list it. Its row may have been replaced between them.
    let [replaced, complete] = [vec![object(&name)], vec![]].map(|missing| SampleReport { checked: 2, missing });
    let confirmed = async |first: &SampleReport| {
        let looks = AtomicUsize::new(0);
        let look = || ready(Ok(if looks.fetch_add(1, Ordering::Relaxed) == 0 { first.clone() } else { report.clone() }));
        (SampleReport::confirmed(look).await.unwrap(), looks.load(Ordering::Relaxed))
    };
    for (first, found, looks) in [(&report, &report, 2), (&replaced, &complete, 2), (&complete, &complete, 1)] {
        assert_eq!(confirmed(first).await, (found.clone(), looks));
    }
    assert_eq!((stored.count_up_to(9).await.unwrap(), stored.count_up_to(0).await.unwrap()), (1, 0));
}

/// Regression test: `doctor` waited for every look-up in a bucket that did not answer.
#[tokio::test]
async fn looking_for_a_sample_stops_when_the_bucket_is_unavailable() {
    struct Away(AtomicUsize);

    #[async_trait]
    impl Bucket for Away {
        async fn put(&self, _name: &str, _content: Bytes) -> io::Result<()> {
            Err(io::ErrorKind::ConnectionReset.into())
        }

        async fn get(&self, _name: &str) -> io::Result<Option<Bytes>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Err(io::ErrorKind::ConnectionReset.into())
        }

        async fn delete(&self, _name: &str) -> io::Result<()> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }

    let away = Away(AtomicUsize::new(0));
    let sample = (0..200).map(|number| SampledObject { name: new_name().unwrap(), what: format!("the file {number}") }).collect();
    assert_eq!(SampleReport::of(&away, sample).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let requests = away.0.load(Ordering::Relaxed);
    assert!((1..100).contains(&requests), "{requests}");
}

#[tokio::test]
async fn an_unreachable_blob_is_not_reported_as_absent() {
    let root = tempfile::tempdir().unwrap();
    let stored = ObjectLayout::at(&BucketLocation::Folder(root.path().to_owned())).unwrap();
    let name = new_name().unwrap();
    std::fs::write(root.path().join(&name[..2]), "no folder").unwrap();
    assert!(stored.get(&name).await.is_err());
    assert!(stored.delete(&name).await.is_err());
}

#[test]
fn bucket_addresses_are_parsed() {
    let read = |address: &str| address.parse::<BucketLocation>().ok();
    let position = |bucket: &str, prefix: &str| Some(BucketLocation::S3 { bucket: bucket.into(), prefix: prefix.into() });
    assert_eq!(read("s3://tools"), position("tools", ""));
    assert_eq!(read("s3://tools/a/b/"), position("tools", "a/b"));
    for wrong in ["", "s3://", "s3:///a", "tools", "https://tools", "s3://tools/a//b", "s3://to ols"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

/// A bucket with slow deletes that records how many run at the same time.
#[derive(Default)]
struct Slow {
    now: AtomicUsize,
    max: AtomicUsize,
}

#[async_trait]
impl Bucket for Slow {
    async fn put(&self, _: &str, _: Bytes) -> io::Result<()> {
        Ok(())
    }

    async fn get(&self, _: &str) -> io::Result<Option<Bytes>> {
        Ok(None)
    }

    async fn delete(&self, _: &str) -> io::Result<()> {
        self.max.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_deletes_are_limited() {
    let (store, clock, slow) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_700_000_000_000)), Arc::new(Slow::default()));
    let objects = Objects::new(store.clone(), clock.clone(), slow.clone());
    let mut batch = Batch::new();
    let ended = [0, 1].map(|of| objects.ends(&mut batch, (0..500).map(|n| format!("{of}-{n}"))));
    batch.commit(&*store, Durability::Durable).await.unwrap();
    let started = tokio::time::Instant::now();
    let [one, other] = ended;
    tokio::join!(objects.discard(one), objects.discard(other));
    let elapsed = started.elapsed();
    assert_eq!(slow.max.load(Ordering::SeqCst), DELETES);
    assert!(elapsed < Duration::from_secs(4), "1,000 objects of 50 ms, {DELETES} at once: {elapsed:?}");
    assert_eq!(OBJECT_ENDS.count(&*store, &OBJECT_ENDS.all(), 10).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_collection_runs_soon() {
    let host = host();
    let object = host.objects.put("a".into()).await.unwrap();
    assert!(host.keeps(&object).await);
    host.objects.collect_garbage();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut batch = Batch::new();
    _ = host.objects.ends(&mut batch, [object.name.clone()]);
    batch.commit(&*host.store, Durability::Durable).await.unwrap();
    host.later(1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(host.heap.names(), [object.name]);
    host.objects.schedule_collection();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(host.heap.names().is_empty());
}
