use super::*;

impl CacheKey for u8 {
    fn bytes(&self) -> usize {
        1
    }

    fn is_in_use(&self) -> bool {
        false
    }

    fn is_whole(&self) -> bool {
        *self > 0
    }
}

#[tokio::test]
async fn waiters_see_a_build_failure_and_later_callers_retry() {
    let ready = Cache::<&str, u8>::new(9);
    let mut turn = ready.turn(&"it").await;
    let waits = || async {
        let started = Instant::now();
        ready.turn(&"it").await.failed_since(started).cloned()
    };
    let away = BuildError { reason: "away".to_owned(), is_permanent: false };
    let fails = async {
        tokio::task::yield_now().await;
        turn.fail(away.clone());
        drop(turn);
    };
    let (first, second, ()) = tokio::join!(waits(), waits(), fails);
    assert_eq!((first.as_ref(), second.as_ref()), (Some(&away), Some(&away)));
    assert_eq!(waits().await, None);
    assert!(ready.making.lock().is_empty());
}

#[test]
fn complete_value_replaces_a_partial_one() {
    let ready = Cache::<&str, u8>::new(9);
    ready.put(&"it", 0);
    assert_eq!(ready.keep(&"it", 2, || true), Some((2, vec![])));
    assert_eq!(ready.keep(&"it", 1, || true), Some((2, vec![])));
    ready.put(&"it", 0);
    assert_eq!((ready.keep(&"it", 2, || false), ready.get("it")), (None, Some(0)));
}
