//! The host's end, as those hear of it who wait, and those who only look.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Whether the host has been told to end.
#[derive(Debug, Default)]
pub struct Shutdown {
    announced: AtomicBool,
    /// What the token says, without the lock that all who wait share.
    begun: AtomicBool,
    token: CancellationToken,
}

impl Shutdown {
    /// Says that the host is going to end, to those who decide where calls are sent. Everything goes on.
    pub fn announce(&self) {
        self.announced.store(true, Ordering::Relaxed);
    }

    /// True once nobody is to send calls here any more.
    #[must_use]
    pub fn announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }

    /// Says that the host is about to end: what would go on for ever stops.
    pub fn begin(&self) {
        self.announce();
        self.begun.store(true, Ordering::Relaxed);
        self.token.cancel();
    }

    /// True once the host has been told to end.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// For those who wait beside something else.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Waits until the host is told to end.
    pub(crate) fn begins(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}
