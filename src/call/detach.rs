//! A future that goes on when nobody waits for it any more.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// Runs in place, so that a call costs no task of its own; dropped before its end, as when a caller
/// hangs up, it moves to one.
pub(super) struct Detach<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send + 'static> Detach<F> {
    pub(super) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Detach<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let ended = future.as_mut().poll(context);
        if ended.is_ready() {
            self.0 = None;
        }
        ended
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Detach<F> {
    fn drop(&mut self) {
        // Outside of a runtime, or in one that ends, nothing can go on.
        if let (Some(future), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use super::*;

    async fn work(steps: Arc<AtomicUsize>) -> usize {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            steps.fetch_add(1, Ordering::Relaxed);
        }
        7
    }

    #[tokio::test]
    async fn it_answers_who_waits() {
        assert_eq!(Detach::new(work(Arc::default())).await, 7);
    }

    #[tokio::test]
    async fn it_goes_on_when_dropped_half_way_or_before_it_began() {
        for patience in [25, 0] {
            let steps = Arc::<AtomicUsize>::default();
            let waited = tokio::time::timeout(Duration::from_millis(patience), Detach::new(work(Arc::clone(&steps)))).await;
            assert!(waited.is_err() && steps.load(Ordering::Relaxed) < 5);
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(steps.load(Ordering::Relaxed), 5);
        }
        let steps = Arc::<AtomicUsize>::default();
        drop(Detach::new(work(Arc::clone(&steps))));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(steps.load(Ordering::Relaxed), 5);
    }
}
