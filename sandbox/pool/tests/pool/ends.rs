//! Abandoned calls, and pools that are shut down or dropped.

use std::time::Duration;

use tollhouse_pool::PoolError;

use crate::test_pool::{COUNTER, ENDLESS, TestPool, Tool, json, processes_called, sleeping};

#[tokio::test(flavor = "multi_thread")]
async fn canceled_call_ends_its_process() {
    let test_pool = TestPool::start(|config| config.spares = 0).await;
    let (ends, tool) = (Tool::new("counter", COUNTER), Tool::new("endless", ENDLESS));
    test_pool.call(&ends).await.unwrap();
    test_pool.retire(&ends);
    let given_up = tokio::time::timeout(Duration::from_millis(400), test_pool.call(&tool)).await;
    assert!(given_up.is_err());
    test_pool.until(|pool| pool.status().processes == 0).await;
    assert_eq!(test_pool.processes(), [0; 0]);
    let status = test_pool.pool.status();
    assert_eq!((status.running, status.totals.cancels), (0, 1));
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_completes_calls_and_leaves_no_process() {
    let test_pool = TestPool::start(|_| {}).await;
    let sleeper = Tool::new("sleeper", &sleeping(400));
    let call = async {
        let ran = test_pool.call(&sleeper).await;
        assert_eq!(json(ran), "1");
    };
    let shutdown = async {
        test_pool.until(|pool| pool.status().waiting_in_ops == 1).await;
        test_pool.pool.shutdown().await;
    };
    tokio::join!(call, shutdown);
    assert_eq!(test_pool.processes(), [0; 0]);
    assert!(matches!(test_pool.call(&sleeper).await, Err(PoolError::Busy { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_pool_leaves_no_process() {
    let pool = TestPool::start(|_| {}).await;
    pool.call(&Tool::new("counter", COUNTER)).await.unwrap();
    let name = pool.name.clone();
    drop(pool);
    let removed = async {
        while !processes_called(&name).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), removed).await.expect("every process ends with the pool");
}
