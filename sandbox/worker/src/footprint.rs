//! Memory limit of the whole process. Heap and buffers have their own limits. In addition, the
//! engine needs memory for regular expressions, dates and growing buffers, and the worker needs
//! memory for unsent messages.
//!
//! The kernel counts writable memory that is not backed by a file (getrlimit(2), `RLIMIT_DATA`),
//! and refuses more. Most code cannot continue without the memory: the engine calls
//! [`memory::out_of_memory`](crate::memory), our allocator calls [`heap`](crate::heap), and an
//! abort ends in the [crash handler](crate::crash_handler).

use std::ptr;

use rustix::{
    fs::{Mode, OFlags, open},
    io::read,
    param::page_size,
    process::{Resource, Rlimit, setrlimit},
};

/// Minimum memory that the process can still allocate once it is limited. With less, a worker could
/// not serve a call.
const MIN_HEADROOM_BYTES: u64 = 32 << 20;

/// If an allocation of this size fails, the limit has been reached.
const PROBE_BYTES: usize = 2 << 20;

/// The same for a process that ends at once. The engine allocates code of WebAssembly in larger pieces.
const FINAL_PROBE_BYTES: usize = 16 << 20;

/// A measurement of the process's memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    resident: u64,
    /// The memory that counts toward the limit.
    data: u64,
}

impl Footprint {
    /// Measures the current memory. `None` if the system does not report it.
    pub(crate) fn now() -> Option<Self> {
        let file = open("/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 128];
        let length = read(&file, &mut text).ok()?;
        Self::parse(str::from_utf8(&text[..length]).ok()?, page_size() as u64)
    }

    /// Parses the second and sixth fields of proc_pid_statm(5).
    fn parse(text: &str, page_bytes: u64) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(|pages| pages.parse::<u64>().ok());
        let resident = fields.nth(1)?? * page_bytes;
        Some(Self { resident, data: fields.nth(3)?? * page_bytes })
    }

    /// Lets the process grow up to `resident_bytes`. The system can refuse this limit.
    pub(crate) fn bound(&self, resident_bytes: u64) {
        let more = resident_bytes.saturating_sub(self.resident).max(MIN_HEADROOM_BYTES);
        let bytes = Some(self.data + more);
        let _ = setrlimit(Resource::Data, Rlimit { current: bytes, maximum: bytes });
    }
}

/// Returns whether the process has used all its memory.
pub(crate) fn is_exhausted() -> bool {
    lacks(PROBE_BYTES)
}

/// Returns whether the process can have ended because it has used all its memory. Async-signal-safe.
pub(crate) fn was_exhausted() -> bool {
    lacks(FINAL_PROBE_BYTES)
}

/// Returns whether an allocation of this size fails. Async-signal-safe.
#[expect(unsafe_code, reason = "no safe binding maps and unmaps memory")]
fn lacks(bytes: usize) -> bool {
    // SAFETY: the mapping is new, nobody else knows it, and it is unmapped again.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let address = libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        address == libc::MAP_FAILED || libc::munmap(address, bytes) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprint_is_read_from_its_fields() {
        let footprint = Footprint::parse("1000 200 30 4 0 500 0\n", 4_096).unwrap();
        assert_eq!((footprint.resident, footprint.data), (200 * 4_096, 500 * 4_096));
        assert!(Footprint::parse("1000 200 30", 4_096).is_none() && Footprint::parse("", 1).is_none());
        let now = Footprint::now().unwrap();
        assert!(now.resident > 100_000 && now.data > 100_000, "{now:?}");
        assert!(!is_exhausted());
    }
}
