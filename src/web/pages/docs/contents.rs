//! The table of contents of the documents, read from their index.

use maud::{Markup, html};

/// The name of the index.
pub(super) const INDEX: &str = "index";

/// The groups of documents, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents<'t>(Vec<Group<'t>>);

/// A group of documents, with its title and sections.
#[derive(Debug, PartialEq, Eq)]
struct Group<'t> {
    title: &'t str,
    sections: Vec<Section<'t>>,
}

/// A section of a group. The title is empty if its documents are directly below the group.
#[derive(Debug, PartialEq, Eq)]
struct Section<'t> {
    title: &'t str,
    entries: Vec<Entry<'t>>,
}

/// A document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    name: &'t str,
    pub(super) title: &'t str,
}

impl Entry<'_> {
    /// Returns the path of its page.
    pub(super) fn path(&self) -> String {
        format!("/docs/{}", self.name)
    }
}

impl<'t> Contents<'t> {
    /// Reads the headings and links of the index of the host at `base`.
    pub(super) fn read(index: &'t str, base: &str) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for line in index.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                groups.push(Group { title, sections: vec![Section { title: "", entries: vec![] }] });
            } else if let Some(group) = groups.last_mut() {
                if let Some(title) = line.strip_prefix("### ") {
                    group.sections.push(Section { title, entries: vec![] });
                } else if let (Some(entry), Some(section)) = (entry(line, base), group.sections.last_mut()) {
                    section.entries.push(entry);
                }
            }
        }
        groups.iter_mut().for_each(|group| group.sections.retain(|section| !section.entries.is_empty()));
        Self(groups)
    }

    /// Returns the links to all documents, with the current one marked.
    pub(super) fn navigation(&self, name: &str) -> Markup {
        html! {
            nav.tree aria-label="Documents" {
                @for group in &self.0 {
                    h2 { (group.title) }
                    @for section in &group.sections {
                        @if !section.title.is_empty() { h3 { (section.title) } }
                        ul {
                            @for entry in &section.entries {
                                li { a href=(entry.path()) aria-current=[(entry.name == name).then_some("page")] { (entry.title) } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Returns the documents before and after this one. The first document follows the index.
    pub(super) fn around(&self, name: &str) -> (Option<&Entry<'t>>, Option<&Entry<'t>>) {
        let all: Vec<_> = self.0.iter().flat_map(|group| group.sections.iter().flat_map(|section| &section.entries)).collect();
        match all.iter().position(|entry| entry.name == name) {
            Some(at) => (at.checked_sub(1).map(|before| all[before]), all.get(at + 1).copied()),
            None => (None, all.first().copied().filter(|_| name == INDEX)),
        }
    }
}

/// Reads a line of the index.
fn entry<'t>(line: &'t str, base: &str) -> Option<Entry<'t>> {
    let (title, rest) = line.strip_prefix("- [")?.split_once("](")?;
    let name = rest.strip_prefix(base)?.strip_prefix("/docs/")?.split_once(".md)")?.0;
    Some(Entry { name, title })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Documentation\n\n## Tutorials\n\n- [Pay](https://a.example/docs/pay.md): First.\n\n## How-to guides\n\n\
        ### Builders\n\n- [Sell](https://a.example/docs/sell.md): Then.\n- [Log](https://a.example/docs/log.md): Last.\n\n\
        ### Nobody\n\nMore in [OpenAPI](https://a.example/docs/openapi.json).\n";

    #[test]
    fn navigation_has_all_documents_and_marks_the_current_one() {
        let contents = Contents::read(TEXT, "https://a.example");
        let html = contents.navigation("sell").into_string();
        assert!(
            html.contains("<h2>Tutorials</h2><ul><li><a href=\"/docs/pay\">Pay</a></li></ul><h2>How-to guides</h2><h3>Builders</h3>"),
            "{html}"
        );
        assert!(html.contains("<a href=\"/docs/sell\" aria-current=\"page\">Sell</a>") && !html.contains("Nobody"), "{html}");
        assert_eq!(html.matches("aria-current").count(), 1);
    }

    #[test]
    fn documents_follow_each_other_across_groups() {
        let contents = Contents::read(TEXT, "https://a.example");
        let titles = |name: &str| {
            let (before, after) = contents.around(name);
            (before.map(|entry| entry.title), after.map(|entry| entry.title))
        };
        assert_eq!(titles(INDEX), (None, Some("Pay")));
        assert_eq!(titles("pay"), (None, Some("Sell")));
        assert_eq!(titles("sell"), (Some("Pay"), Some("Log")));
        assert_eq!(titles("log"), (Some("Sell"), None));
        assert_eq!(titles("none"), (None, None));
    }
}
