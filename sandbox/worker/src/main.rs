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
mod call;
mod clock;
mod engine;
mod host;
mod jail;
mod load;
mod memory;
mod ops;
mod scripts;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(descriptor) = socket(std::env::args().skip(1)) else {
        return ExitCode::from(64);
    };
    match worker::run(descriptor) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(70),
    }
}

/// The number after `--socket`, the only argument there is.
fn socket(mut arguments: impl Iterator<Item = String>) -> Option<i32> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (Some("--socket"), Some(number), None) => number.parse().ok().filter(|number| *number > 2),
        _ => None,
    }
}
