//! The host's allocator, and how it gives back what it keeps.
//!
//! A package of its own for its one foreign call: the host has no unsafe code.

use std::{io, thread, time::Duration};

pub use mimalloc::MiMalloc as Allocator;

/// How often memory is given back: as long as the allocator keeps what was freed for whoever asks next.
const PERIOD: Duration = Duration::from_secs(1);

#[expect(unsafe_code, reason = "the allocator is written in C")]
unsafe extern "C" {
    /// mimalloc's; not forced it gives back what nobody asked for again within its delay.
    safe fn mi_collect(force: bool);
}

/// Has a thread give memory back to the system that was freed and not asked for again, as long as the process lives. Left to
/// itself the allocator does so only when it is asked for more, and a host that is quiet after a burst keeps it. Giving it back
/// at once (`MIMALLOC_PURGE_DELAY=0`) would cost each call.
///
/// # Errors
///
/// When the system gives no thread.
pub fn give_back_what_is_kept() -> io::Result<()> {
    let give_back = || {
        loop {
            thread::park_timeout(PERIOD);
            mi_collect(false);
        }
    };
    thread::Builder::new().name("tollhouse-free".into()).spawn(give_back).map(drop)
}
