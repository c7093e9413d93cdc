//! Fuzz test: uploads of arbitrary bytes.

use std::sync::LazyLock;

use serde_json::Value;

use super::*;

static SCANNER: LazyLock<Scanner> = LazyLock::new(scanner);

#[test]
fn scan_is_deterministic_and_reveals_no_text() {
    tollhouse_fuzz::check("scan", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let document: Option<Value> = serde_json::from_str(&text).ok();
        let tags = [text.chars().take(32).collect()];
        let upload = Upload { title: &text, tags: &tags, source: Some(&text), response: document.as_ref(), ..Upload::default() };
        let report = SCANNER.scan(&upload);
        assert_eq!(report, SCANNER.scan(&upload));
        let lines = u32::try_from(text.matches('\n').count() + 1).unwrap();
        assert!(report.findings.len() <= 60);
        for found in &report.findings {
            assert!(SCANNER.rules().any(|rule| rule.id == found.rule), "{found:?}");
            assert!(found.line.is_none_or(|line| (1..=lines).contains(&line)) && found.column != Some(0), "{found:?}");
            assert!(found.excerpt.as_ref().is_none_or(|shown| shown.chars().count() <= 2 + "… (16384 characters)".len()), "{found:?}");
        }
        assert_eq!(
            report.outcome == ScanOutcome::Block,
            report.findings.iter().any(|finding| finding.severity == tollhouse_tool::finding::Severity::Block)
        );
        _ = reaches(&text);
    });
}
