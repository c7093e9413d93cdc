//! Fuzz targets: arbitrary texts that contain secrets.

use std::sync::LazyLock;

use serde_json::Value;

use super::*;

const SECRETS: [&str; 3] = [SECRET, "0123456789abcdef", "aaaaaaaaaaaaaaaa"];

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(SECRETS));

fn reveals(text: &str) -> bool {
    SECRETS.iter().any(|secret| text.contains(secret))
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.iter().for_each(|(name, item)| {
            found.push(name);
            strings(item, found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn secrets_are_removed_and_other_texts_unchanged() {
    tollhouse_fuzz::check("redact", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let redacted = REDACTOR.redact(&text);
        assert!(!reveals(&redacted) && !reveals(&REDACTOR.redact_cut(&text)), "{redacted}");
        if !REDACTOR.finds_in(text.as_bytes()) {
            assert_eq!(redacted, text);
        }
        if let Some(rest) = REDACTOR.redact_bytes(bytes) {
            assert!(SECRETS.iter().all(|secret| !rest.windows(secret.len()).any(|part| part == secret.as_bytes())));
        }
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            let (value, mut found) = (REDACTOR.redact_json(value), vec![]);
            strings(&value, &mut found);
            assert!(found.into_iter().all(|text| !reveals(text)), "{value}");
            let clean = REDACTOR.redact_json_text(bytes).expect("its strings are valid");
            if let Ok(value) = serde_json::from_slice::<Value>(clean.as_deref().unwrap_or(bytes)) {
                let mut found = vec![];
                strings(&value, &mut found);
                assert!(found.into_iter().all(|text| !reveals(text)), "{value}");
            }
        }
    });
}
