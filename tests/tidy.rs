//! Rules for the source tree that no compiler checks. They are checked by reading the sources:
//! which file may use which word, how long files are, which tests the sandbox's document names.

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/bounds.rs"]
mod bounds;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/ports.rs"]
mod ports;
#[path = "tidy/promises.rs"]
mod promises;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/sleeps.rs"]
mod sleeps;
#[path = "tidy/tokens.rs"]
mod tokens;

use std::{
    fs, iter,
    path::{Path, PathBuf},
};

use tollhouse::front::Code;

/// A word that only some files may use: the word, the files (by the start of their path), and the
/// reason.
const HOMES: &[(&str, &[&str], &str)] = &[
    (
        "axum::",
        &["src/front", "src/http", "src/mcp", "src/web", "src/money/tests", "src/capability", "src/call/run/builtin/readiness"],
        "HTTP is the fronts' business",
    ),
    (
        "use axum",
        &["src/front", "src/http", "src/mcp", "src/web", "src/money/tests", "src/capability", "src/call/run/builtin/readiness"],
        "HTTP is the fronts' business",
    ),
    ("sled::SledStore", &["src/store", "src/app/lib.rs", "src/app/stores.rs"], "backends are chosen in `app`"),
    ("postgres::PostgresStore", &["src/store", "src/app/lib.rs", "src/app/stores.rs"], "backends are chosen in `app`"),
    ("tokio_postgres", &["src/store/postgres"], "only that backend knows its client"),
    (" ::sled::", &["src/store/sled"], "only the sled backend knows sled"),
    ("maud::", &["src/web", "src/http/html_402.rs"], "pages are one front's business, but for that of a challenge"),
    ("rmcp::", &["src/mcp"], "MCP is one front's business"),
    ("use rmcp", &["src/mcp"], "MCP is one front's business"),
    ("SystemTime::now", &["src/base/clock.rs"], "time is read in `clock`"),
    // For the command line: credentials, which are not flags, and the variables that every terminal
    // program respects.
    ("env::var", &["src/config", "src/cli/base/environment.rs", "sandbox/worker/build.rs"], "the environment is read in `config`"),
    (
        "into_data_stream",
        &["src/front/body.rs", "src/front/spool.rs", "src/mcp/chunked_body.rs", "src/mcp/raw_result.rs", "src/mcp/transport.rs"],
        "bodies of requests are read in `front`, within their limits",
    ),
    ("): Json<", &[], "a body is taken as `Body`: within its limits, and refused in the envelope"),
    ("): Path<", &[], "what a path names is taken as `PathParams`: refused in the envelope"),
    ("): Query<", &[], "a query is taken as `QueryParams`: refused in the envelope"),
    ("for ApiError {", &["src/front/api_error", "src/front/body.rs"], "errors are converted in one place"),
    ("deno_core", &["sandbox/worker"], "only the worker links the engine"),
    (
        "Client::builder",
        &["src/capability", "src/money/facilitator/json_client.rs", "src/cli/base/client.rs", "src/telemetry/otlp/send.rs"],
        "outgoing requests go through the guard, to the facilitator, or to the operator's collector; the command line asks a host",
    ),
    ("reqwest::get", &[], "outgoing requests go through the guard or the facilitator"),
];

/// The front ends, which talk to callers. None names another one, nor the crate that assembles
/// them.
const FRONTS: &[&str] = &["http", "mcp", "web"];

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

/// Returns the lines of code of a file, without comments and without its test module.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    lines.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(index, line)| (index + 1, line))
}

/// Splits a line into words and single other characters.
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
fn words_stay_in_their_homes() {
    let mut astray = Vec::new();
    for (file, text) in sources("src").into_iter().chain(sources("sandbox")) {
        for (word, homes, reason) in HOMES {
            if homes.iter().any(|home| file.starts_with(home)) || file.contains("/tests") {
                continue;
            }
            astray
                .extend(code(&text).filter(|(_, line)| line.contains(word)).map(|(line, _)| format!("{file}:{line}: `{word}`: {reason}")));
        }
    }
    assert!(astray.is_empty(), "{}", astray.join("\n"));
}

/// Names in the store that deal with the bytes of keys. They are for the store itself and for
/// tests.
const BYTES_OF_KEYS: &[&str] = &["Add", "Check", "Key", "KeyRange", "KeyValues", "KeyPart", "KeyPrefix", "Write"];

#[test]
fn only_the_store_sees_the_bytes_of_a_key() {
    let mut astray = Vec::new();
    for (file, text) in sources("src") {
        if file.starts_with("src/store") || file.contains("/tests") || file.ends_with("testing.rs") {
            continue;
        }
        let code: Vec<_> = code(&text).map(|(_, line)| line).collect();
        let code = code.join(" ");
        for import in code.split("store::").skip(1) {
            let (list, end) = import.strip_prefix('{').map_or((import, ';'), |list| (list, '}'));
            let mut names = tokens(list.split(end).next().unwrap_or_default());
            let named = if end == '}' { names.find(|name| BYTES_OF_KEYS.contains(name)) } else { names.next() };
            astray.extend(named.filter(|name| BYTES_OF_KEYS.contains(name)).map(|name| format!("{file}: store::{name}")));
        }
        for call in ["Batch::of(", "store.scan(", "store.apply(", "store.get("] {
            astray.extend(code.contains(call).then(|| format!("{file}: `{call}`")));
        }
    }
    assert!(astray.is_empty(), "{}", astray.join("\n"));
}

/// The schema names the value type of each table. The module that owns the rows declares the table
/// with this type, once.
#[test]
fn every_table_matches_the_schema() {
    let schema = fs::read_to_string(root().join("src/store/schema.rs")).expect("a source is text");
    let rows: Vec<_> = schema.lines().filter_map(|line| line.split_once(" => \"")).collect();
    let mut held: Vec<(String, String)> = Vec::new();
    for (file, text) in sources("src") {
        // The store itself has one table of its own.
        if file.starts_with("src/store") && !file.ends_with("store/sweep_cursor.rs") {
            continue;
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (declared, rest) in text.match_indices("> = schema::").map(|(at, found)| (&text[..at], &text[at + found.len()..])) {
            let value = declared.rsplit([' ', '<']).next().unwrap_or_default();
            held.push((rest.split('.').next().unwrap_or_default().to_owned(), value.to_owned()));
        }
    }
    for (head, tail) in rows {
        let name = head.trim_start().split(':').next().unwrap_or_default();
        let value = tail.split('"').next().unwrap_or_default();
        let of_it: Vec<_> = held.iter().filter(|(table, _)| table == name).map(|(_, value)| value.as_str()).collect();
        let sums = value.starts_with("a sum");
        assert!(of_it.len() == 1 && (sums || of_it[0] == value), "{name} has values of type `{value}`, and is held as {of_it:?}");
    }
}

#[test]
fn no_front_depends_on_another() {
    for front in FRONTS {
        let manifest = fs::read_to_string(root().join("src").join(front).join("Cargo.toml")).expect("each front is a crate");
        for other in FRONTS.iter().chain(&["app"]).filter(|other| *other != front) {
            assert!(!manifest.contains(&format!("tollhouse-{other}")), "src/{front}/Cargo.toml names `tollhouse-{other}`");
        }
    }
}

#[test]
fn every_format_change_is_listed_as_readable() {
    let number = |line: &str, before: &str| line.trim().strip_prefix(before)?.split([',', ';']).next()?.parse::<u32>().ok();
    let (mut changes, mut reads) = (0, None);
    for (file, text) in sources("src") {
        changes += text.lines().filter_map(|line| number(line, "const FORMAT: u8 = ")).map(|format| format - 1).sum::<u32>();
        if file == "src/replica/formats.rs" {
            reads = text.lines().find_map(|line| number(line, "pub(super) const OWN: KnownFormats = KnownFormats { reads: "));
        }
    }
    assert_eq!(reads, Some(1 + changes), "`OWN` of src/replica/formats.rs counts the forms of all rows");
}

/// Returns whether a file of `src` has only tests.
fn is_of_tests(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

#[test]
fn every_code_is_answered_somewhere_and_reported_by_a_test() {
    let (over_the_wire, host) = (sources("tests/it"), sources("src"));
    let tests = |file: &str, text: &str| match text.split_once("\nmod tests {\n") {
        _ if is_of_tests(file) => text.to_owned(),
        Some((_, tests)) => tests.to_owned(),
        None => String::new(),
    };
    let mut dead = Vec::new();
    for row in Code::ALL {
        let (variant, name) = (format!("Code::{row:?}"), format!("\"{}\"", row.row().name));
        let names = |text: &str| {
            let mut positions = text.match_indices(&variant);
            positions.any(|(at, _)| !text[at + variant.len()..].starts_with(char::is_alphanumeric))
        };
        // A list of codes, as in rows of operations, does not count as a use.
        let lists = |line: &str| line.contains("[Code::") || line.trim() == format!("{variant},");
        if !host.iter().filter(|(file, _)| !is_of_tests(file)).any(|(_, text)| code(text).any(|(_, line)| names(line) && !lists(line))) {
            dead.push(format!("{variant}: nothing answers it"));
        }
        if !host.iter().any(|(file, text)| names(&tests(file, text))) && !over_the_wire.iter().any(|(_, text)| text.contains(&name)) {
            dead.push(format!("{variant}: no test checks it"));
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn every_file_has_a_doc_comment() {
    let folders = ["src", "sandbox", "xtask", "tests"];
    let silent: Vec<_> = folders
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(file, text)| !file.ends_with("tests.rs") && !text.starts_with("//!"))
        .map(|(file, _)| file)
        .collect();
    assert!(silent.is_empty(), "no `//!` at the head of {silent:?}");
}
