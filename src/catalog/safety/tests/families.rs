//! The cases of `fixtures/safety`: what each family must find, and what it must not.

use std::{collections::BTreeSet, path::PathBuf};

use serde::Deserialize;

use super::{super::Upload, scanner};

/// A case of `fixtures/safety/<family>/{true,false}.jsonc`. `~~` is removed from its texts. It
/// prevents secret scanners from reporting the fixture.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    /// The violated rule. Absent if the family must find nothing.
    rule: Option<String>,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    source: Option<String>,
    response: Option<serde_json::Value>,
    #[serde(default)]
    same_source: bool,
}

/// Minimum number of cases of each kind in each family.
const LEAST: usize = 40;

fn cases(family: &str, kind: &str) -> Vec<Case> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/safety").join(family).join(format!("{kind}.jsonc"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let json: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    serde_json::from_str(&expanded(&json.replace("~~", ""))).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Expands `{{base64 N}}`, `{{hex N}}`, `{{emails N}}` and `{{phones N}}`.
fn expanded(text: &str) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (call, after) = behind.split_once("}}").unwrap();
        let (what, count) = call.split_once(' ').unwrap();
        let count: usize = count.parse().unwrap();
        expanded.push_str(before);
        expanded.push_str(&written_out(what, count));
        rest = after;
    }
    expanded + rest
}

fn written_out(what: &str, count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let mut digits = |alphabet: &[u8], count: usize| (0..count).map(|_| char::from(*random.choice(alphabet).unwrap())).collect::<String>();
    match what {
        "base64" => digits(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", count),
        "hex" => digits(b"0123456789abcdef", count),
        "emails" => {
            (0..count).map(|n| format!("{}{n}@{}.net", digits(b"abcdeilmnorst", 6), digits(b"bcdfghklm", 5))).collect::<Vec<_>>().join(" ")
        }
        "phones" => (0..count).map(|n| format!("+44 20 7946 {:04}", 1000 + n * 7)).collect::<Vec<_>>().join("; "),
        other => panic!("no `{other}`"),
    }
}

#[test]
fn each_family_finds_what_it_should_and_nothing_else() {
    let scanner = scanner();
    let families: BTreeSet<_> = scanner.rules().map(|rule| rule.family).collect();
    let family_of = |id: &str| scanner.rules().find(|rule| rule.id == id).map(|rule| rule.family);
    let (mut wrong, mut never) = (Vec::new(), scanner.rules().map(|rule| rule.id).collect::<BTreeSet<_>>());
    for family in &families {
        for kind in ["true", "false"] {
            let cases = cases(family, kind);
            let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
            assert!(cases.len() >= LEAST && names.len() == cases.len(), "{family}/{kind} has {} cases, {} names", cases.len(), names.len());
            for case in &cases {
                let upload = Upload {
                    title: &case.title,
                    description: &case.description,
                    source: case.source.as_deref(),
                    response: case.response.as_ref(),
                    hash_of_another: case.same_source,
                    ..Upload::default()
                };
                let report = scanner.scan(&upload);
                let found: BTreeSet<_> = report.findings.iter().map(|found| found.rule.as_str()).collect();
                let of_family: Vec<_> = found.iter().filter(|id| family_of(id).as_deref() == Some(family)).collect();
                assert_eq!(case.rule.is_some(), kind == "true", "{family}/{kind}: {}", case.name);
                match &case.rule {
                    Some(rule) if !found.contains(rule.as_str()) => {
                        wrong.push(format!("{family}: missed {rule}: {}: {found:?}", case.name))
                    }
                    Some(rule) => drop(never.remove(rule)),
                    None if !of_family.is_empty() => wrong.push(format!("{family}: false {of_family:?}: {}", case.name)),
                    None => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(never.is_empty(), "no case for {never:?}");
}
