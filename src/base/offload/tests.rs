use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_work_does_not_block_other_tasks() {
    let (release, wait) = mpsc::channel();
    let busy = tokio::spawn(run_blocking(SHORT_BYTES + 1, move || wait.recv_timeout(PATIENCE)));
    tokio::task::yield_now().await;
    tokio::spawn(async move { release.send(()).unwrap() }).await.unwrap();
    busy.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn medium_text_does_not_wait_for_longer_ones() {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let long = |wait: Arc<Mutex<mpsc::Receiver<()>>>| tokio::spawn(run_blocking(MIDDLING_BYTES + 1, move || wait.lock().unwrap().recv()));
    let long: Vec<_> = (0..100).map(|_| long(Arc::clone(&wait))).collect();
    tokio::time::timeout(PATIENCE, run_blocking(SHORT_BYTES + 1, || ())).await.unwrap();
    drop(release);
    for one in long {
        one.await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn long_texts_of_one_client_let_another_client_go_next() {
    let ended = Arc::new(Mutex::new(vec![]));
    // Other tests may hold places for a while.
    let held = join_all((0..at_once()).map(|_| LONG.turn(None))).await;
    let long = |client: u8| {
        let ended = Arc::clone(&ended);
        let work = run_blocking(MIDDLING_BYTES + 1, move || ended.lock().unwrap().push(client));
        // On a separate task, as calls are.
        tokio::spawn(for_client([127, 0, 0, client].into(), async { for_same_client(work).await }))
    };
    let mut all: Vec<_> = (0..100).map(|_| long(1)).collect();
    tokio::task::yield_now().await;
    all.push(long(2));
    tokio::task::yield_now().await;
    drop(held);
    for one in all {
        one.await.unwrap();
    }
    let position = ended.lock().unwrap().iter().position(|client| *client == 2).unwrap();
    assert!(position < 40, "{position}: at most as many come before it as there are places");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn library_future_resumes_after_its_first_poll() {
    for bytes in [0, SHORT_BYTES + 1] {
        let waits = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            7
        };
        assert_eq!(await_with_blocking_start(bytes, waits).await, 7);
    }
}

#[test]
fn length_stops_counting_once_a_value_is_long() {
    for (value, is_long) in [
        (json!([1, { "a": "b" }]), false),
        (json!("s".repeat(SHORT_BYTES + 1)), true),
        (json!(vec![1; SHORT_BYTES]), true),
        (json!({ "n".repeat(SHORT_BYTES + 1): 1 }), true),
        ((0..100).fold(json!(1), |inner, _| json!([inner])), false),
    ] {
        assert_eq!(length(&value) > SHORT_BYTES, is_long);
    }
}

#[tokio::test]
async fn single_threaded_runtime_runs_long_work_inline() {
    assert_eq!(run_blocking(usize::MAX, || 7).await, 7);
}
