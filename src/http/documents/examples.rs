//! Answers of operations, as tests were given them: shortened, and of a host that is nobody's.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// What stands in them for the host's address.
const BASE: &str = "https://tools.example";

static ALL: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("the file is JSON of this repository"));

/// What an operation answers, at `base`.
pub(super) fn of(operation: &str, base: &str) -> Option<String> {
    let text = serde_json::to_string_pretty(ALL.get(operation)?).expect("JSON can be written");
    Some(text.replace(BASE, base))
}
