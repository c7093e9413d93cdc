use std::{collections::BTreeSet, path::PathBuf, time::Instant};

use serde_json::json;
use tollhouse_tool::finding::ScanOutcome;

use super::{operator::sha256_hex, *};

fn scanner() -> Scanner {
    Scanner::new(&OperatorLists::default())
}

fn scan_source(source: &str) -> Report {
    scanner().scan(&Upload { source: Some(source), ..Upload::default() })
}

fn rules_of(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|found| found.rule.as_str()).collect()
}

/// Returns a key in the format of a real one. It is in pieces, so that no scanner reports this file.
fn aws_key() -> String {
    ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat()
}

/// If you change a rule, a term or this hash, change `POLICY_VERSION` too, so that endpoints are scanned again.
#[test]
fn policy_version_matches_the_rules() {
    let hash = sha256_hex(format!("{}\0{}", rules::RULES, rules::TERMS));
    assert_eq!((POLICY_VERSION, &hash[..16]), ("2026-12-01.2", "5871a5fef57884ea"));
}

/// Packages contain them, and the sandbox refuses them or confines them to the tool's own process.
#[test]
fn code_that_the_sandbox_confines_is_noted_and_not_held() {
    for source in ["new Function('return 1')", "x.__proto__ = y", "[].filter.constructor('return 1')()"] {
        let report = scan_source(&format!("export default () => {{ {source}; }};"));
        assert_eq!((report.outcome, report.findings.len()), (ScanOutcome::Pass, 1), "{source}");
    }
}

#[test]
fn lists_in_packages_are_neither_names_nor_seed_phrases() {
    // Real lists: CSS properties of linkedom, and the letters that fuse.js compares.
    let properties = "mask-position,mask-repeat,mask-size,mask-type,math-depth,math-shift";
    assert_eq!(rules_of(&scan_source(&format!("export default () => '{properties}';"))), [""; 0]);
    let letters = "const i = 1; const letters = { \u{131}: 'i', \u{192}: 'f' }; export default () => letters;";
    assert_eq!(rules_of(&scan_source(letters)), [""; 0]);
    assert_eq!(rules_of(&scan_source(&letters.replace("\u{131}: 'i'", "\u{131}x: 'i'"))), ["unicode.homoglyph"]);
}

#[test]
fn rule_ids_are_unique_and_every_detector_has_a_rule() {
    let scanner = scanner();
    let ids: Vec<_> = scanner.rules().map(|rule| rule.id).collect();
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    for id in code::RULES.iter().chain(scan::RULES) {
        assert!(scanner.rules.row(id).regex().is_none(), "{id} is found by code");
    }
    let made = |id: &str| code::RULES.contains(&id) || scan::RULES.contains(&id);
    for row in scanner.rules.rows() {
        assert!(row.regex().is_some() || made(&row.id), "nothing finds {}", row.id);
    }
}

/// A scan is linear only if every regex has a maximum match length.
#[test]
fn no_regex_is_unbounded() {
    for row in scanner().rules.rows() {
        let Some(regex) = &row.regex else { continue };
        let (mut in_class, mut escaped, mut bytes) = (false, false, regex.bytes().peekable());
        while let Some(byte) = bytes.next() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'*' | b'+' if !in_class => panic!("{}: an unbounded repetition", row.id),
                b',' if !in_class => assert_ne!(bytes.peek(), Some(&b'}'), "{}: an unbounded repetition", row.id),
                _ => {}
            }
        }
        let lower = |words: &[String]| words.iter().all(|word| *word == word.to_ascii_lowercase());
        assert!(lower(&row.keywords) && lower(&row.allow) && lower(&row.unless), "{}: lists are in lower case", row.id);
    }
}

#[test]
fn finding_never_contains_the_matched_text() {
    let key = aws_key();
    let report = scan_source(&format!("// first\nexport default () => '{key}';"));
    let found = &report.findings[0];
    assert_eq!((report.outcome, rules_of(&report)), (ScanOutcome::Block, vec!["secret.aws-access-key"]));
    assert_eq!((found.field.as_str(), found.line, found.column), ("/handler/source", Some(2), Some(23)));
    assert_eq!(found.excerpt.as_deref(), Some("AK… (20 characters)"));
    assert_eq!(
        found.for_owner(),
        json!({"rule": "secret.aws-access-key", "severity": "block", "field": "/handler/source", "line": 2, "column": 23})
    );
    assert_eq!(found.brief(), json!({"rule": "secret.aws-access-key", "severity": "block", "field": "/handler/source"}));
    assert!(!json!(report.findings).to_string().contains(&key[4..]));
}

#[test]
fn highest_severity_decides() {
    assert_eq!(scan_source("export default () => 1;").outcome, ScanOutcome::Pass);
    assert_eq!(scan_source("export default () => eval('1');").outcome, ScanOutcome::Review);
    assert_eq!(scan_source(&format!("eval('{}')", aws_key())).outcome, ScanOutcome::Block);
}

#[test]
fn every_field_is_scanned() {
    let key = aws_key();
    let (tags, value) = (vec!["a".to_owned(), key.clone()], json!({"type": "object", "a/b": [{"default": key}]}));
    let scanner = scanner();
    let fields = |upload: &Upload<'_>| scanner.scan(upload).findings.iter().map(|found| found.field.clone()).collect::<Vec<_>>();
    assert_eq!(fields(&Upload { title: &key, ..Upload::default() }), ["/title"]);
    assert_eq!(fields(&Upload { description: &key, ..Upload::default() }), ["/description"]);
    assert_eq!(fields(&Upload { tags: &tags, ..Upload::default() }), ["/tags/1"]);
    assert_eq!(fields(&Upload { response: Some(&value), ..Upload::default() }), ["/handler/response"]);
    assert_eq!(fields(&Upload { input_schema: Some(&value), ..Upload::default() }), ["/inputSchema"]);
    assert_eq!(fields(&Upload { output_schema: Some(&value), ..Upload::default() }), ["/outputSchema"]);
    let eval = json!({"url": "http://203.0.114.9/x"});
    assert_eq!(fields(&Upload { response: Some(&eval), ..Upload::default() }), ["/handler/response/url"]);
}

#[test]
fn key_is_found_in_every_form_of_a_literal() {
    use base64::Engine as _;
    let key = aws_key();
    let (head, tail) = key.split_at(7);
    let standard = base64::engine::general_purpose::STANDARD.encode(format!("the key is {key}"));
    let codes = key.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let forms = [
        format!("'{standard}'"),
        format!("'data:text/plain;base64,{standard}'"),
        format!("'{}'", hex::encode(&key)),
        format!("'{}'", key.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>()),
        format!("`{}`", key.bytes().map(|byte| format!("\\u{{{byte:x}}}")).collect::<String>()),
        format!("'{}'", key.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>()),
        format!("'{head}' + '{tail}'"),
        format!("'{head}' +\n  // the rest\n  \"{tail}\""),
        format!("String.fromCharCode({codes})"),
    ];
    for form in forms {
        let report = scan_source(&format!("export default () => {form};"));
        assert_eq!(rules_of(&report), ["secret.aws-access-key"], "{form}");
        assert_eq!(report.findings[0].line, Some(1));
    }
}

#[test]
fn source_of_another_owner_is_reviewed() {
    let upload = Upload { source: Some("export default () => 1;"), hash_of_another: true, ..Upload::default() };
    assert_eq!(rules_of(&scanner().scan(&upload)), ["provenance.same-source"]);
}

#[test]
fn operator_hashes_and_terms_are_found() {
    use base64::Engine as _;
    let known = b"\x89PNG known picture \xff\x00\x01";
    let hashes = format!("# known\n{}  picture.png\n{}\n", sha256_hex(known), sha256_hex("a known text").to_uppercase());
    let terms = "[[list]]\ncategory = \"house\"\nlanguage = \"ja\"\nseverity = \"block\"\nterms = [\"禁止語\", \"forbidden word\"]\n";
    let lists = OperatorLists::parse(Some(&hashes), Some(terms)).unwrap();
    let scanner = Scanner::new(&lists);
    assert!(
        scanner.policy_version().starts_with(&format!("{POLICY_VERSION}+")) && scanner.policy_version().len() == POLICY_VERSION.len() + 9
    );
    let rules = |source: &str| {
        let report = scanner.scan(&Upload { source: Some(source), ..Upload::default() });
        report.findings.iter().map(|found| found.rule.clone()).collect::<Vec<_>>()
    };
    assert_eq!(rules(&format!("x = '{}'", base64::engine::general_purpose::STANDARD.encode(known))), ["operator.known-hash"]);
    assert_eq!(rules("x = 'a known text'"), ["operator.known-hash"]);
    assert_eq!(rules("a known text"), ["operator.known-hash"]);
    assert_eq!(rules("x = 'これは禁止語です'"), ["operator.house-blocked"]);
    assert_eq!(rules("x = 'a Forbidden-WORD.'"), ["operator.house-blocked"]);
    assert!(rules("x = 'unforbidden words'").is_empty());
    assert_eq!(scanner.rules().filter(|rule| rule.id.starts_with("operator.")).count(), 2);
}

#[test]
fn invalid_lists_are_refused() {
    let reason = |hashes: Option<&str>, terms: Option<&str>| OperatorLists::parse(hashes, terms).unwrap_err().to_string();
    assert!(reason(Some("# fine\nabc"), None).contains("line 2"));
    assert!(reason(None, Some("[[list]]\ncategory = 1")).contains("term list"));
    let list = |category: &str, term: &str| {
        format!("[[list]]\ncategory = \"{category}\"\nlanguage = \"en\"\nseverity = \"review\"\nterms = [\"{term}\"]")
    };
    assert!(reason(None, Some(&list("A B", "x"))).contains("`A B`"));
    assert!(reason(None, Some(&list("a", " - "))).contains("letters or digits"));
}

/// The built-in tools, as if builders had uploaded them.
#[test]
fn seed_tools_pass() {
    let scanner = scanner();
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tools");
    let mut count = 0;
    for tool in std::fs::read_dir(tools).unwrap().map(|entry| entry.unwrap().path()) {
        let read = |name: &str| std::fs::read_to_string(tool.join(name)).ok();
        let record: serde_json::Value = serde_json::from_str(&read("tool.json").unwrap()).unwrap();
        let text = |name: &str| record[name].as_str().unwrap_or_default();
        let tags: Vec<String> = serde_json::from_value(record["tags"].clone()).unwrap_or_default();
        let source = read("handler.js").or_else(|| read("handler.ts"));
        let response = read("response.json").map(|text| serde_json::from_str(&text).unwrap());
        let upload = Upload {
            title: text("title"),
            description: text("description"),
            tags: &tags,
            source: source.as_deref(),
            response: response.as_ref(),
            input_schema: record.get("inputSchema"),
            output_schema: record.get("outputSchema"),
            hash_of_another: false,
        };
        assert_eq!(scanner.scan(&upload).findings, [], "{}", tool.display());
        count += 1;
    }
    assert!(count >= 10);
}

/// Returns sources of 256 KB that are designed to keep a scanner busy.
fn hostile() -> Vec<(&'static str, String)> {
    const BYTES: usize = 256 << 10;
    let fill = |unit: &str| unit.repeat(BYTES / unit.len());
    let keywords: String = scanner().rules.rows().iter().flat_map(|row| row.keywords.clone()).collect::<Vec<_>>().join(" ");
    vec![
        ("one letter", fill("a")),
        ("digits", fill("4")),
        ("spaced digits", fill("4 1 ")),
        ("every keyword", fill(&format!("{keywords} \n"))),
        ("jwt heads", fill("eyJhbGciOiJIUzI1NiIs")),
        ("jwt head without end", format!("'eyJ{}'", fill("eyJ"))),
        ("e-mail heads", format!("{}@", fill("a.b-c_d%"))),
        ("at signs", fill("@a@b.")),
        ("iban heads", fill("GB82 ")),
        ("phrase words", fill("abandon zoo ")),
        ("phrases", fill("abandon zoo wrong yellow able zone about youth above young absent zebra , the ")),
        ("secrets that are none", fill("key='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' ")),
        ("strings", fill("'abcd',")),
        ("strings of base64", fill("'YWJjZGVmZ2hpamtsbW5v',")),
        ("sums of strings", fill("'a'+")),
        ("comments", fill("/*a*/x\n")),
        ("open brackets", fill("(")),
        ("open templates", fill("`${")),
        ("open comments", fill("/*")),
        ("escapes", format!("'{}'", fill("\\u0061"))),
        ("percents", format!("'{}'", fill("%61"))),
        ("slashes", fill("/")),
        ("froms", fill("from 'a' ")),
        ("imports", fill("import(")),
        ("character codes", fill("fromCharCode(97,")),
        ("letters of other scripts", fill("асе ")),
        ("urls", fill("http://a:bcdefg")),
        ("addresses", fill("http://1.2.3.4.5 ")),
        ("terms", fill("buy buy buy cocaine-")),
        ("copyrights", fill("// copyright (c) 2020 \nx\n")),
    ]
}

/// The limit is generous for a debug build on a busy machine. `scan_times` prints the time of a release build.
#[test]
fn hostile_sources_are_scanned_in_linear_time() {
    let scanner = scanner();
    for (name, source) in hostile() {
        let started = Instant::now();
        let _ = scanner.scan(&Upload { source: Some(&source), ..Upload::default() });
        assert!(started.elapsed().as_millis() < 4_000, "{name}: {:?}", started.elapsed());
    }
}

/// A long name above many members, and a large number of findings: the cost must not exceed their size.
#[test]
fn hostile_document_is_scanned_in_linear_time() {
    let scanner = scanner();
    let long = "n".repeat(200 << 10);
    let members = json!({ long.as_str(): vec!["http://45.77.12.9/"; 20_000] });
    let many: Vec<_> = (0..20_000).map(|_| format!("http://45.77.12.9/{}", aws_key())).collect();
    for value in [members, json!(many)] {
        let started = Instant::now();
        let report = scanner.scan(&Upload { response: Some(&value), ..Upload::default() });
        // Generous, as above.
        assert!(started.elapsed().as_millis() < 8_000, "{:?}", started.elapsed());
        assert!(report.findings.len() <= 60 && json!(report.findings).to_string().len() < 20_000);
    }
}

#[test]
#[ignore = "prints times; run it in release"]
#[allow(clippy::print_stdout, reason = "figures are what it is for")]
fn scan_times() {
    let started = Instant::now();
    let scanner = scanner();
    println!("{:>9.2?}  to make the scanner", started.elapsed());
    for (name, source) in hostile() {
        let upload = Upload { source: Some(&source), ..Upload::default() };
        let times = (0..5).map(|_| {
            let started = Instant::now();
            let _ = scanner.scan(&upload);
            started.elapsed()
        });
        println!("{:>9.2?}  {name}", times.min().unwrap());
    }
}

mod families;
mod fuzz;
