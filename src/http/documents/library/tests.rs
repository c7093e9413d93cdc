use std::collections::BTreeSet;

use super::*;
use crate::rows;

const BASE: &str = "https://tools.example";

/// Returns the Markdown files of a folder and those below, without their suffix.
fn files(folder: &'static Dir) -> Vec<String> {
    let here = folder.files().filter_map(|file| file.path().to_str()?.strip_suffix(".md").map(str::to_owned));
    here.chain(folder.dirs().flat_map(files)).collect()
}

#[test]
fn every_document_has_a_unique_name_a_heading_and_a_sentence() {
    let pages = pages(&rows(), BASE);
    let names: BTreeSet<_> = pages.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(names.len(), pages.len());
    for page in &pages {
        assert!(page.title.len() > 2 && page.about.len() > 20 && page.about.len() < 200 && page.about.ends_with('.'), "{page:?}");
        let text = page.document.text();
        assert!(text.starts_with("> ") && text.matches("](").count() == text.matches("](https://").count() + text.matches("](#").count());
    }
}

#[test]
fn every_file_is_in_the_table_of_contents() {
    let path = |shelf: &Shelf, name: &str| match shelf.folder.as_deref() {
        Some("") => Some(name.to_owned()),
        Some(folder) => Some(format!("{folder}/{name}")),
        None => None,
    };
    let listed: BTreeSet<_> = CONTENTS.iter().flat_map(|shelf| shelf.pages.iter().filter_map(|name| path(shelf, name))).collect();
    let found: BTreeSet<_> = files(&FILES).into_iter().chain([SECURITY.0.to_owned()]).collect();
    let (unlisted, missing): (Vec<_>, Vec<_>) = (found.difference(&listed).collect(), listed.difference(&found).collect());
    assert!(unlisted.is_empty() && missing.is_empty(), "not in `docs/contents.json`: {unlisted:?}; without a file: {missing:?}");
}

#[test]
fn every_generated_page_is_in_the_table_of_contents() {
    let listed = CONTENTS.iter().filter(|shelf| shelf.folder.is_none()).flat_map(|shelf| &shelf.pages);
    let generated = SUBJECTS.iter().map(|(subject, _)| format!("{API}{subject}")).chain(["errors".to_owned()]);
    assert_eq!(listed.cloned().collect::<BTreeSet<_>>(), generated.collect());
}

#[test]
fn sections_of_a_group_are_adjacent() {
    let mut seen = Vec::new();
    for shelf in &*CONTENTS {
        let is_known = seen.contains(&&*shelf.group);
        assert!(!is_known || seen.last() == Some(&&*shelf.group), "{shelf:?}");
        seen.push(&shelf.group);
    }
}

#[test]
fn every_subject_has_a_page_with_operations() {
    let listed: BTreeSet<_> = SUBJECTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows().iter().map(|row| row.subject).collect::<BTreeSet<_>>(), listed);
}

#[test]
fn index_lists_every_other_page_under_its_group() {
    let pages = pages(&rows(), BASE);
    let index = pages[0].document.text();
    for page in &pages[1..] {
        assert!(index.contains(&format!("- [{}]({BASE}/docs/{}.md): {}\n", page.title, page.name, page.about)), "{}", page.name);
    }
    assert!(index.contains("\n## Reference\n\n### ") && !index.contains("\n\n\n"), "{index}");
}

#[test]
fn description_is_the_first_sentence_after_the_title() {
    let text = "# Title\n\n```sh\n$ tollhouse\n```\n\nThis page shows `a`\nand [b](b.md). More.\n\n## Next\n";
    let draft = written("a", text).unwrap();
    assert_eq!((draft.title.as_str(), draft.about.as_str()), ("Title", "This page shows a and b."));
}
