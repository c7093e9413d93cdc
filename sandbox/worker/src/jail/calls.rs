//! The system calls that are left, and what becomes of the others: the process is killed.
//!
//! The list is what `strace -ff` saw of V8 in each tier and of QuickJS, on all threads, between `Ready` and the end, under all tests of
//! the worker, and what the locks of V8 do in their source where two threads want one, which is rare. What QuickJS alone would do
//! without says that it is V8's. A line without a trace says so. Nothing executable is mapped any more: V8 has all of its range for
//! code from its boot on, and QuickJS none.

use rustix::{
    io::{Errno, Result},
    process::getpid,
};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

/// A condition on an argument.
#[derive(Debug, Clone, Copy)]
enum If {
    Always,
    /// The argument of this number has none of these bits.
    Without(u8, i32),
    /// The argument of this number is one of these.
    Is(u8, &'static [i32]),
    /// The first argument is this process.
    Own,
    /// V8 has memory keys to protect code with, and sets them page by page; where it compiles none, on QuickJS, and on other
    /// processors there are none.
    Keys,
}

/// Name, condition, reason.
const ALLOWED: &[(i64, If, &str)] = &[
    (libc::SYS_read, If::Always, "the socket: what the host says"),
    (libc::SYS_write, If::Always, "the socket: what the host is told; last words on standard error"),
    (libc::SYS_ppoll, If::Always, "waiting for the socket, and for a timer"),
    (libc::SYS_futex, If::Always, "watchdog and main thread wake each other; locks"),
    (libc::SYS_clock_gettime, If::Always, "processor time of the running call, which no page of the kernel tells"),
    (libc::SYS_getrandom, If::Always, "chance, for handlers and for hash tables"),
    (libc::SYS_brk, If::Always, "malloc"),
    (libc::SYS_mmap, If::Without(2, libc::PROT_EXEC), "heaps grow"),
    (libc::SYS_mremap, If::Always, "large blocks of malloc grow"),
    (libc::SYS_munmap, If::Always, "heaps shrink"),
    (libc::SYS_mprotect, If::Without(2, libc::PROT_EXEC), "malloc's arena of the watchdog grows; the guard page of its stack"),
    (libc::SYS_madvise, If::Always, "V8's collector gives pages back"),
    (libc::SYS_pkey_mprotect, If::Keys, "V8's code pages; not traced, for lack of such a processor"),
    (libc::SYS_prlimit64, If::Is(1, &[libc::RLIMIT_DATA as i32]), "the bound on memory, which comes with a bundle"),
    (libc::SYS_getpid, If::Always, "V8 asks when it maps; abort()"),
    (libc::SYS_gettid, If::Always, "V8's locks know their owner; the watchdog starts; abort()"),
    (libc::SYS_sched_getaffinity, If::Always, "how many processors there are: malloc, locks, hash tables of the TypeScript parser"),
    (libc::SYS_sched_yield, If::Always, "a lock of V8 that two want; not traced, for it is rare"),
    (libc::SYS_clock_nanosleep, If::Always, "a lock of V8 that two want; not traced, for it is rare"),
    (libc::SYS_sched_getparam, If::Always, "a lock of V8 that two want, which asks how urgent its thread is"),
    (libc::SYS_sched_getscheduler, If::Always, "a lock of V8 that two want, which asks how urgent its thread is"),
    (libc::SYS_restart_syscall, If::Always, "waiting goes on after the process was stopped and continued; not traced"),
    (libc::SYS_set_robust_list, If::Always, "the watchdog starts, perhaps only now"),
    (libc::SYS_rseq, If::Always, "the watchdog starts"),
    (libc::SYS_sigaltstack, If::Always, "the watchdog starts"),
    (libc::SYS_rt_sigprocmask, If::Always, "the watchdog starts; abort()"),
    (libc::SYS_prctl, If::Is(0, &[libc::PR_SET_NAME, libc::PR_SET_VMA]), "the watchdog starts; V8 names memory for a lock that two want"),
    (libc::SYS_rt_sigaction, If::Always, "abort(), and the end by a stack that is full"),
    (libc::SYS_rt_sigreturn, If::Always, "the end by a stack that is full"),
    (libc::SYS_tgkill, If::Own, "abort()"),
    (libc::SYS_close, If::Always, "the socket, at the end"),
    (libc::SYS_exit_group, If::Always, "the end"),
];

/// What libraries ask for late, and do without: how many processors there are, as V8 does for its first lock that two want and
/// the TypeScript parser for its first table, and what time zone. There is no such file, whatever the name.
const NOT_FOUND: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
];

/// Lets all threads make the system calls above and no others. `compiles`: whether the engine does.
pub(crate) fn allow_few(compiles: bool) -> Result<()> {
    install(compiles).map_err(errno)
}

/// The error number of what the system did not want.
pub(super) fn errno(error: Error) -> Errno {
    match error {
        Error::Seccomp(error) | Error::Prctl(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        _ => Errno::INVAL,
    }
}

fn install(compiles: bool) -> std::result::Result<(), Error> {
    let mut allowed: Vec<_> = NOT_FOUND.iter().map(|call| (*call, Vec::new())).collect();
    for (call, condition, _reason) in ALLOWED {
        if let Some(rules) = rules(*condition, compiles)? {
            allowed.push((*call, rules));
        }
    }
    let refused = NOT_FOUND.iter().map(|call| (*call, Vec::new())).collect();
    // Of two filters the stricter answer counts.
    for filter in [
        SeccompFilter::new(refused, SeccompAction::Allow, SeccompAction::Errno(libc::ENOENT.unsigned_abs()), arch()?)?,
        SeccompFilter::new(allowed.into_iter().collect(), SeccompAction::KillProcess, SeccompAction::Allow, arch()?)?,
    ] {
        apply(filter)?;
    }
    Ok(())
}

/// Puts a filter in force, on all threads.
pub(super) fn apply(filter: SeccompFilter) -> std::result::Result<(), Error> {
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}

pub(super) fn arch() -> std::result::Result<seccompiler::TargetArch, BackendError> {
    std::env::consts::ARCH.try_into()
}

/// The rules of a condition, none of them for a call that is allowed always; nothing where it is not met here.
fn rules(condition: If, compiles: bool) -> std::result::Result<Option<Vec<SeccompRule>>, BackendError> {
    match condition {
        If::Always => Ok(Some(Vec::new())),
        If::Keys => Ok((compiles && has_keys()).then(Vec::new)),
        If::Without(argument, bits) => Ok(Some(vec![rule(argument, SeccompCmpOp::MaskedEq(u64::from(bits.unsigned_abs())), 0)?])),
        If::Is(argument, values) => {
            values.iter().map(|value| rule(argument, SeccompCmpOp::Eq, *value)).collect::<std::result::Result<_, _>>().map(Some)
        }
        If::Own => Ok(Some(vec![rule(0, SeccompCmpOp::Eq, getpid().as_raw_nonzero().get())?])),
    }
}

fn rule(argument: u8, operator: SeccompCmpOp, value: i32) -> std::result::Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.unsigned_abs().into())?])
}

/// Whether this processor has keys that memory is protected with, pkeys(7), and V8 uses them.
#[expect(unsafe_code, reason = "no safe binding allocates a key")]
fn has_keys() -> bool {
    if cfg!(feature = "quickjs") {
        return false;
    }
    // SAFETY: takes and gives numbers alone; the key protects nothing when it is given back.
    unsafe {
        let key = libc::syscall(libc::SYS_pkey_alloc, 0, 0);
        key >= 0 && libc::syscall(libc::SYS_pkey_free, key) == 0
    }
}
