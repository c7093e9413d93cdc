//! Abandoned calls, and pools that are shut down or dropped.

use std::time::Duration;

use tollhouse_pool::PoolError;

use crate::house::{COUNTER, ENDLESS, House, Tool, json, processes_called, sleeping};

#[tokio::test(flavor = "multi_thread")]
async fn call_that_is_given_up_takes_its_process_along() {
    let house = House::start(|config| config.spares = 0).await;
    let (ends, tool) = (Tool::new("counter", COUNTER), Tool::new("endless", ENDLESS));
    house.call(&ends).await.unwrap();
    house.retire(&ends);
    let given_up = tokio::time::timeout(Duration::from_millis(400), house.call(&tool)).await;
    assert!(given_up.is_err());
    house.until(|pool| pool.status().processes == 0).await;
    assert_eq!(house.processes(), [0; 0]);
    let status = house.pool.status();
    assert_eq!((status.running, status.totals.cancels), (0, 1));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_a_call_end_and_leaves_no_process() {
    let house = House::start(|_| {}).await;
    let sleeper = Tool::new("sleeper", &sleeping(400));
    let call = async {
        let ran = house.call(&sleeper).await;
        assert_eq!(json(ran), "1");
    };
    let shutdown = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        house.pool.shutdown().await;
    };
    tokio::join!(call, shutdown);
    assert_eq!(house.processes(), [0; 0]);
    assert!(matches!(house.call(&sleeper).await, Err(PoolError::Busy { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_pool_leaves_no_process() {
    let house = House::start(|_| {}).await;
    house.call(&Tool::new("counter", COUNTER)).await.unwrap();
    let name = house.name.clone();
    drop(house);
    let gone = async {
        while !processes_called(&name).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("every process ends with the pool");
}
