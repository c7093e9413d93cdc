//! Handler for fatal signals, which reports to the host why code of a library ended this process.
//!
//! The engines count their own stack, but the TypeScript parser does not: only the guard page below
//! the stack stops it. The signal handler then sends the message that [`guarded`] has prepared.
//! Code that gets no memory, and can neither continue nor report that, calls abort: the exit status
//! then carries the reason. Any other signal has its default effect.

use std::{
    os::fd::RawFd,
    ptr,
    sync::atomic::{AtomicI32, AtomicPtr, Ordering},
};

use tollhouse_protocol::{ToHost, exit::OUT_OF_MEMORY, frame};

use crate::{footprint, host};

/// Stack of the signal handler, because the thread's own has run out. Far more than a signal frame
/// needs.
const STACK_BYTES: usize = 64 << 10;

/// Signals of a stack overflow, and of code that cannot continue.
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGTRAP];

/// The socket to the host.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// The prepared frame that reports a stack overflow, or null.
static FINAL_FRAME: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());

/// Installs the signal handler for the calling thread, with the host at `socket`.
#[expect(unsafe_code, reason = "no safe binding handles these signals")]
pub(crate) fn watch(socket: RawFd) {
    SOCKET.store(socket, Ordering::SeqCst);
    let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is never freed. All zeros are a valid action, whose handler and flags are
    // then set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fatal_signal as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaltstack(&raw const stack, ptr::null_mut());
        for signal in FATAL {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// Runs `work`, which must be safe code that uses only its own memory. If its stack overflows, the
/// host gets `message`.
#[expect(unsafe_code, reason = "a signal handler can access the frame only through a pointer")]
pub(crate) fn guarded<T>(message: &ToHost, work: impl FnOnce() -> T) -> T {
    let mut frame = Vec::new();
    if frame::encode(message, &mut frame).is_err() {
        return work();
    }
    FINAL_FRAME.store(Box::into_raw(Box::new(frame)), Ordering::SeqCst);
    let done = work();
    let frame = FINAL_FRAME.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: this is the pointer that was stored above, and nobody else frees it.
    drop(unsafe { Box::from_raw(frame) });
    done
}

/// Handles a fatal signal. Async-signal-safe: uses only an atomic and system calls.
#[expect(unsafe_code, reason = "a signal handler has only pointers")]
extern "C" fn on_fatal_signal(signal: libc::c_int) {
    if footprint::was_exhausted() {
        host::exit_now(OUT_OF_MEMORY);
    }
    let frame = FINAL_FRAME.load(Ordering::SeqCst);
    // SAFETY: the frame lives until `guarded` frees it, which this thread cannot do meanwhile.
    // Otherwise the signal is raised again, unhandled, when this function returns.
    unsafe {
        if frame.is_null() || signal != libc::SIGSEGV {
            // All of them: its own signals do not end the first process of a namespace, so abort()
            // there ends it with a fault.
            for signal in FATAL {
                libc::signal(signal, libc::SIG_DFL);
            }
            return;
        }
        host::claim_final_message();
        libc::write(SOCKET.load(Ordering::SeqCst), (*frame).as_ptr().cast(), (*frame).len());
    }
    host::exit_now(0)
}
