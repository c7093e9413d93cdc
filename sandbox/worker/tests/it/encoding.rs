//! `TextDecoder` compared with the Encoding standard.

use serde_json::{Value, json};
use tollhouse_protocol::limits::DECODERS;

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

/// The supported encodings, by the names that `encoding` returns.
const NAMES: &[&str] = &[
    "utf-8",
    "ibm866",
    "iso-8859-2",
    "iso-8859-3",
    "iso-8859-4",
    "iso-8859-5",
    "iso-8859-6",
    "iso-8859-7",
    "iso-8859-8",
    "iso-8859-8-i",
    "iso-8859-10",
    "iso-8859-13",
    "iso-8859-14",
    "iso-8859-15",
    "iso-8859-16",
    "koi8-r",
    "koi8-u",
    "macintosh",
    "windows-874",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "windows-1255",
    "windows-1256",
    "windows-1257",
    "windows-1258",
    "x-mac-cyrillic",
    "gbk",
    "gb18030",
    "big5",
    "euc-jp",
    "iso-2022-jp",
    "shift_jis",
    "euc-kr",
    "utf-16be",
    "utf-16le",
    "x-user-defined",
];

#[test]
fn every_encoding_is_available_by_name_and_labels() {
    let names = value(&format!("return {}.map((name) => new TextDecoder(name.toUpperCase()).encoding);", json!(NAMES)));
    assert_eq!(names, json!(NAMES));
    let labels = [
        (" \t\n\u{c}\rLatin1 ", "windows-1252"),
        ("ascii", "windows-1252"),
        ("iso-8859-1", "windows-1252"),
        ("UTF8", "utf-8"),
        ("x-unicode20utf8", "utf-8"),
        ("utf-16", "utf-16le"),
        ("unicode", "utf-16le"),
        ("unicodeFFFE", "utf-16be"),
        ("x-sjis", "shift_jis"),
        ("windows-31j", "shift_jis"),
        ("gb2312", "gbk"),
        ("csISO58GB231280", "gbk"),
        ("big5-hkscs", "big5"),
        ("ks_c_5601-1987", "euc-kr"),
        ("dos-874", "windows-874"),
        ("cyrillic", "iso-8859-5"),
        ("l9", "iso-8859-15"),
        ("l5", "windows-1254"),
        ("logical", "iso-8859-8-i"),
        ("koi", "koi8-r"),
        ("mac", "macintosh"),
        ("cp866", "ibm866"),
    ];
    let (given, names): (Vec<_>, Vec<_>) = labels.into_iter().unzip();
    assert_eq!(value(&format!("return {}.map((label) => new TextDecoder(label).encoding);", json!(given))), json!(names));
}

#[test]
fn unknown_encoding_label_is_rejected() {
    let labels = json!(["", "utf-7", "utf-32", "utf-8\0", "\u{a0}utf-8", "replacement", "iso-2022-kr", "hz-gb-2312"]);
    let refused =
        value(&format!("return {labels}.map((label) => {{ try {{ new TextDecoder(label); }} catch (e) {{ return e.name; }} }});"));
    assert_eq!(refused, json!(vec!["RangeError"; 8]));
    assert_eq!(Worker::handler("new TextDecoder('utf-7')").thrown(&Value::Null), "RangeError: the encoding `utf-7` is not available");
}

#[test]
fn texts_decode_the_same_whole_and_byte_by_byte() {
    let texts = json!([
        ["shift_jis", [0x93, 0xfa, 0x96, 0x7b, 0xb1], "日本ｱ"],
        ["euc-jp", [0xc6, 0xfc, 0x8e, 0xb1, 0x8f, 0xb0, 0xa1], "日ｱ丂"],
        ["iso-2022-jp", [0x1b, 0x24, 0x42, 0x46, 0x7c, 0x4b, 0x5c, 0x1b, 0x28, 0x42, 0x41], "日本A"],
        ["gb18030", [0xc4, 0xe3, 0x94, 0x39, 0xda, 0x33, 0x81, 0x30, 0x81, 0x30], "你\u{1f4a9}\u{80}"],
        ["gbk", [0xc4, 0xe3, 0x80], "你€"],
        ["big5", [0xa7, 0x41, 0x88, 0x62], "你\u{ca}\u{304}"],
        ["euc-kr", [0xc7, 0xd1, 0x81, 0x41], "한갂"],
        ["koi8-r", [0xf0, 0xd2], "Пр"],
        ["windows-1251", [0xcf, 0xf0], "Пр"],
        ["windows-1252", [0x80, 0x81, 0xe4], "€\u{81}ä"],
        ["iso-8859-15", [0xa4], "€"],
        ["macintosh", [0x8a, 0xf0], "ä\u{f8ff}"],
        ["x-user-defined", [0x41, 0x80, 0xff], "A\u{f780}\u{f7ff}"],
        ["utf-16be", [0xd8, 0x3d, 0xde, 0x00, 0x00, 0x41], "😀A"],
        ["utf-16le", [0x3d, 0xd8, 0x00, 0xde, 0x41, 0x00], "😀A"],
        ["utf-8", [0xf0, 0x9f, 0x98, 0x80, 0x41], "😀A"],
        // Byte sequences that are invalid in the encoding.
        ["shift_jis", [0x81, 0x20, 0xa0], "\u{fffd} \u{fffd}"],
        ["utf-16le", [0x3d, 0xd8, 0x41, 0x00, 0x42], "\u{fffd}A\u{fffd}"],
        ["utf-8", [0xf0, 0x9f, 0x41, 0xff, 0xed, 0xa0, 0x80], "\u{fffd}A\u{fffd}\u{fffd}\u{fffd}\u{fffd}"],
    ]);
    let decoded = value(&format!(
        "return {texts}.map(([label, bytes]) => {{
           const all = new Uint8Array(bytes); const decoder = new TextDecoder(label); let piecewise = '';
           for (let i = 0; i < all.length; i++) piecewise += decoder.decode(all.subarray(i, i + 1), {{ stream: true }});
           return [decoder.decode(all.subarray(0, 0)) === '' ? piecewise : piecewise + '\u{fffd}', new TextDecoder(label).decode(all.buffer)];
         }});"
    ));
    for (text, decoded) in texts.as_array().unwrap().iter().zip(decoded.as_array().unwrap()) {
        assert_eq!(decoded, &json!([text[2], text[2]]), "{text}");
    }
}

#[test]
fn byte_order_mark_of_the_encoding_is_removed_unless_ignored() {
    assert_eq!(
        value(
            "const marks = { 'utf-8': [0xef, 0xbb, 0xbf, 65], 'utf-16le': [0xff, 0xfe, 65, 0], 'utf-16be': [0xfe, 0xff, 0, 65] };
             const rows = Object.entries(marks).map(([label, bytes]) => {
               const all = new Uint8Array(bytes); const kept = new TextDecoder(label, { ignoreBOM: true }); const d = new TextDecoder(label);
               const pieces = () => d.decode(all.subarray(0, 1), { stream: true }) + d.decode(all.subarray(1, 2), { stream: true }) + d.decode(all.subarray(2));
               return [d.decode(all), kept.decode(all), kept.ignoreBOM, pieces(), pieces(), d.decode(all, { stream: true }) + d.decode(all)];
             });
             const other = [new TextDecoder('windows-1252').decode(new Uint8Array(marks['utf-8'])), new TextDecoder().decode(new Uint8Array(marks['utf-16le'])).length];
             return [rows, other];"
        ),
        json!([vec![json!(["A", "\u{feff}A", true, "A", "A", "A\u{feff}A"]); 3], ["ï»¿A", 4]])
    );
}

#[test]
fn fatal_decoder_throws_and_can_be_used_again() {
    assert_eq!(
        value(
            "const fails = (f) => { try { return f(); } catch (e) { return e.name + ': ' + e.message; } };
             const d = new TextDecoder('utf-16le', { fatal: true }); const odd = new Uint8Array([0]), even = new Uint8Array([0, 0]), lone = new Uint8Array([0, 0xdc]);
             return [d.fatal, d.decode(odd, { stream: true }), d.decode(odd), fails(() => d.decode(even, { stream: true }) + d.decode(odd)), fails(() => d.decode(odd, { stream: true }) + d.decode(even)),
               d.decode(odd, { stream: true }), d.decode(odd), fails(() => d.decode(lone, { stream: true })), d.decode(even), fails(() => d.decode(lone)), d.decode(even),
               fails(() => new TextDecoder('shift_jis', { fatal: true }).decode(new Uint8Array([0x81, 0x20]))),
               fails(() => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xf0, 0x9f]), { stream: true })), fails(() => new TextDecoder().decode('text'))];"
        ),
        json!([
            true, "", "\0", "TypeError: the bytes are not utf-16le", "TypeError: the bytes are not utf-16le", "", "\0", "TypeError: the bytes are not utf-16le", "\0",
            "TypeError: the bytes are not utf-16le", "\0", "TypeError: the bytes are not shift_jis", "", "TypeError: Failed to execute 'decode' on 'TextDecoder': Argument 1 is not an ArrayBuffer, SharedArrayBuffer, or a view on one"
        ])
    );
}

#[test]
fn unfinished_text_of_a_call_does_not_reach_the_next() {
    let mut worker = Worker::with(
        "const d = new TextDecoder(); export default () => d.decode(new Uint8Array([0x98, 0x80]), { stream: true }) + d.decode(new Uint8Array([0xf0, 0x9f]), { stream: true });",
    );
    for _ in 0..3 {
        assert_eq!(worker.json(&Value::Null), json!("\u{fffd}\u{fffd}"));
    }
}

#[test]
fn only_open_streaming_decoders_count_toward_their_limit() {
    let mut worker = Worker::handler(
        "const piece = new Uint8Array([0xf0]); const open = [];
         for (let i = 0; i < 1000; i++) { const d = new TextDecoder(); d.decode(piece, { stream: true }); d.decode(); }
         try { for (;;) { const d = new TextDecoder(); d.decode(piece, { stream: true }); open.push(d); } }
         catch (e) { const message = e.name + ': ' + e.message; open[0].decode(); new TextDecoder().decode(piece, { stream: true }); return [open.length, message]; }",
    );
    for _ in 0..2 {
        let message = format!("RangeError: a call can decode at most {DECODERS} texts in pieces at the same time");
        assert_eq!(worker.json(&Value::Null), json!([DECODERS, message]));
    }
}
