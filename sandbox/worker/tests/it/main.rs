//! Tests the built worker over a socket pair, as a host would use it.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "a test acts as the host: it starts processes, measures and prints")]

mod body;
mod calls;
mod crypto;
mod encoding;
mod ended;
mod events;
mod fetch;
mod fetch_bodies;
mod file_reader;
mod fuzz;
mod harness;
mod hostile;
mod interfaces;
mod jail;
mod loading;
mod logs;
mod memory;
mod options;
mod queued;
mod scheduled;
mod schemas;
mod speed;
mod streamed;
mod streams;
mod tiers;
mod wait_until;
#[cfg(feature = "v8")]
mod wasm;
mod web;
