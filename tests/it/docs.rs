//! Runs shell blocks that a host shows, for example in its guides. `tests/docs.rs` runs those of the
//! documents.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Output,
};

use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    contract::installed,
    harness::{Host, chain::clients, tollhouse},
};

/// Marks a block that no test can run, with the reason.
const NOT_RUN: &str = "<!-- not run: ";

/// Replaces programs: the binary is the one from the build, installers find everything installed,
/// and `curl` prints status codes separately from answers.
const PROGRAMS: &str = r#"set -euo pipefail
curl() { command curl --noproxy '*' --write-out '%{stderr}HTTP %{http_code}\n' "$@"; }
tollhouse() { target/quick/tollhouse "$@"; }
npm() { test "$*" = ci || test "$1" = install; }
python3() { test "$*" = "-m venv .venv"; }
npx() { test "$1 $2 $3 $4" = "--yes --package typescript tsc"; shift 4; node "$TYPESCRIPT" "$@"; }
"#;

/// Returns the shell blocks of a text.
pub fn blocks_of(text: &str) -> Vec<String> {
    let mut blocks = vec![];
    let mut rest = text;
    while let Some((before, block)) = rest.split_once("\n```sh\n") {
        let (block, after) = block.split_once("\n```").unwrap();
        if !before.lines().next_back().is_some_and(|line| line.starts_with(NOT_RUN)) {
            blocks.push(block.to_owned());
        }
        rest = after;
    }
    blocks
}

/// Creates a folder that looks like the root of the repository after `cargo xtask serve`, with all
/// packages installed.
pub fn checkout(host: &Host) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for made in ["data", "target/quick", "fixtures/clients"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    fs::write(at("data/admin-token"), &host.admin).unwrap();
    symlink(tollhouse().get_program(), at("target/quick/tollhouse")).unwrap();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime-js"), at("runtime-js")).unwrap();
    for entry in fs::read_dir(clients()).unwrap().flatten() {
        symlink(entry.path(), at("fixtures/clients").join(entry.file_name())).unwrap();
    }
    symlink(clients().join("venv"), at("fixtures/clients/.venv")).unwrap();
    folder
}

pub async fn run(block: &str, folder: &Path) -> Output {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{PROGRAMS}{block}")]).current_dir(folder).env_clear().env("PATH", path);
    let typescript: PathBuf = installed().join("node_modules/typescript/bin/tsc");
    bash.env("HOME", folder)
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("TYPESCRIPT", typescript)
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// Returns the status codes that `curl` printed.
pub fn statuses(message: &str) -> impl Iterator<Item = u16> {
    message.lines().filter_map(|line| line.strip_prefix("HTTP ")?.parse().ok())
}
