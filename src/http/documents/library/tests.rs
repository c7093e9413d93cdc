use std::collections::BTreeSet;

use super::*;
use crate::rows;

#[test]
fn every_document_has_a_unique_name_a_heading_and_a_sentence() {
    let pages = pages(&rows(), "https://tools.example");
    let names: BTreeSet<_> = pages.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(names.len(), pages.len());
    assert_eq!(FILES.files().count(), pages.iter().filter(|page| page.origin == Origin::File).count(), "a file of `docs/` is not served");
    for page in &pages {
        assert!(page.title.len() > 3 && page.about.len() > 20 && page.about.len() < 200 && page.about.ends_with('.'), "{page:?}");
        let text = page.document.text();
        assert!(text.starts_with("> ") && text.matches("](").count() == text.matches("](https://").count() + text.matches("](#").count());
    }
}

#[test]
fn every_subject_has_a_page_with_operations() {
    let listed: BTreeSet<_> = SUBJECTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows().iter().map(|row| row.subject).collect::<BTreeSet<_>>(), listed);
}

#[test]
fn links_are_absolute_and_links_out_of_the_documents_become_text() {
    let text = "[the readme](../README.md), [tiers](../sandbox/README.md#tiers), [limits](limits.md#a), [b](#b) and [c](https://c.example)";
    let expected = "[the readme](https://a.example/docs/index.md), tiers, [limits](https://a.example/docs/limits.md#a), [b](#b) and [c](https://c.example)";
    assert_eq!(absolute_links(text, "https://a.example"), expected);
    let request = "`curl localhost:4020/llms.txt`, `pay.mjs http://127.0.0.1:4020/tools/echo`";
    let expected = "`curl https://a.example/b/llms.txt`, `pay.mjs https://a.example/b/tools/echo`";
    assert_eq!(here(request, "https://a.example/b"), expected);
    for base in ["http://localhost:4020", "http://127.0.0.1:4020/x", "http://127.0.0.1:40205"] {
        let expected = format!("{base}/a {base}/b {base}/c localhost:40205");
        assert_eq!(here("localhost:4020/a http://localhost:4020/b http://127.0.0.1:4020/c localhost:40205", base), expected);
    }
    assert_eq!(without_links("see [settings.md](settings.md) first"), "see settings.md first");
}
