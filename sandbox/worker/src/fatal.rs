//! What the host is told when a signal ends this process that code which is not ours brought about.
//!
//! The engines count their own stack; what reads TypeScript does not, and nothing but the guard below the stack stops it. The
//! system's signal then finds the words prepared by [`guarded`], and sends them. Who is refused memory, and can neither go on
//! nor say so, aborts: that is told by the status. Any other signal does what it always does.

use std::{
    os::fd::RawFd,
    ptr,
    sync::atomic::{AtomicI32, AtomicPtr, Ordering},
};

use tollhouse_protocol::{ToHost, exit::OUT_OF_MEMORY, frame};

use crate::{footprint, host};

/// Stack of the one who handles the signal: the thread's own has run out. Far more than a signal's frame takes.
const STACK_BYTES: usize = 64 << 10;

/// What an overrun of the stack raises, and what those do who cannot go on.
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGTRAP];

/// The socket to the host.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// The frame to send, while there is one.
static WORDS: AtomicPtr<Vec<u8>> = AtomicPtr::new(ptr::null_mut());

/// Prepares the calling thread, whose host is at `socket`.
#[expect(unsafe_code, reason = "no safe binding handles these signals")]
pub(crate) fn watch(socket: RawFd) {
    SOCKET.store(socket, Ordering::SeqCst);
    let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is never freed, and all zeros are a valid action, in which the handler and its flags are then set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaltstack(&raw const stack, ptr::null_mut());
        for signal in FATAL {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// Does `work`, which is safe code and touches no memory but its own; if its stack runs out the host hears `message`.
#[expect(unsafe_code, reason = "the frame is a pointer, as a signal finds it")]
pub(crate) fn guarded<T>(message: &ToHost, work: impl FnOnce() -> T) -> T {
    let mut frame = Vec::new();
    if frame::encode(message, &mut frame).is_err() {
        return work();
    }
    WORDS.store(Box::into_raw(Box::new(frame)), Ordering::SeqCst);
    let done = work();
    let frame = WORDS.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: nobody else takes what was stored above, and goes on.
    drop(unsafe { Box::from_raw(frame) });
    done
}

/// Async-signal-safe: an atomic, and system calls.
#[expect(unsafe_code, reason = "a signal's handler has nothing but pointers")]
extern "C" fn on_fault(signal: libc::c_int) {
    if footprint::is_exhausted() {
        host::exit_now(OUT_OF_MEMORY);
    }
    let words = WORDS.load(Ordering::SeqCst);
    // SAFETY: the frame lives until `guarded` has taken it back, which this thread cannot do meanwhile. Else the signal happens
    // again, unhandled, when this function returns.
    unsafe {
        if words.is_null() || signal != libc::SIGSEGV {
            // All of them: abort() of the first process of a namespace, which no signal of its own ends, ends it by a fault.
            for signal in FATAL {
                libc::signal(signal, libc::SIG_DFL);
            }
            return;
        }
        host::claim_last_words();
        libc::write(SOCKET.load(Ordering::SeqCst), (*words).as_ptr().cast(), (*words).len());
    }
    host::exit_now(0)
}
