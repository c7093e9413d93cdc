//! Search over the documents: each section of each page is a text of the index.

use std::{fmt, sync::Arc};

use tollhouse_api::{DocsMatch, DocsSearchResponse, True};
use tollhouse_base::anchors::Anchors;
use tollhouse_catalog::search::{Index, Item, Query, Text};

use super::{INDEX, Page};

/// Maximum number of matches, at most one for each page.
const MAX_MATCHES: usize = 20;
/// Maximum number of sections that are considered.
const MAX_SECTIONS: usize = 200;
/// Maximum length of an excerpt, in characters.
const EXCERPT: usize = 200;
/// Length of the part of an excerpt before its first match, in characters.
const BEFORE: usize = 60;

/// An index of the sections of all pages.
pub(in crate::documents) struct DocsIndex(Index<Hit>);

/// A section, shared with the index.
#[derive(Clone)]
struct Hit(Arc<Section>);

/// A section of a page, or its beginning.
struct Section {
    /// Position in the order of the pages, which breaks ties.
    order: String,
    /// Name, title and group of its page.
    page: String,
    title: String,
    group: String,
    /// Its heading and anchor. Empty for the beginning of a page.
    heading: String,
    anchor: String,
    /// Its text without markup.
    text: String,
}

impl Item for Hit {
    fn name(&self) -> &str {
        &self.0.order
    }
}

impl fmt::Debug for DocsIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl DocsIndex {
    pub(in crate::documents) fn new(pages: &[Page]) -> Self {
        let mut index = Index::default();
        let sections = pages.iter().filter(|page| page.name != INDEX).flat_map(sections);
        for (position, section) in sections.enumerate() {
            let section = Arc::new(Section { order: format!("{position:06}"), ..section });
            // The words of a page's title count for all of its sections.
            let titles = [section.title.clone()];
            let text = Text { slug: &section.page, title: &section.heading, tags: &titles, description: &section.text };
            index.put(&text, |_| Hit(Arc::clone(&section)));
        }
        Self(index)
    }

    /// Returns the best section of each page that matches, best first.
    pub(in crate::documents) fn search(&self, text: &str, query: &Query, base: &str) -> DocsSearchResponse {
        let mut results: Vec<DocsMatch> = Vec::new();
        for Hit(section) in self.0.search(query, 0, MAX_SECTIONS, |_| true).items {
            if results.len() < MAX_MATCHES && results.iter().all(|found| found.name != section.page) {
                results.push(section.shown(text, base));
            }
        }
        DocsSearchResponse { ok: True, query: text.to_owned(), results }
    }
}

impl Section {
    fn shown(&self, query: &str, base: &str) -> DocsMatch {
        let anchor = if self.anchor.is_empty() { String::new() } else { format!("#{}", self.anchor) };
        DocsMatch {
            name: self.page.clone(),
            title: self.title.clone(),
            group: self.group.clone(),
            heading: (!self.heading.is_empty()).then(|| self.heading.clone()),
            url: format!("{base}/docs/{}{anchor}", self.page),
            excerpt: excerpt(&self.text, query),
        }
    }
}

/// Splits a page at its headings of the second and third level.
fn sections(page: &Page) -> Vec<Section> {
    let group = page.shelf.map(|shelf| match shelf.section.as_str() {
        "" => shelf.group.clone(),
        section => format!("{}: {section}", shelf.group),
    });
    let begin = |heading: &str, anchor: String| Section {
        order: String::new(),
        page: page.name.clone(),
        title: page.title.clone(),
        group: group.clone().unwrap_or_default(),
        heading: heading.to_owned(),
        anchor,
        text: String::new(),
    };
    let mut sections = vec![begin("", String::new())];
    let (mut anchors, mut is_code) = (Anchors::default(), false);
    // The first line is a hint for programs, and the second heading is the title.
    for line in page.document.text().lines().skip(1) {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let heading = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")).filter(|_| !is_code);
        if let Some(heading) = heading {
            let heading = bare(heading);
            sections.push(begin(&heading, anchors.next(&heading)));
        } else if !line.starts_with("# ") && !is_fence && !line.starts_with("<!--") && !line.starts_with("|-") {
            let text = sections.last_mut().map(|section| &mut section.text);
            text.into_iter().for_each(|text| {
                *text += bare(line).trim();
                text.push(' ');
            });
        }
    }
    sections
}

/// Removes the markup of a line.
fn bare(line: &str) -> String {
    let line = super::without_links(line.trim_start_matches(['>', ' ', '-', '*', '#']));
    line.trim_matches(['|', ' ']).replace("**", "").replace('`', "").replace(" | ", ", ").replace(['|', '\\'], "")
}

/// Returns the part of a text around the first word of the query.
fn excerpt(text: &str, query: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words: Vec<_> = query.to_lowercase().split(|char: char| !char.is_alphanumeric()).map(str::to_owned).collect();
    let lower = text.to_lowercase();
    let at = words.iter().filter(|word| word.len() > 2).filter_map(|word| lower.find(word.as_str())).min().unwrap_or(0);
    let position = lower[..at].chars().count();
    let start = position.saturating_sub(BEFORE);
    let skipped: String = text.chars().skip(start).collect();
    let from = if start == 0 { &skipped } else { skipped.split_once(' ').map_or(&*skipped, |(_, rest)| rest) };
    let shown: String = from.chars().take(EXCERPT).collect();
    let is_whole = shown.len() == from.len();
    let end = if is_whole { shown.len() } else { shown.rfind(' ').unwrap_or(shown.len()) };
    format!("{}{}{}", if start == 0 { "" } else { "… " }, &shown[..end], if is_whole { "" } else { " …" })
}

#[cfg(test)]
mod tests {
    use super::{super::pages, *};
    use crate::rows;

    fn found(query: &str) -> Vec<DocsMatch> {
        let index = DocsIndex::new(&pages(&rows(), "https://a.example"));
        index.search(query, &Query::parse(query).unwrap(), "https://a.example").results
    }

    #[test]
    fn search_finds_the_section_of_an_operation_and_of_an_error() {
        let operation = &found("refund a payment POST /ai/admin/refunds")[..3];
        assert!(operation.iter().any(|hit| hit.name == "api-administration" || hit.name == "refund-a-payment"), "{operation:?}");
        let error = found("quote_expired");
        assert!(error.iter().any(|hit| hit.name == "errors" && hit.url.contains("/docs/errors#")), "{error:?}");
    }

    #[test]
    fn words_of_evaluators_find_the_pages_of_their_subject() {
        for (query, page) in [
            ("exactly once", "one-payment-one-run"),
            ("what happens if the host crashes", "one-payment-one-run"),
            ("what happens if the host crashes", "storage"),
            ("data loss", "storage"),
            ("RPO", "storage"),
            ("p99", "scale"),
            ("benchmarks", "scale"),
        ] {
            let hits = found(query);
            assert!(hits.iter().take(5).any(|hit| hit.name == page), "{query}: {hits:?}");
        }
    }

    #[test]
    fn search_has_one_match_for_each_page_and_none_for_stop_words() {
        let hits = found("payment");
        let mut names: Vec<_> = hits.iter().map(|hit| hit.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == hits.len() && hits.len() > 3 && hits.len() <= MAX_MATCHES, "{hits:?}");
        assert!(hits.iter().all(|hit| hit.excerpt.chars().count() <= EXCERPT + 4), "{hits:?}");
        assert!(found("the").is_empty() && found("").is_empty());
    }

    #[test]
    fn excerpt_begins_near_the_first_word_of_the_query() {
        let long = format!("{} İ Payments settle {}", "before ".repeat(40), "after ".repeat(60));
        let shown = excerpt(&long, "settle payment");
        assert!(shown.starts_with("… ") && shown.ends_with(" …") && shown.contains("Payments settle"), "{shown}");
        assert_eq!(excerpt("Short text.", "none"), "Short text.");
    }
}
