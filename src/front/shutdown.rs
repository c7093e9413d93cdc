//! The shutdown state of the host, for tasks that wait and for tasks that only check.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The shutdown state of the host.
#[derive(Debug, Default)]
pub struct Shutdown {
    announced: AtomicBool,
    /// The same as the token's state, without the lock that all waiting tasks share.
    started: AtomicBool,
    token: CancellationToken,
}

impl Shutdown {
    /// Announces the shutdown to load balancers. The host continues to serve.
    pub fn announce(&self) {
        self.announced.store(true, Ordering::Relaxed);
    }

    /// Returns whether calls should no longer be sent here.
    #[must_use]
    pub fn announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }

    /// Begins the shutdown and stops endless work.
    pub fn begin(&self) {
        self.announce();
        self.started.store(true, Ordering::Relaxed);
        self.token.cancel();
    }

    /// Returns whether the shutdown has begun.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the token, to wait for the shutdown beside something else.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Waits until the shutdown begins.
    pub(crate) fn begins(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}
