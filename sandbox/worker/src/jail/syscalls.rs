//! The allowed system calls. Any other call kills the process.
//!
//! The list is the result of `strace -ff` for V8 in each tier and for QuickJS, on all threads
//! between `Ready` and the end, in all tests of the worker. It also contains the calls of V8's
//! locks under contention, which is rare; these come from its source. The reason of an entry mentions
//! if only V8 needs the call, and if there is no trace of it. Nothing is mapped as executable any
//! more at this point: V8 reserves its whole code range at boot, and QuickJS has none.
//!
//! The code of WebAssembly is the exception: V8 reserves memory for each module, and makes it
//! executable. So this is allowed in the tier `wasm` alone. A handler that controls its process gains
//! nothing from it, because V8's code range is writable and executable in the tier `jit` too.

use rustix::{
    io::{Errno, Result},
    process::getpid,
};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

/// A condition for an allowed call.
#[derive(Debug, Clone, Copy)]
enum ArgCondition {
    Always,
    /// The argument with this index has none of these bits.
    Without(u8, i32),
    /// The argument with this index is one of these values.
    Is(u8, &'static [i32]),
    /// The same, unless the engine adds code.
    WithoutOrAddingCode(u8, i32),
    /// The first argument is this process.
    OwnProcess,
    /// The processor has memory protection keys, and V8 compiles code, whose pages it protects with
    /// them.
    ProtectionKeys,
}

/// Number, condition and reason of each allowed call.
const ALLOWED: &[(i64, ArgCondition, &str)] = &[
    (libc::SYS_read, ArgCondition::Always, "messages of the host"),
    (libc::SYS_write, ArgCondition::Always, "messages to the host; a panic message on standard error"),
    (libc::SYS_ppoll, ArgCondition::Always, "waits for the socket with a time-out"),
    (libc::SYS_futex, ArgCondition::Always, "locks; watchdog and main thread wake each other"),
    (libc::SYS_clock_gettime, ArgCondition::Always, "processor time of the running call, which the vDSO does not provide"),
    (libc::SYS_getrandom, ArgCondition::Always, "random numbers for handlers and hash tables"),
    (libc::SYS_brk, ArgCondition::Always, "malloc"),
    (libc::SYS_mmap, ArgCondition::Without(2, libc::PROT_EXEC), "heaps grow"),
    (libc::SYS_mremap, ArgCondition::Always, "large blocks of malloc grow"),
    (libc::SYS_munmap, ArgCondition::Always, "heaps shrink"),
    (
        libc::SYS_mprotect,
        ArgCondition::WithoutOrAddingCode(2, libc::PROT_EXEC),
        "malloc's arena of the watchdog grows; the guard page of its stack; V8's memory and code of WebAssembly",
    ),
    (libc::SYS_madvise, ArgCondition::Always, "V8's garbage collector releases pages"),
    (libc::SYS_pkey_mprotect, ArgCondition::ProtectionKeys, "V8's code pages; not traced, because such a processor was missing"),
    (libc::SYS_prlimit64, ArgCondition::Is(1, &[libc::RLIMIT_DATA as i32]), "the memory limit of a bundle"),
    (libc::SYS_getpid, ArgCondition::Always, "V8 maps memory; abort()"),
    (libc::SYS_gettid, ArgCondition::Always, "V8's locks store their owner; the watchdog starts; abort()"),
    (libc::SYS_sched_getaffinity, ArgCondition::Always, "number of processors, for malloc, locks and hash tables of the TypeScript parser"),
    (libc::SYS_sched_yield, ArgCondition::Always, "a contended lock of V8; not traced, because it is rare"),
    (libc::SYS_clock_nanosleep, ArgCondition::Always, "a contended lock of V8; not traced, because it is rare"),
    (libc::SYS_sched_getparam, ArgCondition::Always, "a contended lock of V8 reads the priority of its thread"),
    (libc::SYS_sched_getscheduler, ArgCondition::Always, "a contended lock of V8 reads the priority of its thread"),
    (libc::SYS_restart_syscall, ArgCondition::Always, "a wait resumes after SIGSTOP and SIGCONT; not traced"),
    (libc::SYS_set_robust_list, ArgCondition::Always, "the watchdog starts, possibly after the filter"),
    (libc::SYS_rseq, ArgCondition::Always, "the watchdog starts"),
    (libc::SYS_sigaltstack, ArgCondition::Always, "the watchdog starts"),
    (libc::SYS_rt_sigprocmask, ArgCondition::Always, "the watchdog starts; abort()"),
    (
        libc::SYS_prctl,
        ArgCondition::Is(0, &[libc::PR_SET_NAME, libc::PR_SET_VMA]),
        "the watchdog starts; V8 names memory of a contended lock",
    ),
    (libc::SYS_rt_sigaction, ArgCondition::Always, "abort(); a stack overflow"),
    (libc::SYS_rt_sigreturn, ArgCondition::Always, "a stack overflow"),
    (libc::SYS_tgkill, ArgCondition::OwnProcess, "abort()"),
    (libc::SYS_close, ArgCondition::Always, "closes the socket at exit"),
    (libc::SYS_exit_group, ArgCondition::Always, "exit"),
];

/// Calls that fail with "not found" instead. Libraries open files late for data that they can do
/// without: the time zone, and the number of processors, which V8 reads for its first contended lock
/// and the TypeScript parser for its first hash table.
const NOT_FOUND: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
];

/// Allows the system calls above, and no others, on all threads. `compiles`: whether the engine
/// compiles code. `adds_code`: whether it makes new memory executable.
pub(crate) fn allow_few(compiles: bool, adds_code: bool) -> Result<()> {
    install(compiles, adds_code).map_err(errno)
}

/// Returns the error number of a filter that the system refused.
pub(super) fn errno(error: Error) -> Errno {
    match error {
        Error::Seccomp(error) | Error::Prctl(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        _ => Errno::INVAL,
    }
}

fn install(compiles: bool, adds_code: bool) -> std::result::Result<(), Error> {
    let mut allowed: Vec<_> = NOT_FOUND.iter().map(|call| (*call, Vec::new())).collect();
    for (call, condition, _reason) in ALLOWED {
        if let Some(rules) = rules(*condition, compiles, adds_code)? {
            allowed.push((*call, rules));
        }
    }
    let refused = NOT_FOUND.iter().map(|call| (*call, Vec::new())).collect();
    // If two filters apply, the stricter result counts.
    for filter in [
        SeccompFilter::new(refused, SeccompAction::Allow, SeccompAction::Errno(libc::ENOENT.unsigned_abs()), arch()?)?,
        SeccompFilter::new(allowed.into_iter().collect(), SeccompAction::KillProcess, SeccompAction::Allow, arch()?)?,
    ] {
        apply(filter)?;
    }
    Ok(())
}

/// Applies a filter to all threads.
pub(super) fn apply(filter: SeccompFilter) -> std::result::Result<(), Error> {
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}

pub(super) fn arch() -> std::result::Result<seccompiler::TargetArch, BackendError> {
    std::env::consts::ARCH.try_into()
}

/// Returns the rules of a condition: an empty list for a call that is always allowed, `None` if the
/// condition does not hold here.
fn rules(condition: ArgCondition, compiles: bool, adds_code: bool) -> std::result::Result<Option<Vec<SeccompRule>>, BackendError> {
    match condition {
        ArgCondition::Always => Ok(Some(Vec::new())),
        ArgCondition::WithoutOrAddingCode(..) if adds_code => Ok(Some(Vec::new())),
        ArgCondition::ProtectionKeys => Ok((compiles && has_protection_keys()).then(Vec::new)),
        ArgCondition::Without(argument, bits) | ArgCondition::WithoutOrAddingCode(argument, bits) => {
            Ok(Some(vec![rule(argument, SeccompCmpOp::MaskedEq(u64::from(bits.unsigned_abs())), 0)?]))
        }
        ArgCondition::Is(argument, values) => {
            values.iter().map(|value| rule(argument, SeccompCmpOp::Eq, *value)).collect::<std::result::Result<_, _>>().map(Some)
        }
        ArgCondition::OwnProcess => Ok(Some(vec![rule(0, SeccompCmpOp::Eq, getpid().as_raw_nonzero().get())?])),
    }
}

fn rule(argument: u8, operator: SeccompCmpOp, value: i32) -> std::result::Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.unsigned_abs().into())?])
}

/// Returns whether this processor has memory protection keys (pkeys(7)) and V8 uses them.
#[expect(unsafe_code, reason = "no safe binding allocates a key")]
fn has_protection_keys() -> bool {
    if cfg!(feature = "quickjs") {
        return false;
    }
    // SAFETY: takes and returns only numbers. The key protects nothing when it is freed.
    unsafe {
        let key = libc::syscall(libc::SYS_pkey_alloc, 0, 0);
        key >= 0 && libc::syscall(libc::SYS_pkey_free, key) == 0
    }
}
