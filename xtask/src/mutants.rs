//! `cargo xtask mutants ROOM`: changes the code of a room in small ways, one at a time, and tells of those that no test notices.
//!
//! The room's own tests are asked first, for they take a second; those over HTTP only about what is left.
//! Mutants that may live stand in `.cargo/mutants.toml`, each with its reason. What follows `--` goes to cargo-mutants as it
//! stands, to ask about a part of a room: `-- --re ledger.rs`, `-- --shard 0/4`.

use std::{fs, path::Path, process::Command};

use crate::{Failure, args::Args, clients, engine, place, tools, workers};

/// A part of the tree whose tests have to notice every change of it.
struct Room {
    name: &'static str,
    package: &'static str,
    /// Sources, as globs.
    files: &'static [&'static str],
    /// Sources among these that are rooms of their own.
    without: &'static [&'static str],
    /// The tests beside the code: parts of their names.
    own: &'static [&'static str],
    /// The tests of the other kind: their binary, and parts of their names.
    outside: (&'static str, &'static [&'static str]),
}

/// How cargo-mutants ends when all were tried: all caught, some missed, some timed out.
const TRIED: [i32; 3] = [0, 2, 3];

/// Where mutants are built, in the folder of all rooms.
const BUILD: &str = "build";

const GUARD: &[&str] = &["src/capability/guard.rs", "src/capability/guard/**"];
const SECRETS: &[&str] = &["src/capability/secret.rs", "src/capability/secret/**"];

const ROOMS: &[Room] = &[
    Room {
        name: "money",
        package: "tollhouse",
        files: &["src/money.rs", "src/money/**"],
        without: &[],
        own: &["money::"],
        outside: ("it", &["payments::", "credits::", "crash::", "revenue::", "payouts::", "bearer::", "story::", "gates::"]),
    },
    Room {
        name: "call",
        package: "tollhouse",
        files: &["src/call.rs", "src/call/**"],
        without: &[],
        own: &["call::"],
        outside: (
            "it",
            &["errors::", "ways::", "payments::", "calls::", "long::", "streams::", "drafts::", "owners::", "mcp::", "readiness::"],
        ),
    },
    Room {
        name: "capability",
        package: "tollhouse",
        files: &["src/capability.rs", "src/capability/**"],
        without: &[GUARD[0], GUARD[1], SECRETS[0], SECRETS[1]],
        own: &["capability::"],
        outside: ("it", &["apart::", "contract::", "fixtures::", "logs::", "secrets::", "gates::", "errors::"]),
    },
    Room {
        name: "guard",
        package: "tollhouse",
        files: GUARD,
        without: &[],
        own: &["capability::guard::"],
        outside: ("it", &["readiness::", "secrets::", "contract::", "story::"]),
    },
    Room {
        name: "secrets",
        package: "tollhouse",
        files: SECRETS,
        without: &[],
        own: &["capability::secret::"],
        outside: ("it", &["secrets::"]),
    },
    Room { name: "pool", package: "tollhouse-pool", files: &["sandbox/pool/src/**"], without: &[], own: &[], outside: ("pool", &[]) },
];

/// Asks the tests about every mutant of one room.
///
/// # Errors
///
/// The mutants that live, or what kept them from being tried.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let room = ROOMS.iter().find(|room| args.words == [room.name]).ok_or_else(which)?;
    let folder = place::target().join("mutants");
    _ = fs::remove_dir_all(folder.join(room.name));
    fs::create_dir_all(&folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
    let living = asked(room, &folder, args);
    // Mutants are built from a copy of the tree, elsewhere each time: nothing of it is of use again.
    _ = fs::remove_dir_all(folder.join(BUILD));
    let living = living?;
    if living.is_empty() { Ok(()) } else { Err(format!("no test of {} notices:\n{living}", room.name)) }
}

fn which() -> Failure {
    let names: Vec<_> = ROOMS.iter().map(|room| format!("`{}`", room.name)).collect();
    format!("`cargo xtask mutants` takes one room of {}", names.join(", "))
}

/// Both kinds of tests, one after the other; the mutants that live, a line each.
fn asked(room: &Room, folder: &Path, args: &Args) -> Result<String, Failure> {
    let mut own = cargo(room, folder, args)?;
    own.args(["--cargo-arg=--lib", "--", "--"]).args(room.own);
    let living = living(room, folder, &mut own)?;
    if living.is_empty() {
        return Ok(living);
    }
    note_hangs(&folder.join(room.name).join("mutants.out"))?;
    let (binary, claims) = room.outside;
    let mut outside = cargo(room, folder, args)?;
    outside.args(["--iterate", "--cargo-arg=--test", &format!("--cargo-arg={binary}"), "--", "--"]).args(claims);
    let clients = clients::prepare();
    outside.env("TOLLHOUSE_WORKER", workers::build(engine::pick(args.engine)?)?);
    outside.env("TOLLHOUSE_CLIENTS", clients.join().map_err(|_| "the installation of the payers broke")??);
    self::living(room, folder, &mut outside)
}

/// cargo-mutants on the sources of a room.
fn cargo(room: &Room, folder: &Path, args: &Args) -> Result<Command, Failure> {
    let mut cargo = Command::new(tools::MUTANTS.program()?);
    cargo.args(["mutants", "--package", room.package, "--no-shuffle", "--output"]).arg(folder.join(room.name));
    cargo.args(room.files.iter().flat_map(|glob| ["--file", glob])).args(room.without.iter().flat_map(|glob| ["--exclude", glob]));
    cargo.args(&args.rest).current_dir(place::root()).env("TMPDIR", folder).env("CARGO_TARGET_DIR", folder.join(BUILD));
    Ok(cargo)
}

/// Puts those that made tests hang among those caught: they were noticed, and to be asked about them again takes longest.
fn note_hangs(out: &Path) -> Result<(), Failure> {
    let lists = fs::read_to_string(out.join("caught.txt")).and_then(|caught| Ok(caught + &fs::read_to_string(out.join("timeout.txt"))?));
    lists.and_then(|lists| fs::write(out.join("caught.txt"), lists)).map_err(|why| format!("cannot note hangs in {}: {why}", out.display()))
}

/// The mutants that tests let live. One that makes them hang is noticed.
fn living(room: &Room, folder: &Path, tried: &mut Command) -> Result<String, Failure> {
    let status = tried.status().map_err(|why| format!("cannot start cargo-mutants: {why}"))?;
    if !status.code().is_some_and(|code| TRIED.contains(&code)) {
        return Err(format!("cargo-mutants failed: {status}"));
    }
    let list = folder.join(room.name).join("mutants.out/missed.txt");
    fs::read_to_string(&list).map_err(|why| format!("cannot read {}: {why}", list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_tests_of_every_room_are_there() {
        let there = |path: String| assert!(place::root().join(&path).exists(), "{path}");
        for room in ROOMS {
            for glob in room.files.iter().chain(room.without) {
                there(glob.trim_end_matches("/**").to_owned());
            }
            for claims in room.outside.1 {
                there(format!("tests/it/{}.rs", claims.trim_end_matches("::")));
            }
        }
    }
}
