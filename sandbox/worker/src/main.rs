//! The process that runs one handler.
//!
//! ```text
//! boot ── harden ── jail ── Ready ── Load ── Loaded ── (Call ── … ── Done)*
//! ```
//!
//! One thread runs JavaScript and speaks to the host over one socket; all waiting is waiting for
//! that socket. A second thread, the watchdog of [`budget`], stops what overruns its time. The
//! process trusts neither the handler nor anything the handler can reach, and expects to be killed:
//! the host enforces every limit again (see `sandbox/README.md`).

mod budget;
mod call_state;
mod clock;
mod decoders;
mod driver;
mod engine;
mod fatal;
mod footprint;
mod heap;
mod host;
mod jail;
mod load;
mod memory;
mod nesting;
mod op_queue;
mod ops;
mod pump;
mod schema;
mod scripts;
mod stack;
mod typescript;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some((descriptor, user)) = arguments(std::env::args().skip(1)) else {
        return ExitCode::from(64);
    };
    settle_environment();
    match worker::run(descriptor, user) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(tollhouse_protocol::exit::UNSAID),
    }
}

/// The number after `--socket`, and the one after `--user` where there is one: whom to become.
fn arguments(mut arguments: impl Iterator<Item = String>) -> Option<(i32, Option<u32>)> {
    let mut after = |name: &str| (arguments.next()? == name).then(|| arguments.next()).flatten();
    let socket = after("--socket")?.parse().ok().filter(|number| *number > 2)?;
    let user = after("--user").map(|number| number.parse()).transpose().ok()?;
    arguments.next().is_none().then_some((socket, user))
}

/// What the engines read of the environment, which the host leaves empty.
#[expect(unsafe_code, reason = "the engines read the environment and nothing else")]
fn settle_environment() {
    // SAFETY: no other thread runs yet.
    unsafe {
        // QuickJS would keep compiled code in a folder, under names a handler can collide with.
        std::env::set_var("V82JSC_NO_BC_CACHE", "1");
        // No time zone is looked up in a file, and no handler learns where the host is.
        std::env::set_var("TZ", "UTC");
    }
}
