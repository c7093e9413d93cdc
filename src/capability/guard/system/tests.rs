use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use tokio::task::yield_now;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lookup_that_was_given_up_keeps_its_thread_and_leaves_one_to_others() {
    let (request, (answer, answers)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel::<()>());
    let (counted, answers) = (Arc::clone(&request), Mutex::new(answers));
    let system = Arc::new(SystemResolver::asking(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        _ = answers.lock().unwrap().recv();
        Ok(vec![[8, 8, 8, 8].into()])
    }));
    let look = |owner| tokio::spawn(system.lookup(owner, "slow.dev".into()));
    let started = async |number| {
        while request.load(Ordering::SeqCst) < number {
            yield_now().await;
        }
    };
    let greedy: Vec<_> = (0..20).map(|_| look("greedy")).collect();
    started(LOOKUP_THREADS - 1).await;
    tokio::time::advance(2 * DNS_WALL).await;
    for (position, lookup) in greedy.into_iter().enumerate() {
        if position < LOOKUP_THREADS - 1 {
            assert_eq!(lookup.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        } else {
            assert!(!lookup.is_finished());
            lookup.abort();
        }
    }
    assert_eq!(request.load(Ordering::SeqCst), LOOKUP_THREADS - 1);
    let (again, other) = (look("greedy"), look("other"));
    started(LOOKUP_THREADS).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!again.is_finished() && request.load(Ordering::SeqCst) == LOOKUP_THREADS);
    drop(answer);
    assert_eq!(other.await.unwrap().unwrap(), [IpAddr::from([8, 8, 8, 8])]);
    assert!(again.await.unwrap().is_ok());
}

/// A resolver that knows one name.
struct Packets;

impl Lookup for Packets {
    fn lookup(&self, _: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let known = if name == "known.dev" { vec![[8, 8, 4, 4].into()] } else { vec![] };
        Box::pin(std::future::ready(Ok(known)))
    }
}

#[tokio::test(start_paused = true)]
async fn dns_is_used_and_cached_if_the_system_is_silent() {
    let (answer, answers) = mpsc::channel::<()>();
    let (answers, request) = (Mutex::new(answers), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&request);
    let silent = SystemResolver::asking(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        _ = answers.lock().unwrap().recv();
        Err(io::ErrorKind::NotFound.into())
    });
    let system = SystemResolver { dns: Some(Arc::new(Packets)), ..silent };
    let looking = tokio::spawn(system.lookup("owner", "known.dev".into()));
    while request.load(Ordering::SeqCst) < 1 {
        yield_now().await;
    }
    tokio::time::advance(TIMEOUT).await;
    assert_eq!(looking.await.unwrap().unwrap(), [IpAddr::from([8, 8, 4, 4])]);
    assert_eq!(system.lookup("owner", "known.dev".into()).await.unwrap(), [IpAddr::from([8, 8, 4, 4])]);
    assert_eq!(request.load(Ordering::SeqCst), 1, "the settings are cached");
    drop(answer);
    for name in ["unknown.dev", "short"] {
        assert_eq!(system.lookup("owner", name.into()).await.unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
    }
}
