//! Runs every shell block of the documents in order, on a host with the built-in tools, and checks
//! that it works.

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

/// In the reading order of a newcomer. Later blocks may use what earlier ones published.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "docs/agents.md",
    "docs/builders.md",
    "docs/admins.md",
    "docs/cli.md",
    "docs/operators.md",
    "docs/security.md",
    "CONTRIBUTING.md",
];

/// Marks a block that no test can run, with the reason.
const NOT_RUN: &str = "<!-- not run: ";

/// Replaces programs: the binary is the one from the build, installers find everything installed,
/// and `curl` prints status codes separately from answers.
const PROGRAMS: &str = r#"set -euo pipefail
curl() { command curl --noproxy '*' --write-out '%{stderr}HTTP %{http_code}\n' "$@"; }
tollhouse() { target/release/tollhouse "$@"; }
npm() { test "$*" = ci || test "$1" = install; }
python3() { test "$*" = "-m venv .venv"; }
npx() { test "$1 $2 $3 $4" = "--yes --package typescript tsc"; shift 4; node "$TYPESCRIPT" "$@"; }
"#;

/// Returns the shell blocks of a document that a reader can run unchanged.
fn blocks(document: &str) -> Vec<String> {
    blocks_of(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap())
}

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
    for made in ["data", "target/release", "fixtures/clients"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    fs::write(at("data/admin-token"), &host.admin).unwrap();
    symlink(tollhouse().get_program(), at("target/release/tollhouse")).unwrap();
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

#[tokio::test]
async fn every_shell_block_works() {
    let host = Host::builder().with_catalogue().start().await;
    let folder = checkout(&host);
    let address = host.url.strip_prefix("http://").unwrap();
    let mut receipt = String::new();
    for (document, block) in DOCUMENTS.into_iter().flat_map(|document| blocks(document).into_iter().map(move |block| (document, block))) {
        let here = block
            .replace("localhost:4020", address)
            .replace("127.0.0.1:4020", address)
            .replace("/tmp", folder.path().to_str().unwrap())
            .replace("RECEIPT_ID", &receipt);
        let Output { status, stdout, stderr } = run(&here, folder.path()).await;
        let (message, reported) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{document}: {block}\n{message}\n{reported}");
        // The answer to an unpaid call is a challenge.
        let refused: Vec<_> = statuses(&reported).filter(|status| !matches!(status, 200..300 | 402)).collect();
        assert!(refused.is_empty() && !message.contains("\"receiptId\":null"), "{document}: {block}\n{message}\n{reported}");
        if let Some((_, after)) = message.rsplit_once("\"receiptId\":\"") {
            receipt = after.split('"').next().unwrap().to_owned();
        }
    }
}

#[test]
fn the_first_steps_are_among_the_blocks() {
    let all: String = DOCUMENTS.iter().flat_map(|document| blocks(document)).collect();
    for step in ["node pay.mjs", "pay.py", "verify-receipt", "/ai/invoke", "/ai/endpoints/create", "tsc --noEmit"] {
        assert!(all.contains(step), "{step}");
    }
}
