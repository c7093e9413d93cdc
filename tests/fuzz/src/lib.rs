//! What must hold of any bytes that strangers send: asked about seeds, about mutations of them, and, by libFuzzer, about more.
//!
//! A target is a test beside the code that reads the bytes: `tollhouse_fuzz::check("frame", |bytes| …)`, where the closure panics
//! for bytes of which something does not hold. Its seeds are the files of `seeds/frame/`: real examples, and what once broke.
//! Under `cargo test` the closure is asked about each of them, then about mutations for a moment; `cargo xtask fuzz frame` builds the
//! same test with coverage counters and has libFuzzer ask for as long as is wanted.

#![warn(missing_docs)]

#[cfg(feature = "guided")]
mod guided;
mod mutation;

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mutation::Mutations;

/// How long mutations are asked about under `cargo test`, at most.
const MOMENT: Duration = Duration::from_millis(1_500);

/// Most mutations that are asked about under `cargo test`.
const MUTATIONS: usize = 3_000;

/// Longest mutation, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// Asks `holds` about the seeds of `target` and about what is made of them. It is to panic where something does not hold.
///
/// # Panics
///
/// As `holds` does, with the bytes on standard error; and where the target has no seeds.
pub fn check(target: &str, holds: fn(&[u8])) {
    let folder = seeds_of(target);
    #[cfg(feature = "guided")]
    if guided::is_wanted() {
        return guided::run(target, &folder, holds);
    }
    let seeds = read(&folder);
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    for (path, bytes) in &seeds {
        ask(holds, bytes, &path.display().to_string());
    }
    let mut mutations = Mutations::new(target, seeds.into_iter().map(|(_, bytes)| bytes).collect(), MAX_BYTES);
    let until = Instant::now() + MOMENT;
    for place in 0..MUTATIONS {
        if Instant::now() > until {
            break;
        }
        ask(holds, &mutations.next(), &format!("mutation {place} of `{target}`"));
    }
}

fn ask(holds: fn(&[u8]), bytes: &[u8], what: &str) {
    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| holds(bytes))) {
        eprintln!("{what}, {} bytes: b\"{}\"", bytes.len(), bytes.escape_ascii());
        panic::resume_unwind(panic);
    }
}

fn seeds_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

/// Files of a folder in the order of their names.
fn read(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).expect("a seed can be read"))).collect()
}
