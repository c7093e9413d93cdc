//! The clocks of a worker: wall clock (from the host), monotonic clock, and processor time.

use rustix::time::{ClockId, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// Returns the processor time of the calling thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Returns the nanoseconds since an arbitrary moment before the process began.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * NANOS + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The processor clock of one thread, readable from other threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// Returns the clock of the calling thread.
    #[expect(unsafe_code, reason = "no safe binding names another thread's clock")]
    pub(crate) fn current() -> Self {
        let mut clock = 0;
        // SAFETY: `pthread_self` is a live thread, and `clock` is valid for the result.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        assert_eq!(failed, 0, "a running thread has a processor clock");
        Self(clock)
    }

    /// Returns the processor time of that thread, in nanoseconds.
    #[expect(unsafe_code, reason = "no safe binding reads another thread's clock")]
    pub(crate) fn read_ns(self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for the result. The clock of a thread that has ended returns an
        // error.
        let failed = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        if failed != 0 {
            return 0;
        }
        u64::try_from(time.tv_sec).unwrap_or(0) * NANOS + u64::try_from(time.tv_nsec).unwrap_or(0)
    }
}
