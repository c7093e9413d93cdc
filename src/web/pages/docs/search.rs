//! `/docs/search`: the sections of documents that match a query.

use maud::{Markup, html};
use tollhouse_api::{DocsMatch, DocsSearchResponse};
use tollhouse_front::accept::is_named;

use super::{
    contents::Contents,
    frame::{SEARCH, framed, index_text},
};
use crate::{HeaderMap, HeaderValue, PageQuery, PageResult, RawQuery, Visitor, header, plain, with_query};

/// Minimum length of words that are marked, in characters.
const MIN_MARKED: usize = 2;
/// Maximum difference in length of two words that count as forms of the same word.
const MAX_ENDING: usize = 3;

/// Returns the matches as a page, or as JSON if the `Accept` header asks for it.
pub(crate) async fn search(visitor: Visitor, RawQuery(query): RawQuery, request: HeaderMap) -> PageResult {
    let query = PageQuery::read(query.as_deref(), &["q"]);
    let words = query.get("q");
    let path = with_query(SEARCH, [("q", words)]);
    let mut response = if is_named(&request, "application/json") {
        visitor.pass(&path, &HeaderMap::new()).await
    } else {
        let found = visitor.get::<DocsSearchResponse>(&path).await?;
        let index = index_text(&visitor).await?;
        let contents = Contents::read(&index, visitor.base_url());
        let main = hits(words, &found.results, visitor.base_url());
        visitor.show(framed(&contents, words, "", "Search the docs", &main).under("/docs", "Docs")).await
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

fn hits(words: &str, found: &[DocsMatch], base: &str) -> Markup {
    html! {
        @if words.is_empty() {
            p.lead { "Type words, a command, a field or an error code." }
        } @else if found.is_empty() {
            p.lead role="status" { "No page matches “" (plain(words)) "”. Try fewer or other words." }
        } @else {
            p.lead role="status" { (found.len()) @if found.len() == 1 { " page" } @else { " pages" } " for “" (plain(words)) "”" }
            ol.hits {
                @for hit in found {
                    li {
                        a href=(hit.url.strip_prefix(base).unwrap_or(&hit.url)) {
                            (hit.title)
                            @if let Some(heading) = &hit.heading { " › " (heading) }
                        }
                        span.muted { (hit.group) }
                        p { (marked(&hit.excerpt, words)) }
                    }
                }
            }
        }
    }
}

/// Marks the words of a text that are in the query.
fn marked(text: &str, query: &str) -> Markup {
    let lower = query.to_lowercase();
    let asked: Vec<_> = lower.split(|char: char| !char.is_alphanumeric()).filter(|word| word.chars().count() >= MIN_MARKED).collect();
    let mut pieces: Vec<(bool, &str)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = rest.starts_with(char::is_alphanumeric);
        let end = rest.find(|char: char| char.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        pieces.push((is_word && asked.iter().any(|word| is_same(&piece.to_lowercase(), word)), piece));
        rest = behind;
    }
    html! { @for (is_marked, piece) in pieces { @if is_marked { mark { (piece) } } @else { (piece) } } }
}

/// Returns whether a word is a form of another one, or begins with it.
fn is_same(word: &str, asked: &str) -> bool {
    let common = word.chars().zip(asked.chars()).take_while(|(one, other)| one == other).count();
    let (length, asked_length) = (word.chars().count(), asked.chars().count());
    let is_form = common > MAX_ENDING && common + MAX_ENDING >= length.max(asked_length);
    word == asked || asked_length > MIN_MARKED && common == asked_length || is_form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_query_are_marked() {
        let html = marked("Settled <payments> are paid; a pay page.", "settle PAYMENT a").into_string();
        assert_eq!(html, "<mark>Settled</mark> &lt;<mark>payments</mark>&gt; are paid; a pay page.");
        assert_eq!(marked("İstanbul é", "é").into_string(), "İstanbul é");
    }

    #[test]
    fn matches_link_to_their_section_and_none_is_reported() {
        let hit = DocsMatch {
            name: "a".to_owned(),
            title: "A <b>".to_owned(),
            group: "Reference".to_owned(),
            heading: Some("Do it".to_owned()),
            url: "https://a.example/x/docs/a#do-it".to_owned(),
            excerpt: "Do it now.".to_owned(),
        };
        let html = hits("do", &[hit], "https://a.example/x").into_string();
        assert!(html.contains("<a href=\"/docs/a#do-it\">A &lt;b&gt; › Do it</a>") && html.contains("1 page for “do”"), "{html}");
        assert!(hits("<x>", &[], "").into_string().contains("No page matches “&lt;x&gt;”"));
    }
}
