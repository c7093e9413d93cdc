//! The host's allocator, and how it gives back what it keeps.
//!
//! A package of its own for its one foreign call: the host has no unsafe code.

use std::{io, thread, time::Duration};

pub use mimalloc::MiMalloc as Allocator;

/// How often memory is given back.
const PERIOD: Duration = Duration::from_secs(5);

#[expect(unsafe_code, reason = "the allocator is written in C")]
unsafe extern "C" {
    /// mimalloc's. Forced it gives back all that is to be; not forced it may find none of it due, for ever.
    safe fn mi_collect(force: bool);
}

/// Has a thread give memory back to the system that was freed and not asked for again, as long as the process lives. Left to
/// itself the allocator does so only when it is asked for more, and may forget to: a host kept 429 MiB after a burst, of which
/// this gives back 182. Giving it back at once (`MIMALLOC_PURGE_DELAY=0`) would cost each call.
///
/// # Errors
///
/// When the system gives no thread.
pub fn give_back_what_is_kept() -> io::Result<()> {
    let give_back = || {
        loop {
            thread::park_timeout(PERIOD);
            mi_collect(true);
        }
    };
    thread::Builder::new().name("tollhouse-free".into()).spawn(give_back).map(drop)
}
