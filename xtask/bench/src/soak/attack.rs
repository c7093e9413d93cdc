//! Attackers that trigger another builder's hostile tools.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Failure,
    host::Host,
    hostile::{self, KINDS},
};

/// Loopback addresses that one attacker uses in turn, because a caller whose runs keep being
/// stopped is slowed.
const ADDRESSES: u8 = 40;
/// Minimum time between two requests of one attacker.
const PACE: Duration = Duration::from_millis(50);

/// The results of the attacks.
pub(super) struct AttackCounts {
    count: AtomicU64,
    /// Number of answers by status. 0 means no answer.
    met: Mutex<BTreeMap<u16, u64>>,
}

impl AttackCounts {
    /// Publishes a tool of each kind.
    pub(super) fn publish(host: &Host) -> Result<Self, Failure> {
        hostile::publish_all(host)?;
        Ok(Self { count: AtomicU64::new(0), met: Mutex::default() })
    }

    pub(super) fn kinds(&self) -> usize {
        KINDS.len()
    }

    /// Returns the number of calls made.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn met(&self) -> String {
        format!("{:?}", self.met.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Attacks until the end.
    pub(super) fn go_on(&self, host: SocketAddr, number: usize, over: &AtomicBool) {
        for turn in number.. {
            let (kind, _) = KINDS[turn % KINDS.len()];
            let address = Ipv4Addr::new(127, 0, 1 + number as u8, 1 + (turn / KINDS.len() % usize::from(ADDRESSES)) as u8);
            for calm in [false, true] {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let started = Instant::now();
                let status = hostile::attack(address, host, kind, calm);
                self.count.fetch_add(1, Ordering::Relaxed);
                *self.met.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
                thread::sleep(PACE.saturating_sub(started.elapsed()));
            }
        }
    }
}
