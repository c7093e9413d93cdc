//! The process that runs one handler.
//!
//! ```text
//! boot ── harden ── jail ── Ready ── Load ── Loaded ── (Call ── … ── Done)*
//! ```
//!
//! Most workers do not boot: they are forked from a booted [`zygote`].
//!
//! One thread runs JavaScript and communicates with the host over one socket. It never waits for
//! anything but that socket. A second thread, the watchdog of [`budget`], stops code that exceeds
//! its time. The process trusts neither the handler nor anything the handler can reach, and can be
//! killed at any time: the host enforces every limit again (see `sandbox/README.md`).

mod advice;
mod budget;
mod call_state;
mod clock;
mod compressors;
mod counted_alloc;
mod crash_handler;
mod decoders;
mod defaults;
mod driver;
mod engine;
mod footprint;
mod heap;
mod host;
mod jail;
mod load;
mod memory;
mod multipart;
mod nesting;
mod op_queue;
mod ops;
mod pattern;
mod pump;
mod rejections;
mod schema;
mod scripts;
mod stack;
mod transpile;
mod typescript;
mod warm_up;
mod worker;
mod zygote;

use std::process::ExitCode;

use tollhouse_protocol::Tier;

use crate::{host::HostGone, worker::WorkerOptions};

/// The main function of a role: worker or zygote.
type RoleMain = fn(WorkerOptions) -> Result<(), HostGone>;

fn main() -> ExitCode {
    if std::env::args().skip(1).eq(["--about".to_owned()]) {
        return about();
    }
    let Some((role_main, options)) = arguments(std::env::args().skip(1)) else {
        return ExitCode::from(64);
    };
    set_environment();
    match role_main(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(tollhouse_protocol::exit::UNREPORTED),
    }
}

/// Prints engine, version and tiers as JSON.
fn about() -> ExitCode {
    let engine = if cfg!(feature = "v8") { "v8" } else { "quickjs" };
    let tiers = Tier::SETTABLE.map(|tier| tier.to_string());
    let about = serde_json::json!({ "engine": engine, "version": env!("CARGO_PKG_VERSION"), "tiers": tiers });
    match std::io::Write::write_all(&mut std::io::stdout(), format!("{about}\n").as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Parses the arguments: `--socket` with a descriptor for a worker or `--zygote` for a zygote,
/// `--user` with a user to switch to, and `--tier`.
fn arguments(mut words: impl Iterator<Item = String>) -> Option<(RoleMain, WorkerOptions)> {
    let (mut role_main, mut user, mut tier) = (None, None, Tier::default());
    while let Some(name) = words.next() {
        let value = words.next()?;
        let socket = || value.parse().ok().filter(|number| *number > 2);
        match &*name {
            "--socket" => role_main = Some((worker::run as RoleMain, socket()?)),
            "--zygote" => role_main = Some((zygote::run as RoleMain, socket()?)),
            "--user" => user = Some(value.parse().ok()?),
            "--tier" => tier = Tier::of_worker(&value)?,
            _ => return None,
        }
    }
    let (role_main, socket) = role_main?;
    Some((role_main, WorkerOptions { socket, user, tier }))
}

/// Sets the environment variables that the engines read. The host leaves the environment empty.
#[expect(unsafe_code, reason = "the engines take these settings from the environment only")]
fn set_environment() {
    // SAFETY: no other thread runs yet.
    unsafe {
        // Otherwise QuickJS would cache compiled code in a folder, and a handler could cause
        // collisions of the file names.
        std::env::set_var("V82JSC_NO_BC_CACHE", "1");
        // Prevents a look-up of the time zone in a file, and hides the host's time zone from
        // handlers.
        std::env::set_var("TZ", "UTC");
    }
}
