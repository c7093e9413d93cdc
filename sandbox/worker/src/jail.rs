//! What a worker gives up before it takes a bundle, layer by layer, in order.
//!
//! Each function answers whether its layer is in force; a layer that the system refuses is left
//! out of [`JailLayer`]s reported, and the host decides whether that is enough.

use std::os::fd::RawFd;

use rustix::{
    param::page_size,
    process::{DumpableBehavior, Resource, Rlimit, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal, setrlimit},
    thread::set_no_new_privs,
};
use tollhouse_protocol::JailLayer;

/// Descriptors a worker may hold at once: standard streams, the socket, and nothing to spare for a handler.
const DESCRIPTORS: u64 = 8;

/// Applies every layer; what is in force comes back.
pub(crate) fn enter(socket: RawFd) -> Vec<JailLayer> {
    let layers: [(JailLayer, &dyn Fn() -> bool); 5] = [
        (JailLayer::Descriptors, &|| close_others(socket)),
        (JailLayer::ParentDeathSignal, &die_with_parent),
        (JailLayer::Rlimits, &limit_resources),
        (JailLayer::NoNewPrivs, &|| set_no_new_privs(true).is_ok()),
        (JailLayer::NotDumpable, &|| set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()),
    ];
    layers.into_iter().filter_map(|(layer, apply)| apply().then_some(layer)).collect()
}

/// Closes every descriptor but the standard streams and the socket.
#[expect(unsafe_code, reason = "no safe binding closes descriptors that nobody here owns")]
fn close_others(socket: RawFd) -> bool {
    let Ok(socket) = u32::try_from(socket) else { return false };
    let range = |first: u32, last: u32| {
        // SAFETY: whatever the host left open in this range is not owned by anything in this process.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    range(3, socket - 1) && range(socket + 1, u32::MAX)
}

/// Has the kernel kill this process when the host's thread that started it ends.
fn die_with_parent() -> bool {
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && getppid().is_some()
}

/// No core dumps, no files, no further descriptors or processes; on QuickJS a bound on addresses.
#[expect(unsafe_code, reason = "no safe binding ignores a signal")]
fn limit_resources() -> bool {
    // A write to standard error, where that is a file, is to fail and not to kill.
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let hard = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    let always = setrlimit(Resource::Core, hard(0)).is_ok()
        && setrlimit(Resource::Fsize, hard(0)).is_ok()
        && setrlimit(Resource::Nofile, hard(DESCRIPTORS)).is_ok()
        && setrlimit(Resource::Memlock, hard(0)).is_ok();
    // V8 reserves far more addresses than it uses: there the limit is the host's, on resident memory.
    let addresses =
        cfg!(not(feature = "quickjs")) || setrlimit(Resource::As, hard(ADDRESS_BYTES / page_size() as u64 * page_size() as u64)).is_ok();
    always && addresses
}

/// Address space of a worker on QuickJS, in bytes: heap, buffers and the process itself. 1 GiB.
const ADDRESS_BYTES: u64 = 1 << 30;

/// Allows no thread or process beyond those there are. Applied last, when the watchdog runs.
/// The kernel does not hold this against root or `CAP_SYS_RESOURCE`.
pub(crate) fn forbid_new_processes() -> bool {
    setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) }).is_ok()
}
