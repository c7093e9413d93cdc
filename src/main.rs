//! The `tollhouse` binary.

use std::process::ExitCode;

/// Calls are many small allocations on all threads at once: glibc's allocator is a tenth slower at that. Threads of its own give
/// back to the system, within a second (`.cargo/config.toml`), what was freed and not asked for again, whichever thread had it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tollhouse_cli::main()
}
