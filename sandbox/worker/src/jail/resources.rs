//! Resource limits of the process: descriptors, rlimits, and the order of killing when memory runs
//! out.

use std::{fs, io, os::fd::RawFd};

use rustix::{
    io::{Errno, Result},
    param::page_size,
    process::{Resource, Rlimit, setrlimit},
};

/// Maximum descriptors of a worker: standard streams and the socket, and none for a handler to use.
const DESCRIPTORS: u64 = 8;

/// Address space of a worker on QuickJS, in bytes: heap, buffers and the process itself.
const ADDRESS_BYTES: u64 = 1 << 30;

/// Closes every descriptor but the standard streams and the socket.
#[expect(unsafe_code, reason = "no safe binding closes descriptors that nobody here owns")]
pub(crate) fn close_others(socket: RawFd) -> Result<()> {
    let socket = u32::try_from(socket).map_err(|_| Errno::BADF)?;
    let close = |first: u32, last: u32| {
        // SAFETY: nothing in this process owns the descriptors that the host left open in this
        // range.
        if first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
            Ok(())
        } else {
            Err(errno(&io::Error::last_os_error()))
        }
    };
    close(3, socket - 1)?;
    close(socket + 1, u32::MAX)
}

/// Makes the kernel end this process first when memory runs out, before the host.
#[expect(clippy::disallowed_methods, reason = "the kernel takes the score from a file; no handler runs yet")]
pub(crate) fn raise_oom_score() -> Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000").map_err(|error| errno(&error))
}

/// Forbids core dumps, files and further descriptors. On QuickJS also limits the address space.
#[expect(unsafe_code, reason = "no safe binding ignores a signal")]
pub(crate) fn limit() -> Result<()> {
    // A write to standard error, if that is a file, must fail instead of killing the process.
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    setrlimit(Resource::Core, hard_limit(0))?;
    setrlimit(Resource::Fsize, hard_limit(0))?;
    setrlimit(Resource::Nofile, hard_limit(DESCRIPTORS))?;
    setrlimit(Resource::Memlock, hard_limit(0))?;
    if cfg!(feature = "quickjs") {
        // V8 reserves far more addresses than it uses. There the host limits resident memory
        // instead.
        setrlimit(Resource::As, hard_limit(ADDRESS_BYTES / page_size() as u64 * page_size() as u64))?;
    }
    Ok(())
}

/// Forbids threads and processes beyond the existing ones. The kernel does not apply this to root
/// or `CAP_SYS_RESOURCE`.
pub(crate) fn forbid_new_processes() -> Result<()> {
    setrlimit(Resource::Nproc, hard_limit(0))
}

/// Returns a limit that the process cannot raise again.
fn hard_limit(value: u64) -> Rlimit {
    Rlimit { current: Some(value), maximum: Some(value) }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
