//! The examples of answers in the API documents. Missing ones are recorded from the answers in
//! tests.
//!
//! With `TOLLHOUSE_EXAMPLES=record`, a run of the tests writes missing examples into the file. To
//! replace one, delete it first. Like every answer, each is compared with the document.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::Value;

/// Replacements for the host's address, and for the address of another host in a test.
const BASE: &str = "https://tools.example";
const OTHER: &str = "https://seller.example";

/// Maximum length of a string, number of items in a list, and nesting depth.
const LETTERS: usize = 80;
const ENTRIES: usize = 1;
const LEVELS: usize = 8;
/// Maximum size of an example in bytes, if there is a shorter one.
const BYTES: usize = 2_500;

static RECORDED: LazyLock<Option<Mutex<Recorded>>> = LazyLock::new(|| {
    let wanted = std::env::var_os("TOLLHOUSE_EXAMPLES").is_some_and(|value| value == "record");
    wanted.then(|| {
        let all = all();
        Mutex::new(Recorded { examples: all.keys().cloned().collect(), all })
    })
});

struct Recorded {
    /// The examples that existed before.
    examples: BTreeSet<String>,
    all: BTreeMap<String, Value>,
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/documents/examples.json")
}

/// Returns all examples, by operation id.
pub(super) fn all() -> BTreeMap<String, Value> {
    serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap()
}

/// Records an answer if it is a better example than the one recorded earlier in this run.
pub(super) fn record(id: &str, base: &str, answer: &Value) {
    let Some(recorded) = &*RECORDED else { return };
    let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
    let short = shortened(answer, base, LEVELS);
    if recorded.examples.contains(id) || recorded.all.get(id).is_some_and(|known| worth(known) >= worth(&short)) {
        return;
    }
    recorded.all.insert(id.to_owned(), short);
    fs::write(file(), written(&recorded.all) + "\n").unwrap();
}

/// Shortens strings and lists, and replaces addresses and keys.
fn shortened(value: &Value, base: &str, levels: usize) -> Value {
    match value {
        Value::String(text) => {
            let text = text.replace(base, BASE);
            let text = match text.strip_prefix("http://127.0.0.1:") {
                Some(rest) => format!("{OTHER}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
                None => text,
            };
            let is_key = ["bk_", "dc_"].iter().any(|prefix| text.starts_with(prefix));
            let max = if is_key { 8 } else { LETTERS };
            let cut = text.chars().count() > max;
            Value::String(text.chars().take(max).chain(cut.then_some('…')).collect())
        }
        Value::Array(entries) if levels > 0 => entries.iter().take(ENTRIES).map(|entry| shortened(entry, base, levels - 1)).collect(),
        Value::Object(members) if levels > 0 => {
            members.iter().map(|(name, member)| (name.clone(), shortened(member, base, levels - 1))).collect()
        }
        Value::Array(_) => Value::Array(vec![]),
        Value::Object(_) => Value::Object(serde_json::Map::new()),
        plain => plain.clone(),
    }
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Returns the value of an example. More fields are better, but one that is too long is used only
/// if there is no shorter one.
fn worth(example: &Value) -> isize {
    let bytes = written(example).len();
    if bytes > BYTES { -isize::try_from(bytes).unwrap() } else { isize::try_from(members(example)).unwrap() }
}

fn members(value: &Value) -> usize {
    match value {
        Value::Array(entries) => entries.iter().map(members).sum::<usize>(),
        Value::Object(named) => named.len() + named.values().map(members).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Names from tests must not appear in examples.
#[test]
fn examples_are_plausible() {
    fn looked_at(value: &Value, wrong: &mut Vec<String>) {
        let Value::Object(named) = value else {
            value.as_array().into_iter().flatten().for_each(|entry| looked_at(entry, wrong));
            return;
        };
        for (name, member) in named {
            let is_empty = matches!(&**name, "title" | "description" | "label") && member == "";
            let letters: Vec<_> = member.as_str().unwrap_or_default().chars().collect();
            let repeats = letters.windows(8).any(|some| some.iter().all(|letter| letter.is_lowercase() && *letter == some[0]));
            if is_empty || repeats {
                wrong.push(format!("{name}: {member}"));
            }
            looked_at(member, wrong);
        }
    }
    for (id, example) in all() {
        let mut wrong = Vec::new();
        looked_at(&example, &mut wrong);
        assert!(wrong.is_empty(), "{id}: {wrong:?}");
    }
}

#[test]
fn example_is_short_and_names_no_real_host() {
    let answer = serde_json::json!({
        "url": "http://127.0.0.1:9/tools/a", "key": format!("bk_{}", "x".repeat(40)), "list": [[1, 2], 3], "null": null, "of": "http://127.0.0.1:80/a",
    });
    let reported = serde_json::json!({ "of": "https://seller.example/a", "url": "https://tools.example/tools/a", "key": "bk_xxxxx…", "list": [[1]], "null": null });
    assert_eq!(shortened(&answer, "http://127.0.0.1:9", LEVELS), reported);
    assert_eq!(shortened(&answer, "", 0), serde_json::json!({}));
}
