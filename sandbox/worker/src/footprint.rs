//! The memory of the process as a whole, whoever in it takes it: heap and buffers have their own limits, and beside them the
//! engine takes what it needs for regular expressions, dates and growing buffers, and we for what waits to be sent.
//!
//! The system counts what is written to and is no file's (getrlimit(2), `RLIMIT_DATA`), and refuses more. Most of those who are
//! refused cannot go on: the engine calls [`memory::out_of_memory`](crate::memory), our allocator [`heap`](crate::heap), and
//! what aborts [`fatal`](crate::fatal).

use std::ptr;

use rustix::{
    fs::{Mode, OFlags, open},
    io::read,
    param::page_size,
    process::{Resource, Rlimit, setrlimit},
};

/// What the process may always take from the moment on at which it is bounded: a worker that has less serves nobody.
const LEAST_BYTES: u64 = 32 << 20;

/// Who cannot have as much as this has reached the bound.
const PROBE_BYTES: usize = 2 << 20;

/// What the process had of memory at a moment, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    resident: u64,
    /// Of what counts against the bound.
    data: u64,
}

impl Footprint {
    /// That of now; nothing where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        let file = open("/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 128];
        let length = read(&file, &mut text).ok()?;
        Self::parse(str::from_utf8(&text[..length]).ok()?, page_size() as u64)
    }

    /// proc_pid_statm(5): the second field and the sixth.
    fn parse(text: &str, page_bytes: u64) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(|pages| pages.parse::<u64>().ok());
        let resident = fields.nth(1)?? * page_bytes;
        Some(Self { resident, data: fields.nth(3)?? * page_bytes })
    }

    /// Lets the process grow until it has `resident_bytes`, and no further; the system may refuse.
    pub(crate) fn bound(&self, resident_bytes: u64) {
        let more = resident_bytes.saturating_sub(self.resident).max(LEAST_BYTES);
        let bytes = Some(self.data + more);
        let _ = setrlimit(Resource::Data, Rlimit { current: bytes, maximum: bytes });
    }
}

/// Whether the process has all it may have. Async-signal-safe.
#[expect(unsafe_code, reason = "to have memory and give it back is to name it by its place")]
pub(crate) fn is_exhausted() -> bool {
    // SAFETY: the place is new, nobody else learns of it, and it is given back.
    unsafe {
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let place = libc::mmap(ptr::null_mut(), PROBE_BYTES, libc::PROT_READ | libc::PROT_WRITE, how, -1, 0);
        place == libc::MAP_FAILED || libc::munmap(place, PROBE_BYTES) != 0
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
