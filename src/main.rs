//! The `tollhouse` binary.

use std::process::ExitCode;

/// The allocator. Calls make many small allocations on all threads at once, at which glibc's allocator is 10 % slower.
/// jemalloc's background threads return memory that any thread freed to the system within a second
/// (`.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tollhouse_cli::main()
}
