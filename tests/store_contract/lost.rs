//! Databases that are lost for a moment, or in the middle of a commit.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use super::{
    cut::{CutMode, CuttingProxy},
    harness::*,
    postgres::Postgres,
    random::random,
};

/// Longer than any call of a store takes, whatever happens to its database.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of tasks that write the number of the round under their own key.
const WRITERS: usize = 16;

/// Returns the result of a call, which must come in time.
async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, call).await.expect("the call does not end on its own")
}

/// Restarts a server in the background.
async fn run(mut server: Postgres) -> Postgres {
    let run = move || {
        server.run();
        server
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn claim(store: &PostgresStore, key: &[u8]) -> Result<(), StoreError> {
    let batch = Batch::of(vec![Check::absent(Space::Payments, key)], vec![Write::put(Space::Payments, key, b"")]);
    in_time(store.apply(batch, Durable)).await.map(drop)
}

/// Claims until it succeeds. A slow machine may need several attempts.
async fn claim_at_last(store: &PostgresStore, key: &[u8]) {
    while let Err(error) = claim(store, key).await {
        assert!(matches!(error, StoreError::Conflict | StoreError::Unknown(_) | StoreError::Away(_)), "{error}");
        if matches!(error, StoreError::Conflict) {
            break;
        }
    }
}

async fn is_there(store: &PostgresStore, key: &[u8]) -> bool {
    in_time(store.get(Space::Payments, key)).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_durable_commit_that_was_answered_is_lost_by_a_kill() {
    let mut server = Postgres::start();
    // Defaults of a session, or settings from its previous user, have no influence.
    server.sql("ALTER ROLE tollhouse SET synchronous_commit = off").await;
    server.stop();
    server.configure("postgresql.conf", "wal_writer_delay = 10s");
    let mut server = run(server).await;
    let store = Arc::new(at(&server.url()).await);
    let mut chance = random();
    for round in 0..3 {
        let (ended, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, ended, all) = (Arc::clone(&store), Arc::clone(&ended), Arc::clone(&all));
                tokio::spawn(async move {
                    let (mut answered, mut failed) = (vec![], 0);
                    for n in 0.. {
                        if ended.load(SeqCst) {
                            break;
                        }
                        let key = format!("{round} {writer} {n}").into_bytes();
                        match claim(&store, &key).await {
                            Ok(()) => {
                                answered.push(key);
                                all.fetch_add(1, SeqCst);
                            }
                            Err(StoreError::Unknown(_) | StoreError::Away(_)) => failed += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (answered, failed)
                })
            })
            .collect();
        let enough = chance.usize(1..1_000);
        while all.load(SeqCst) < enough {
            tokio::task::yield_now().await;
        }
        server.kill9();
        server = run(server).await;
        // The store has reconnected automatically.
        claim_at_last(&store, format!("again {round}").as_bytes()).await;
        ended.store(true, SeqCst);
        let mut sum = (0, 0);
        for writer in writers {
            let (answered, failed) = in_time(writer).await.unwrap();
            for key in &answered {
                assert!(is_there(&store, key).await, "{} is lost", String::from_utf8_lossy(key));
            }
            sum = (sum.0 + answered.len(), sum.1 + failed);
        }
        println!("round {round}: {} answered, {} not", sum.0, sum.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_is_survived_and_waited_for() {
    let mut server = Postgres::start();
    let store = Arc::new(at(&server.url()).await);
    claim(&store, b"before").await.unwrap();
    server.stop();
    let waiting = {
        let store = Arc::clone(&store);
        let read = async move |store: &PostgresStore| in_time(store.get(Space::Payments, b"before")).await;
        tokio::spawn(async move { tokio::join!(read(&store), claim(&store, b"meanwhile")) })
    };
    server = run(server).await;
    // They fail only if the machine takes long to start the server.
    let (read, meanwhile) = waiting.await.unwrap();
    assert!(matches!(read, Ok(Some(_)) | Err(StoreError::Away(_))), "{read:?}");
    match meanwhile {
        Ok(()) => assert!(is_there(&store, b"meanwhile").await),
        Err(StoreError::Away(_)) => assert!(!is_there(&store, b"meanwhile").await),
        Err(error) => assert!(matches!(error, StoreError::Unknown(_)), "{error}"),
    }

    server.stop();
    let in_vain = claim(&store, b"in vain").await;
    assert!(matches!(in_vain, Err(StoreError::Away(_) | StoreError::Unknown(_))), "{in_vain:?}");
    let _server = run(server).await;
    claim_at_last(&store, b"after").await;
    assert!(!is_there(&store, b"in vain").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_connection_ends_is_unknown() {
    let server = Postgres::start();
    let cut = CuttingProxy::before(server.port()).await;
    let mut config = PostgresConfig::new(&format!("postgres://tollhouse@127.0.0.1:{}/postgres", cut.port), None).unwrap();
    // With one connection, the next bytes go over the existing one.
    config.lanes = 1;
    let store = PostgresStore::open(config).await.unwrap();
    let alongside = at(&server.url()).await;
    for (n, cuts) in [CutMode::Question, CutMode::Answer, CutMode::Question, CutMode::Answer].into_iter().enumerate() {
        let [known, unknown] = [format!("known {n}"), format!("unknown {n}")];
        claim_at_last(&store, known.as_bytes()).await;
        cut.cuts(cuts);
        let lost = claim(&store, unknown.as_bytes()).await;
        cut.cuts(CutMode::Nothing);
        assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
        if cuts == CutMode::Question {
            assert!(!is_there(&alongside, unknown.as_bytes()).await);
        } else {
            while !is_there(&alongside, unknown.as_bytes()).await {
                tokio::task::yield_now().await;
            }
        }
        assert!(is_there(&store, known.as_bytes()).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_waits_forever_for_a_database_that_says_nothing() {
    let server = Postgres::start();
    let cut = CuttingProxy::before(server.port()).await;
    let store = at(&format!("postgres://tollhouse@127.0.0.1:{}/postgres", cut.port)).await;
    claim(&store, b"before").await.unwrap();
    cut.cuts(CutMode::Silently);
    let (claimed, read, more) =
        tokio::join!(claim(&store, b"unheard"), in_time(store.get(Space::Payments, b"before")), in_time(store.changes(0, 1)),);
    assert!(matches!(claimed, Err(StoreError::Unknown(_) | StoreError::Away(_))), "{claimed:?}");
    assert!(matches!((&read, &more), (Err(StoreError::Away(_)), Err(StoreError::Away(_)))), "{read:?} {more:?}");
    cut.cuts(CutMode::Nothing);
    claim_at_last(&store, b"again").await;
    assert!(!is_there(&store, b"unheard").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buffered_commits_are_on_disk_soon() {
    let mut server = Postgres::start();
    let store = at(&server.url()).await;
    let before = store.sizes().syncs;
    put(&store, Space::Logs, b"line", b"soon").await;
    until(|| store.sizes().syncs > before).await;
    server.kill9();
    let _server = run(server).await;
    assert_eq!(in_time(store.get(Space::Logs, b"line")).await.unwrap(), Some(b"soon".to_vec()));
}
