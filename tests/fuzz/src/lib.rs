//! Checks properties that must hold for any input from strangers: on seeds, on mutations of them,
//! and with libFuzzer on more.
//!
//! A target is a test next to the code that reads the input:
//! `tollhouse_fuzz::check("frame", |bytes| …)`, where the closure panics if a property does not
//! hold. Its seeds are the files of `seeds/frame/`: real examples, and inputs that once broke it.
//! `cargo test` checks each seed, and then mutations for a moment. `cargo xtask fuzz frame` builds
//! the same test with coverage counters, and libFuzzer runs it for a given time.

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

/// Maximum time for mutations under `cargo test`.
const MOMENT: Duration = Duration::from_millis(1_500);

/// Maximum number of mutations under `cargo test`.
const MUTATIONS: usize = 3_000;

/// Maximum length of a mutation, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// Calls `holds` with the seeds of `target` and with mutations of them. `holds` must panic if a
/// property is violated.
///
/// # Panics
///
/// As `holds` does, after printing the input to standard error. Also if the target has no seeds.
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
    for position in 0..MUTATIONS {
        if Instant::now() > until {
            break;
        }
        ask(holds, &mutations.next(), &format!("mutation {position} of `{target}`"));
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

/// Returns the files of a folder, sorted by name.
fn read(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort_unstable();
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).expect("a seed can be read"))).collect()
}
