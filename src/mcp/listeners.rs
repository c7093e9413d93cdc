//! The streams that report changes of the tool list.
//!
//! A background task reports changes at most once a second, to one part of the streams at a time. So no change waits
//! for the streams, and a call in between waits for only a few.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tollhouse_config::QuotaSettings;
use tollhouse_front::Quota;

/// Minimum time between two reports.
const EVERY: Duration = Duration::from_secs(1);

/// Parts of the streams, which are notified one after another, and the pause between two parts.
const PARTS: usize = 16;
const BETWEEN: Duration = Duration::from_millis(20);

pub(super) struct Listeners {
    slots: Arc<Quota>,
    parts: Vec<watch::Sender<()>>,
    next: AtomicUsize,
}

impl Listeners {
    /// Starts the background task. Call it inside a tokio runtime.
    pub(super) fn new(settings: QuotaSettings, changes: watch::Receiver<u64>) -> Arc<Self> {
        let listeners = Arc::new(Self {
            slots: Quota::new(settings.max, settings.max_per_address),
            parts: (0..PARTS).map(|_| watch::Sender::new(())).collect(),
            next: AtomicUsize::new(0),
        });
        tokio::spawn(notify_all(Arc::downgrade(&listeners), changes));
        listeners
    }

    pub(super) fn slots(&self) -> &Arc<Quota> {
        &self.slots
    }

    /// Returns a receiver that changes with each report.
    pub(super) fn follow(&self) -> watch::Receiver<()> {
        self.parts[self.next.fetch_add(1, Relaxed) % PARTS].subscribe()
    }
}

/// Reports changes until there are no listeners. Changes in between are reported together.
async fn notify_all(listeners: Weak<Listeners>, mut changes: watch::Receiver<u64>) {
    while changes.changed().await.is_ok() {
        let next = Instant::now() + EVERY;
        for part in 0..PARTS {
            let Some(listeners) = listeners.upgrade() else { return };
            if listeners.parts[part].receiver_count() > 0 {
                listeners.parts[part].send_replace(());
                drop(listeners);
                sleep(BETWEEN).await;
            }
        }
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> QuotaSettings {
        QuotaSettings { max: Some(100), max_per_address: Some(100) }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_one_second_are_reported_together_and_none_is_lost() {
        let changes = watch::Sender::new(0_u64);
        let listeners = Listeners::new(settings(), changes.subscribe());
        let mut followers: Vec<_> = (0..PARTS * 3).map(|_| listeners.follow()).collect();
        let mut listed = vec![0; followers.len()];
        // Five seconds of changes.
        for _ in 0..1_000 {
            changes.send_modify(|count| *count += 1);
            sleep(Duration::from_millis(5)).await;
            for (follower, listed) in followers.iter_mut().zip(&mut listed) {
                *listed += usize::from(follower.has_changed().unwrap());
                follower.mark_unchanged();
            }
        }
        assert!(listed.iter().all(|listed| (4..=6).contains(listed)), "{listed:?}");
        sleep(2 * EVERY).await;
        followers.iter_mut().for_each(watch::Receiver::mark_unchanged);
        changes.send_modify(|count| *count += 1);
        sleep(EVERY).await;
        assert!(followers.iter().all(|follower| follower.has_changed().unwrap()), "the last change is reported");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_listeners() {
        let changes = watch::Sender::new(0_u64);
        let listeners = Listeners::new(settings(), changes.subscribe());
        let followers: Vec<_> = (0..1_000).map(|_| listeners.follow()).collect();
        changes.send_modify(|count| *count += 1);
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let reported = followers.iter().filter(|follower| follower.has_changed().unwrap()).count();
        assert!(reported <= followers.len() / PARTS + 1, "{reported} were notified at once");
    }
}
