//! Example responses of operations, recorded by tests, shortened, and with an example address as the host.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// The placeholder for the host's address.
const BASE: &str = "https://tools.example";

static ALL: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("the file is JSON of this repository"));

/// Returns the example response of an operation on the host at `base`.
pub(super) fn of(operation: &str, base: &str) -> Option<String> {
    let text = serde_json::to_string_pretty(ALL.get(operation)?).expect("JSON can be written");
    Some(text.replace(BASE, base))
}
