mod shares;

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tollhouse_objects::Bucket;
use tollhouse_store::test_wrappers::YieldingStore;
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};

use super::{path::SEGMENT_BYTES, *};

/// An in-memory object store that shows which contents are left over.
#[derive(Default)]
struct Heap {
    contents: Mutex<BTreeMap<String, Bytes>>,
}

#[async_trait]
impl Bucket for Heap {
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()> {
        self.contents.lock().unwrap().insert(name.to_owned(), content);
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        tokio::task::yield_now().await;
        Ok(self.contents.lock().unwrap().get(name).cloned())
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.contents.lock().unwrap().remove(name);
        Ok(())
    }
}

struct Host {
    store: Arc<YieldingStore>,
    objects: Arc<Heap>,
    files: [Files; 2],
}

impl Host {
    fn new() -> Self {
        let (store, objects) = (Arc::new(YieldingStore::default()), Arc::new(Heap::default()));
        let clock = Clock::fixed(Timestamp(1_700_000_000_000));
        let files = || Files::new(store.clone(), clock.clone(), Objects::new(store.clone(), clock.clone(), objects.clone()));
        Self { files: [files(), files()], store: store.clone(), objects }
    }

    /// Returns the usage records, after checking them against the entries, and the entries against the contents.
    async fn usage(&self, endpoints: &[&EndpointId]) -> Vec<Usage> {
        let (mut usages, mut named) = (Vec::new(), Vec::new());
        for endpoint in endpoints {
            let own = CountedText(EndpointId::clone(endpoint));
            let entries = FILES.page(&*self.store, &FILES.under(&own), usize::MAX, Direction::Forward).await.unwrap();
            let entries: Vec<_> = entries.into_iter().map(|row| row.value).collect();
            let usage = Usage { items: entries.len() as u64, bytes: entries.iter().map(|entry| entry.size).sum() };
            assert_eq!(FILES_USAGE.get(&*self.store, &own).await.unwrap().unwrap_or_default(), usage);
            usages.push(usage);
            named.extend(entries.into_iter().map(|entry| (entry.object, entry.size)));
        }
        named.sort();
        let contents = self.objects.contents.lock().unwrap();
        let mut stored: Vec<_> = contents.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect();
        stored.sort();
        assert_eq!(named, stored, "entries and contents belong together");
        usages
    }
}

fn json(value: OpValue) -> Value {
    match value {
        OpValue::Json(json) => serde_json::from_slice(&json).unwrap(),
        OpValue::None | OpValue::Bytes(_) | OpValue::Response { .. } => panic!("expected JSON"),
    }
}

#[tokio::test]
async fn a_file_comes_back_under_any_spelling_of_its_path() {
    let (host, endpoint, limits) = (Host::new(), EndpointId::generate(), Limits::default());
    let files = || host.files[0].scoped(&Owner::Platform, &endpoint, &limits);
    files().write("notes//today/./a.txt".into(), Bytes::from_static(b"one")).await.unwrap();
    assert_eq!(files().read("./notes/today/a.txt".into()).await.unwrap(), OpValue::Bytes("one".into()));
    files().write("notes/today/a.txt".into(), Bytes::from_static(b"three")).await.unwrap();
    assert_eq!(files().read("notes/today/a.txt".into()).await.unwrap(), OpValue::Bytes("three".into()));
    let listed = json(files().list("notes/".into(), 10, None).await.unwrap());
    assert_eq!(
        listed,
        json!({"files": [{"path": "notes/today/a.txt", "size": 5, "modifiedAt": "2023-11-14T22:13:20.000Z"}], "cursor": null})
    );
    assert_eq!(host.usage(&[&endpoint]).await, [Usage { items: 1, bytes: 5 }]);
    files().delete("notes/today/a.txt".into()).await.unwrap();
    files().delete("notes/today/a.txt".into()).await.unwrap();
    assert_eq!(files().read("notes/today/a.txt".into()).await.unwrap(), OpValue::None);
    assert_eq!(host.usage(&[&endpoint]).await, [Usage::default()]);
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let (host, endpoint, limits) = (Host::new(), EndpointId::generate(), Limits::default());
    let files = || host.files[0].scoped(&Owner::Platform, &endpoint, &limits);
    let long_segment = "s".repeat(SEGMENT_BYTES + 1);
    let long_path = ["p"; 300].join("/");
    for path in [
        "",
        "/",
        "/etc/passwd",
        "..",
        "a/../b",
        "a/..",
        "../a",
        ".",
        "./",
        "a/",
        "a\\b",
        "..\\a",
        "a\0b",
        "a\nb",
        "a\u{85}",
        &long_segment,
        &long_path,
    ] {
        assert_eq!(files().write(path.into(), Bytes::new()).await.unwrap_err().code, "invalid_argument", "{path:?}");
        assert_eq!(files().read(path.into()).await.unwrap_err().code, "invalid_argument", "{path:?}");
        assert_eq!(files().delete(path.into()).await.unwrap_err().code, "invalid_argument", "{path:?}");
    }
    let max_len = format!("{0}/{0}/2", "s".repeat(SEGMENT_BYTES));
    assert_eq!(max_len.len() - 1, 512);
    for path in ["..a", "a..", "...", "ä/ö", "C:", "con", &max_len[1..]] {
        files().write(path.into(), Bytes::new()).await.unwrap();
    }
}

#[tokio::test]
async fn files_can_be_stored_up_to_the_limits() {
    let (host, endpoint) = (Host::new(), EndpointId::generate());
    let limits = Limits { files: 3, files_bytes: 10, file_bytes: 6, ..Limits::default() };
    let write = async |limits: &Limits, path: &str, bytes: usize| {
        let written = host.files[0].scoped(&Owner::Platform, &endpoint, limits).write(path.into(), Bytes::from(vec![b'x'; bytes])).await;
        written.map(|_| ()).map_err(|failure| failure.code)
    };
    let over = || Err("quota_exceeded".to_owned());
    assert_eq!(write(&limits, "a", 7).await, over());
    assert_eq!(write(&limits, "a", 6).await, Ok(()));
    assert_eq!(write(&limits, "b", 5).await, over());
    assert_eq!(write(&limits, "b", 4).await, Ok(()));
    assert_eq!(write(&limits, "c", 0).await, Ok(()));
    assert_eq!(write(&limits, "d", 0).await, over());
    // Data above a lowered limit may keep its size but not grow.
    for lowered in [Limits { files: 2, ..limits }, Limits { files_bytes: 5, ..limits }] {
        assert_eq!(write(&lowered, "a", 6).await, Ok(()));
        assert_eq!(write(&lowered, "a", 5).await, Ok(()));
        assert_eq!(write(&limits, "a", 6).await, Ok(()));
    }
    assert_eq!(write(&Limits { files: 2, ..limits }, "d", 0).await, over());
    assert_eq!(write(&Limits { files_bytes: 9, ..limits }, "b", 5).await, over());
    assert_eq!(host.usage(&[&endpoint]).await, [Usage { items: 3, bytes: 10 }]);
}

#[tokio::test]
async fn missing_content_is_the_hosts_fault() {
    let (host, endpoint, limits) = (Host::new(), EndpointId::generate(), Limits::default());
    host.files[0].scoped(&Owner::Platform, &endpoint, &limits).write("a".into(), Bytes::from_static(b"1")).await.unwrap();
    host.objects.contents.lock().unwrap().clear();
    let failure = host.files[0].scoped(&Owner::Platform, &endpoint, &limits).read("a".into()).await.unwrap_err();
    assert_eq!(failure.code, failure::STORE_UNAVAILABLE);
}

/// A store in which a file is replaced each time before its content is returned.
struct OvertakenStore {
    host: Arc<Host>,
    endpoint: EndpointId,
    times: AtomicU64,
}

#[async_trait]
impl Bucket for OvertakenStore {
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()> {
        self.host.objects.put(name, content).await
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        let remaining = self.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |times| times.checked_sub(1));
        if let Ok(remaining) = remaining {
            let files = self.host.files[1].scoped(&Owner::Platform, &self.endpoint, &Limits::default());
            files.write("a".into(), format!("{remaining} to come").into()).await.unwrap();
        }
        self.host.objects.get(name).await
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.host.objects.delete(name).await
    }
}

#[tokio::test]
async fn file_replaced_during_a_read_is_read_in_its_new_form() {
    let (host, endpoint, limits) = (Arc::new(Host::new()), EndpointId::generate(), Limits::default());
    host.files[0].scoped(&Owner::Platform, &endpoint, &limits).write("a".into(), Bytes::from_static(b"old")).await.unwrap();
    let read = async |times: u64| {
        let objects = Arc::new(OvertakenStore { host: Arc::clone(&host), endpoint: endpoint.clone(), times: AtomicU64::new(times) });
        let files = Files::new(host.store.clone(), Clock::default(), Objects::new(host.store.clone(), Clock::default(), objects));
        files.scoped(&Owner::Platform, &endpoint, &limits).read("a".into()).await
    };
    assert_eq!(read(3).await.unwrap(), OpValue::Bytes("1 to come".into()));
    assert_eq!(read(u64::MAX).await.unwrap_err().code, "contended");
}

#[tokio::test]
async fn content_is_removed_only_if_its_entry_was_not_written() {
    for (fault, stays) in [(Fault::After, true), (Fault::Before, false)] {
        let (store, heap) = (Arc::new(FaultyStore::new(MemoryStore::new())), Arc::new(Heap::default()));
        let clock = Clock::fixed(Timestamp(1_700_000_000_000));
        let objects = Objects::new(store.clone(), clock.clone(), heap.clone());
        let files = Files::new(store.clone(), clock.clone(), Arc::clone(&objects));
        let (endpoint, limits) = (EndpointId::generate(), Limits::default());
        // The first commit reserves the object's name.
        store.fail_nth(2, fault);
        let failure = files.scoped(&Owner::Platform, &endpoint, &limits).write("a".into(), Bytes::from_static(b"1")).await.unwrap_err();
        assert_eq!(failure.code, failure::STORE_UNAVAILABLE);
        assert_eq!(heap.contents.lock().unwrap().len(), 1, "{fault:?}");
        clock.set(clock.now().plus_millis(25 * 3_600_000));
        objects.collect().await.unwrap();
        let read = files.scoped(&Owner::Platform, &endpoint, &limits).read("a".into()).await.unwrap();
        assert_eq!(read, if stays { OpValue::Bytes("1".into()) } else { OpValue::None });
        assert_eq!(heap.contents.lock().unwrap().len(), usize::from(stays));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_hold_when_two_hosts_write_at_once() {
    let (host, endpoint) = (Arc::new(Host::new()), EndpointId::generate());
    let limits = Limits { files: 6, files_bytes: 100, file_bytes: 30, ..Limits::default() };
    let writes: Vec<_> = (0..60_usize)
        .map(|n| {
            let (host, endpoint) = (host.clone(), endpoint.clone());
            tokio::spawn(async move {
                let content = Bytes::from(vec![b'x'; 5 + n % 28]);
                host.files[n % 2].scoped(&Owner::Platform, &endpoint, &limits).write(format!("f{}", n % 12), content).await
            })
        })
        .collect();
    let mut refused = 0;
    for write in writes {
        if let Err(failure) = write.await.unwrap() {
            assert!(["quota_exceeded", "contended"].contains(&failure.code.as_str()), "{failure:?}");
            refused += 1;
        }
    }
    let usage = host.usage(&[&endpoint]).await[0];
    // Besides two large files there is room for any other.
    assert!(refused > 0 && (3..=6).contains(&usage.items) && usage.bytes <= 100, "{usage:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_meets_one_whole_version() {
    let (host, endpoint) = (Arc::new(Host::new()), EndpointId::generate());
    let limits = Limits::default();
    host.files[0].scoped(&Owner::Platform, &endpoint, &limits).write("f".into(), Bytes::from(vec![0; 100])).await.unwrap();
    let writer = tokio::spawn({
        let (host, endpoint) = (host.clone(), endpoint.clone());
        async move {
            for n in 1..200_u8 {
                host.files[1]
                    .scoped(&Owner::Platform, &endpoint, &limits)
                    .write("f".into(), Bytes::from(vec![n; 100 + usize::from(n)]))
                    .await
                    .unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let OpValue::Bytes(content) = host.files[0].scoped(&Owner::Platform, &endpoint, &limits).read("f".into()).await.unwrap() else {
            panic!("the file is gone")
        };
        assert!(content.len() == 100 + usize::from(content[0]) && content.iter().all(|byte| *byte == content[0]));
    }
    writer.await.unwrap();
    host.usage(&[&endpoint]).await;
}

#[tokio::test]
async fn list_pages_in_order_and_forgetting_leaves_others() {
    let (host, ours, theirs, limits) = (Host::new(), EndpointId::generate(), EndpointId::generate(), Limits::default());
    let files = || host.files[0].scoped(&Owner::Platform, &ours, &limits);
    for n in 0..25 {
        files().write(format!("d/{n:02}"), Bytes::from_static(b"x")).await.unwrap();
    }
    host.files[1].scoped(&Owner::Platform, &theirs, &limits).write("d/99".into(), Bytes::from_static(b"y")).await.unwrap();
    let (mut paths, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = json(files().list("d/".into(), 10, cursor.clone()).await.unwrap());
        paths.extend(page["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()));
        cursor = page["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paths, (0..25).map(|n| format!("d/{n:02}")).collect::<Vec<_>>());
    let all = json(files().list("d/".into(), 25, None).await.unwrap());
    assert_eq!((all["files"].as_array().unwrap().len(), &all["cursor"]), (25, &Value::Null));
    assert_eq!(files().list("d/".into(), 10, Some("zz!".into())).await.unwrap_err().code, "invalid_argument");
    assert_eq!(files().list("d/".into(), 0, None).await.unwrap_err().code, "invalid_argument");
    host.files[0].forget(&ours).await.unwrap();
    assert_eq!(host.usage(&[&ours, &theirs]).await, [Usage::default(), Usage { items: 1, bytes: 1 }]);
}

/// Random operations on two tools, compared with a map for each.
#[tokio::test]
async fn endpoints_never_meet() {
    for seed in 0..8 {
        let (host, mut random) = (Host::new(), fastrand::Rng::with_seed(seed));
        let limits = Limits { files: 5, file_bytes: 40, ..Limits::default() };
        let endpoints = [EndpointId::generate(), EndpointId::generate()];
        let mut models: [BTreeMap<String, Vec<u8>>; 2] = Default::default();
        let mut paths: Vec<String> = ["a", "a/b", "b", "ep_"].map(str::to_owned).into();
        paths.extend(endpoints.iter().map(ToString::to_string));
        for step in 0..300_u64 {
            let position = random.usize(..2);
            let host_of_call = random.usize(..2);
            let files = || host.files[host_of_call].scoped(&Owner::Platform, &endpoints[position], &limits);
            let model = &mut models[position];
            let path = random.choice(&paths).unwrap().clone();
            match random.u64(..4) {
                0 | 1 => {
                    let content = format!("{position} {step}").into_bytes();
                    match files().write(path.clone(), content.clone().into()).await {
                        Ok(_) => drop(model.insert(path, content)),
                        Err(failure) => assert!(failure.code == "quota_exceeded" && model.len() == 5, "seed {seed}"),
                    }
                }
                2 => {
                    files().delete(path.clone()).await.unwrap();
                    model.remove(&path);
                }
                _ => {
                    let expected = model.get(&path).map_or(OpValue::None, |content| OpValue::Bytes(content.clone().into()));
                    assert_eq!(files().read(path.clone()).await.unwrap(), expected, "seed {seed}, step {step}");
                }
            }
        }
        host.usage(&[&endpoints[0], &endpoints[1]]).await;
    }
}

#[tokio::test]
async fn a_write_that_its_call_does_not_wait_for_leaves_nothing_uncounted() {
    let (host, endpoint, limits) = (Host::new(), EndpointId::generate(), Limits::default());
    for polls in 1..12 {
        let mut writing =
            Box::pin(host.files[0].scoped(&Owner::Platform, &endpoint, &limits).write("f".into(), Bytes::from(vec![0; polls])));
        for _ in 0..polls {
            if std::future::poll_fn(|context| std::task::Poll::Ready(writing.as_mut().poll(context).is_ready())).await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(writing);
        // The next write waits for its turn, and so for the previous write.
        host.files[0].scoped(&Owner::Platform, &endpoint, &limits).write("g".into(), Bytes::from_static(b"g")).await.unwrap();
        host.files[0].scoped(&Owner::Platform, &endpoint, &limits).delete("g".into()).await.unwrap();
        assert_eq!(host.usage(&[&endpoint]).await, [Usage { items: 1, bytes: polls as u64 }]);
    }
}
