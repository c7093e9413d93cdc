//! Summarizes an input without values: names, types and sizes, which are safe to show.
//!
//! Names can be secrets too. A name that looks like a key, a card number or an address is hidden, and so is everything
//! under a name that indicates a secret.

use serde_json::{Map, Value, json};

/// Maximum number of values described, and maximum depth.
const MAX_VALUES: usize = 100;
const MAX_DEPTH: usize = 4;
/// Maximum length of a visible name, in characters.
const MAX_NAME: usize = 40;
/// Minimum length of an alphanumeric name that may be a key, and of a numeric one that may be a card number.
const KEY_LENGTH: usize = 16;
const CARD_LENGTH: usize = 12;

/// Parts of names that indicate secrets, in lower case and without punctuation.
const SECRETS: &[&str] = &[
    "authorization",
    "bearer",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "credential",
    "cookie",
    "session",
    "mnemonic",
    "seedphrase",
    "signature",
    "cardnumber",
    "creditcard",
    "cvv",
    "cvc",
    "iban",
];
/// Complete names that indicate secrets, but are harmless as parts of others.
const SECRETS_ALONE: &[&str] = &["auth", "pin", "otp", "key", "pwd", "jwt", "card", "ssn", "seed"];

/// Returns the summary of `input`.
pub(super) fn of(input: &Value) -> Value {
    describe(input, MAX_DEPTH, &mut MAX_VALUES.clone())
}

/// Describes a value. `left` is the number of values that may still be described.
fn describe(value: &Value, depth: usize, remaining: &mut usize) -> Value {
    *remaining = remaining.saturating_sub(1);
    match value {
        Value::Null => json!({ "type": "null" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(_) => json!({ "type": "number" }),
        Value::String(text) => json!({ "type": "string", "characters": text.chars().count() }),
        Value::Array(items) => {
            let mut described = Vec::new();
            for item in items {
                if depth == 0 || *remaining == 0 {
                    break;
                }
                described.push(describe(item, depth - 1, remaining));
            }
            json!({ "type": "array", "items": items.len(), "shape": described })
        }
        Value::Object(members) => {
            let (mut described, mut hidden) = (Map::new(), 0);
            for (name, value) in members {
                if depth == 0 || *remaining == 0 {
                    break;
                }
                let shown = if is_shown(name) {
                    name.clone()
                } else {
                    hidden += 1;
                    format!("(hidden name {hidden})")
                };
                described
                    .insert(shown, if names_secret(name) { json!({ "type": "hidden" }) } else { describe(value, depth - 1, remaining) });
            }
            json!({ "type": "object", "members": members.len(), "shape": described })
        }
    }
}

/// Returns whether a name may be shown. It may not if it could be a key, a card number or an address.
fn is_shown(name: &str) -> bool {
    let plain = name.bytes().filter(u8::is_ascii_alphanumeric).count();
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let may_be_card = digits >= CARD_LENGTH && digits == plain;
    let may_be_key = digits > 0 && plain >= KEY_LENGTH && !name.contains(' ');
    name.chars().count() <= MAX_NAME && !may_be_card && !may_be_key && !name.contains('@') && !name.chars().any(char::is_control)
}

fn names_secret(name: &str) -> bool {
    let plain: String = name.chars().take(MAX_NAME).filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    SECRETS.iter().any(|secret| plain.contains(secret)) || SECRETS_ALONE.contains(&&*plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_like_credentials_are_hidden() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
        let input = json!({
            "note": "sk_live_~~not_one".replace("~~", ""),
            "jwt": jwt, "Authorization": format!("Bearer {jwt}"), "api_key": "k", "X-Api-Key": ["k"], "card": 4_111_111_111_111_111_u64,
            "nested": { "client_secret": { "value": "deep" }, "pem": "-----BEGIN" },
            "ghp0123456789abcdef0123": 1, "4111 1111 1111 1111": 1, "someone@example.com": 1, "x".repeat(60): 1,
        });
        let summary = of(&input);
        let text = summary.to_string();
        for secret in ["sk_live", jwt, "4111", "deep", "BEGIN", "ghp0", "someone", "xxxxx"] {
            assert!(!text.contains(secret), "{secret}: {summary:#}");
        }
        for name in ["jwt", "Authorization", "api_key", "X-Api-Key", "card"] {
            assert_eq!(summary["shape"][name], json!({ "type": "hidden" }), "{name}");
        }
        assert_eq!(summary["shape"]["nested"]["shape"]["pem"], json!({ "type": "string", "characters": 10 }));
        assert_eq!(summary["members"], input.as_object().unwrap().len());
        assert_eq!(text.matches("hidden name").count(), 4, "{summary:#}");
    }

    /// A card number has at least 12 digits. A key has at least 16 letters and digits, including some of each.
    #[test]
    fn names_that_could_be_secrets_are_hidden() {
        for shown in
            ["12345678901", "1234567890123 or so", "a2345678901234", "abcdefghijklmnopqrst", "line 1 of the address 2", &"x".repeat(40)]
        {
            assert!(is_shown(shown), "{shown}");
        }
        for hidden in ["123456789012", "1234-5678-9012", "a234567890123456", "abcdefghijklmno1", "a@b", "a\nb", &"x".repeat(41)] {
            assert!(!is_shown(hidden), "{hidden}");
        }
    }

    #[test]
    fn four_levels_are_described_and_a_hundred_values() {
        let of_type = |kind: &str| json!({ "type": kind });
        let list = |items: usize, shape: Vec<Value>| json!({ "type": "array", "items": items, "shape": shape });
        let object = |shape: Value| json!({ "type": "object", "members": 1, "shape": shape });
        let deep = json!({ "a": [{ "b": [{ "c": 1 }] }] });
        let lowest = json!({ "type": "object", "members": 1, "shape": {} });
        assert_eq!(of(&deep), object(json!({ "a": list(1, vec![object(json!({ "b": list(1, vec![lowest]) }))]) })));
        let wide: Vec<_> = (0..150).collect();
        assert_eq!(of(&json!(wide)), list(150, vec![of_type("number"); 99]));
        let wide: Map<_, _> = (0..150).map(|n| (format!("n{n:03}"), json!(null))).collect();
        assert_eq!(of(&Value::Object(wide))["shape"].as_object().unwrap().len(), 99);
        let two_keys = json!({ "123456789012": 1, "123456789013": 2 });
        assert_eq!(of(&two_keys)["shape"], json!({ "(hidden name 1)": of_type("number"), "(hidden name 2)": of_type("number") }));
    }

    #[test]
    fn a_large_or_deep_input_has_a_short_summary() {
        let wide: Value = (0..100_000).collect();
        let deep = (0..60).fold(json!(1), |value, _| json!({ "a": [value] }));
        for input in [wide, deep, json!({ "a": vec![json!({ "b": [1, 2, 3] }); 1_000] })] {
            assert!(of(&input).to_string().len() < 10_000);
        }
    }
}
