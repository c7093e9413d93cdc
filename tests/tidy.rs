//! Who may name whom (the layers of `src/lib.rs`), held by reading the sources.

use std::{
    fs, iter,
    path::{Path, PathBuf},
};

/// A word that only some files may use: the word, the files (by the start of their path), and why.
const HOMES: &[(&str, &[&str], &str)] = &[
    (
        "axum::",
        &["src/http", "src/mcp", "src/main.rs", "src/payment/tests", "src/capability", "src/readiness"],
        "HTTP is the fronts' business",
    ),
    ("use axum", &["src/http", "src/mcp", "src/payment/tests", "src/capability", "src/readiness"], "HTTP is the fronts' business"),
    ("sled::SledStore", &["src/store", "src/app.rs"], "backends are chosen in `app`"),
    (" ::sled::", &["src/store/sled"], "only the sled backend knows sled"),
    ("rmcp::", &["src/mcp"], "MCP is one front's business"),
    ("use rmcp", &["src/mcp"], "MCP is one front's business"),
    ("SystemTime::now", &["src/clock.rs"], "time is read in `clock`"),
    ("env::var", &["src/config.rs", "sandbox/worker/build.rs"], "the environment is read in `config`"),
    ("into_data_stream", &["src/http/body.rs", "src/mcp/extension.rs"], "bodies of requests are read in `http::body`, within their limits"),
    ("): Json<", &[], "a body is taken as `Body`: within its limits, and refused in the envelope"),
    ("): Path<", &[], "what a path names is taken as `At`: refused in the envelope"),
    ("): Query<", &[], "a query is taken as `Asked`: refused in the envelope"),
    ("deno_core", &["sandbox/worker"], "only the worker links the engine"),
    ("Client::builder", &["src/capability", "src/payment/http.rs"], "outgoing requests go through the guard or the facilitator"),
    ("reqwest::get", &["src/verify.rs"], "outgoing requests go through the guard or the facilitator"),
];

/// Modules of the host that must not import these others: lower layers know nothing of upper ones.
const LAYERS: &[(&str, &[&str])] = &[
    ("src/tool", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "capability"]),
    ("src/store", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "tool", "capability"]),
    ("src/receipt", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "capability"]),
    ("src/rate", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "tool", "capability"]),
    ("src/feed", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "tool", "capability"]),
    ("src/audit", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "capability", "sale", "event"]),
    ("src/event", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "capability", "sale"]),
    ("src/misfit", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "tool", "capability"]),
    ("src/sale", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "capability", "event"]),
    ("src/payout", &["catalog", "call", "runner", "http", "mcp", "app", "capability"]),
    ("src/payment", &["catalog", "runner", "http", "mcp", "app", "capability"]),
    ("src/capability", &["payment", "catalog", "call", "runner", "http", "mcp", "app"]),
    ("src/call", &["http", "mcp", "app"]),
    ("src/catalog", &["http", "mcp", "app", "call"]),
    (
        "src/safety",
        &[
            "builder",
            "capability",
            "catalog",
            "clock",
            "config",
            "event",
            "payment",
            "call",
            "runner",
            "http",
            "mcp",
            "app",
            "store",
            "tool",
        ],
    ),
    ("src/cursor", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "tool", "capability"]),
    ("src/search", &["payment", "catalog", "call", "runner", "http", "mcp", "app", "store", "tool", "capability"]),
    ("src/secret", &["capability", "payment", "catalog", "call", "runner", "http", "mcp", "app"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let relative = |path: &Path| path.strip_prefix(root()).expect("it was found below the root").to_string_lossy().into_owned();
    found.iter().map(|path| (relative(path), fs::read_to_string(path).expect("a source is text"))).collect()
}

/// A file's lines of code: no comments, nothing behind its test module's head.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    lines.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(index, line)| (index + 1, line))
}

/// The modules of the host that code names, each with its line: `a` of `crate::a::B`, `a` and `c` of
/// `use crate::{a::B, c::{D, e::F}}`, on however many lines.
fn modules(text: &str) -> Vec<(usize, &str)> {
    let tokens: Vec<_> = code(text).flat_map(|(line, code)| tokens(code).map(move |token| (line, token))).collect();
    let mut modules = Vec::new();
    for place in 0..tokens.len() {
        let Some(([(_, "crate"), (_, ":"), (_, ":")], path)) = tokens[place..].split_first_chunk() else { continue };
        let (mut depth, mut before) = (0, "");
        for &(line, token) in path {
            match token {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ if depth == 0 || depth == 1 && matches!(before, "{" | ",") => modules.push((line, token)),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            before = token;
        }
    }
    modules
}

/// A line's words, and each other character by itself.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut rest = line.trim_start();
    iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_word(first) { rest.find(|character| !is_word(character)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(token)
    })
}

#[test]
fn every_module_of_an_import_is_seen() {
    let text = "use crate::a;
use crate::{
    b::{C, d::E},
    // f::G,
    h, i as j,
    k::{
        L,
    },
};
use std::{m, crates::n};
fn o(_: &crate::p::Q, _: crate::r::S) {}
mod tests {
use crate::t;";
    assert_eq!(modules(text), [(1, "a"), (3, "b"), (5, "h"), (5, "i"), (6, "k"), (11, "p"), (11, "r")]);
}

#[test]
fn words_stay_in_their_homes() {
    let mut astray = Vec::new();
    for (file, text) in sources("src").into_iter().chain(sources("sandbox")) {
        for (word, homes, why) in HOMES {
            if homes.iter().any(|home| file.starts_with(home)) || file.contains("/tests") {
                continue;
            }
            astray.extend(code(&text).filter(|(_, line)| line.contains(word)).map(|(line, _)| format!("{file}:{line}: `{word}`: {why}")));
        }
    }
    assert!(astray.is_empty(), "{}", astray.join("\n"));
}

#[test]
fn lower_layers_know_nothing_of_upper_ones() {
    let mut upward = Vec::new();
    for (file, text) in sources("src") {
        for (layer, uppers) in LAYERS {
            if !file.starts_with(layer) || file.contains("/tests") {
                continue;
            }
            let named = modules(&text).into_iter().filter(|(_, module)| uppers.contains(module));
            upward.extend(named.map(|(line, module)| format!("{file}:{line}: crate::{module}")));
        }
    }
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    let folders = ["src", "sandbox", "xtask", "tests"];
    let silent: Vec<_> = folders
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(file, text)| !file.ends_with("tests.rs") && !text.starts_with("//!"))
        .map(|(file, _)| file)
        .collect();
    assert!(silent.is_empty(), "no `//!` at the head of {silent:?}");
}
