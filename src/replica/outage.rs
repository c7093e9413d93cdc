//! Logs when a replica stops accepting calls because it may have missed changes, and when it accepts calls again.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a replica is examined.
const EXAMINE_EVERY: Duration = Duration::from_millis(100);

/// Logs both, as long as `is_fenced` returns a value.
pub(super) async fn watch(is_fenced: impl Fn() -> Option<bool>) {
    let (mut tick, mut outage) = (interval(EXAMINE_EVERY), Outage::default());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(is_fenced) = is_fenced() else { return };
        match outage.note(is_fenced, Instant::now()) {
            Some(OutageEvent::Began) => tracing::warn!(
                "the host takes no calls: it cannot read the changes of other hosts or renew its lease; \
                 callers get 503, and the host continues on its own once the database answers"
            ),
            Some(OutageEvent::Ended(lasted)) => tracing::info!("the host takes calls again, after {:.1} s", lasted.as_secs_f64()),
            None => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum OutageEvent {
    Began,
    /// How long it lasted.
    Ended(Duration),
}

/// The current outage of a replica, if any.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Records whether the replica accepts no calls. Returns what has changed.
    fn note(&mut self, is_fenced: bool, now: Instant) -> Option<OutageEvent> {
        match (is_fenced, self.since) {
            (true, None) => {
                self.since = Some(now);
                Some(OutageEvent::Began)
            }
            (false, Some(since)) => {
                self.since = None;
                Some(OutageEvent::Ended(now.duration_since(since)))
            }
            (true, Some(_)) | (false, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_reported_at_its_begin_and_at_its_end() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let noted: Vec<_> = [(false, 0), (true, 1), (true, 2), (false, 13), (false, 14), (true, 15)]
            .into_iter()
            .filter_map(|(is_fenced, seconds)| outage.note(is_fenced, at(seconds)))
            .collect();
        assert_eq!(noted, [OutageEvent::Began, OutageEvent::Ended(Duration::from_secs(12)), OutageEvent::Began]);
    }
}
