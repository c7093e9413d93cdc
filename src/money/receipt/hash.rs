//! SHA-256 hashes of inputs and results, written as `sha256:` and 64 hex digits.
//!
//! JSON is hashed in its canonical form (RFC 8785), so neither whitespace nor the order of fields matters. That form
//! has only doubles: integers beyond 2^53 that are the same number to a handler are also the same here.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Initial buffer size, in bytes.
const TEXT_BYTES: usize = 512;

/// Returns the RFC 8785 canonical JSON of a value.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut text = Vec::with_capacity(TEXT_BYTES);
    put_canonical(&mut text, value);
    text
}

/// Returns the hash of a JSON value.
pub fn json_hash(value: &Value) -> String {
    bytes_hash(&canonical(value))
}

/// Returns the hash of raw bytes.
pub fn bytes_hash(bytes: &[u8]) -> String {
    written(Sha256::new_with_prefix(bytes))
}

/// The hash of bytes that come in pieces.
#[derive(Debug, Default)]
pub struct PiecewiseHash(Sha256);

impl PiecewiseHash {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the hash of all pieces, as [`bytes_hash`] does.
    pub fn finish(self) -> String {
        written(self.0)
    }
}

pub(crate) fn written(hash: Sha256) -> String {
    let mut digits = [0; 64];
    hex::encode_to_slice(hash.finalize(), &mut digits).expect("32 bytes have 64 digits");
    ["sha256:", str::from_utf8(&digits).expect("digits are ASCII")].concat()
}

/// Returns the hash of a request, which is the same over every entry point: that of `{"endpointId": …, "input": …}`
/// with the input in canonical form.
pub fn request_hash(endpoint_id: &str, input: &[u8]) -> String {
    let mut head = Vec::with_capacity(TEXT_BYTES);
    head.extend_from_slice(br#"{"endpointId":"#);
    put(&mut head, endpoint_id);
    head.extend_from_slice(br#","input":"#);
    written(Sha256::new().chain_update(head).chain_update(input).chain_update(b"}"))
}

fn put_canonical(text: &mut Vec<u8>, value: &Value) {
    if is_canonical(value) {
        put(text, value);
    } else {
        serde_json_canonicalizer::to_writer(value, text).expect("a JSON value has text keys and finite numbers");
    }
}

/// Appends JSON as serde_json writes it.
fn put<T: Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(text, value).expect("a JSON value has text keys and finite numbers");
}

/// Returns whether serde_json writes the value in canonical form. That holds for most values: fields in order, numbers
/// that are integers within the range of doubles. Sorting sorted fields again would cost more than the rest of a
/// receipt.
fn is_canonical(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.as_i64().is_some_and(|integer| integer.unsigned_abs() <= 1 << 53),
        Value::Array(values) => values.iter().all(is_canonical),
        // ASCII sorts the same in UTF-8 and UTF-16.
        Value::Object(members) => members.keys().is_sorted() && members.iter().all(|(name, value)| name.is_ascii() && is_canonical(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_text(json: &str) -> String {
        String::from_utf8(canonical(&serde_json::from_str(json).unwrap())).unwrap()
    }

    /// RFC 8785, section 3.2.2.
    #[test]
    fn rfc_8785_values() {
        let given = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#;
        let requested = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
            \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical_text(given), requested);
    }

    #[test]
    fn integers_that_no_double_holds_are_the_nearest_that_one_does() {
        for (given, requested) in
            [("9007199254740992", "9007199254740992"), ("9007199254740993", "9007199254740992"), ("-9007199254740993", "-9007199254740992")]
        {
            assert_eq!(canonical_text(given), requested);
        }
    }

    /// RFC 8785, section 3.2.3: fields are sorted by UTF-16 code units.
    #[test]
    fn rfc_8785_order_of_members() {
        let given = r#"{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}"#;
        let requested = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\
            \"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
        assert_eq!(canonical_text(given), requested);
    }

    /// RFC 8785, appendix B.
    #[test]
    fn rfc_8785_numbers() {
        for (bits, requested) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        ] {
            assert_eq!(canonical(&Value::from(f64::from_bits(bits))), requested.as_bytes());
        }
    }

    #[test]
    fn spacing_and_order_do_not_count() {
        let one: Value = serde_json::from_str(r#"{"b": 1.0, "a": [ "x" ]}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":["x"],"b":1}"#).unwrap();
        assert_eq!(request_hash("ep_1", &canonical(&one)), request_hash("ep_1", &canonical(&other)));
        assert_eq!(json_hash(&one), json_hash(&other));
    }

    #[test]
    fn every_value_is_put_in_its_canonical_form() {
        for json in [
            "null",
            r#""\u0000\u001f\u007f\b\f\n\r\t\"\\/\u2028é😀""#,
            r#"{"":{},"A":[],"a":[1,-1,0,true,null],"b":{"a":"x","b":"y"}}"#,
            "[9007199254740992, -9007199254740992]",
            "[9007199254740993, -9007199254740993, 18446744073709551615]",
            "[1.0, -0, -0.0, 1e2, 0.1, 1e21, 5e-324]",
            "{\"\u{ffff}\":1,\"\u{10000}\":2}",
            r#"{"a":{"b":[{"c":0.5}]}}"#,
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(canonical(&value), serde_json_canonicalizer::to_vec(&value).unwrap(), "{json}");
        }
    }

    #[test]
    fn endpoint_and_input_count() {
        let input = serde_json::json!({"a": 1});
        assert_ne!(request_hash("ep_1", &canonical(&input)), request_hash("ep_2", &canonical(&input)));
        assert_ne!(request_hash("ep_1", &canonical(&input)), request_hash("ep_1", &canonical(&serde_json::json!({"a": 2}))));
        assert_eq!(request_hash("ep_\"1", &canonical(&input)), json_hash(&serde_json::json!({"input": input, "endpointId": "ep_\"1"})));
    }

    #[test]
    fn bytes_are_hashed_as_they_are() {
        assert_eq!(bytes_hash(b"abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(json_hash(&serde_json::json!("")), bytes_hash(b"\"\""));
    }
}
