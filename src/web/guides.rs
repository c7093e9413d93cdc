//! The host's guides: Markdown that is filled with facts of this host and rendered as a page.

use std::fmt::Write as _;

use maud::Escaper;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use tollhouse_base::anchors::Anchors;

use crate::{code, plain};

pub(super) struct Guide {
    /// Name in its address, below `/guides/`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Markdown with `{{facts}}`, and with `<!-- if condition -->` … `<!-- end -->` around
    /// conditional parts.
    pub(super) text: &'static str,
}

pub(super) const ALL: &[Guide] = &[
    Guide {
        name: "x402-agent-payment-infrastructure",
        title: "Paying for tools with x402",
        text: include_str!("guides/x402-agent-payment-infrastructure.md"),
    },
    Guide { name: "build-a-tool", title: "Build a tool", text: include_str!("guides/build-a-tool.md") },
];

/// Replaces facts, and removes parts whose condition is false.
pub(super) fn filled(text: &str, facts: &[(&str, String)], holds: impl Fn(&str) -> bool) -> String {
    let (mut filled, mut shown) = (String::with_capacity(text.len()), true);
    for line in text.lines() {
        match line.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->")) {
            Some("end") => shown = true,
            Some(mark) if mark.starts_with("if ") => shown = holds(&mark[3..]),
            _ if shown => _ = writeln!(filled, "{line}"),
            _ => {}
        }
    }
    // In one pass, so that facts within facts are not replaced.
    let mut done = String::with_capacity(filled.len());
    let mut rest = filled.as_str();
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        let fact = facts.iter().find(|(known, _)| *known == name);
        done += before;
        done += fact.map_or("", |(_, fact)| fact);
        rest = behind;
    }
    done + rest
}

/// State of the current table.
#[derive(Default)]
struct Table {
    /// The column names.
    headings: Vec<String>,
    /// Index of the next cell in its row. `None` in the header row.
    position: Option<usize>,
}

impl Table {
    /// Begins a cell. The first of a row is its heading. The others are labeled with their column.
    fn begins(&mut self) -> Event<'static> {
        match self.position {
            None => {
                self.headings.push(String::new());
                Event::Start(Tag::TableCell)
            }
            Some(0) => Event::Html("<th scope=\"row\">".into()),
            Some(position) => {
                let mut cell = "<td data-label=\"".to_owned();
                _ = Escaper::new(&mut cell).write_str(self.headings.get(position).map_or("", String::as_str));
                Event::Html((cell + "\">").into())
            }
        }
    }

    fn ends(&mut self) -> Event<'static> {
        match &mut self.position {
            None => Event::End(TagEnd::TableCell),
            Some(position) => {
                *position += 1;
                let end = if *position == 1 { "</th>" } else { "</td>" };
                Event::Html(end.into())
            }
        }
    }

    /// Collects the text of a header cell.
    fn rows(&mut self, words: &str) {
        if let (None, Some(heading)) = (self.position, self.headings.last_mut()) {
            *heading += words;
        }
    }
}

pub(super) struct Rendered {
    pub(super) html: String,
    /// Id and text of each section.
    pub(super) headings: Vec<(String, String)>,
}

/// Maximum length of a text whose code is highlighted, in bytes. The marks would make a longer page
/// heavy.
const MAX_HIGHLIGHTED: usize = 48 << 10;

/// Renders Markdown as part of a page: raw HTML is removed, code is highlighted and gets copy
/// buttons, sections get ids, and quotes that begin with a bold word are callouts.
pub(super) fn rendered(text: &str) -> Rendered {
    let mut headings: Vec<(String, String)> = Vec::new();
    let mut events = Vec::new();
    let (mut block, mut section) = (None::<(String, String)>, None::<String>);
    let mut table = Table::default();
    let (mut anchors, mut callout) = (Anchors::default(), false);
    let mut parsed = Parser::new_ext(text, Options::ENABLE_TABLES).collect::<Vec<_>>().into_iter();
    while let Some(event) = parsed.next() {
        if let Event::Text(words) | Event::Code(words) = &event {
            table.rows(words);
        }
        match event {
            // The page has its own main heading.
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => section = Some(String::new()),
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => section = None,
            Event::Start(Tag::Heading { level: HeadingLevel::H2 | HeadingLevel::H3, .. }) => section = Some(String::new()),
            Event::End(TagEnd::Heading(level @ (HeadingLevel::H2 | HeadingLevel::H3))) => {
                let words = section.take().unwrap_or_default();
                let id = anchors.next(&words);
                let link = maud::html! { a.anchor href={ "#" (id) } { (words) } };
                if level == HeadingLevel::H3 {
                    events.push(markup_event(maud::html! { h3 id=(id) { (link) } }));
                    continue;
                }
                events.push(markup_event(maud::html! { h2 id=(id) { (link) } }));
                headings.push((id, words));
            }
            Event::Text(text) | Event::Code(text) if section.is_some() => section.iter_mut().for_each(|words| *words += &text),
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = if let CodeBlockKind::Fenced(info) = &kind { info } else { "" };
                // Further words are for the tests of the documents.
                block = Some((info.split(' ').next().unwrap_or_default().to_owned(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, code) = block.take().unwrap_or_default();
                let block = if text.len() <= MAX_HIGHLIGHTED { code::highlighted } else { code::block };
                events.push(markup_event(block(name(&language), &language, code.trim_end())));
            }
            Event::Text(text) if block.is_some() => block.iter_mut().for_each(|(_, code)| *code += &text),
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(Tag::BlockQuote(_)) if let Some(kind) = callout_kind(parsed.as_slice()) => {
                callout = true;
                events.push(Event::Html(format!("<aside class=\"callout {kind}\" role=\"note\">").into()));
            }
            Event::End(TagEnd::BlockQuote(_)) if callout => {
                callout = false;
                events.push(Event::Html("</aside>".into()));
            }
            // Tables get the markup of other tables. Markdown's column alignment would need inline
            // styles.
            Event::Start(Tag::Table(_)) => {
                table = Table::default();
                let begin = "<div class=\"scroll\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"><table class=\"lines\">";
                events.push(Event::Html(begin.into()));
            }
            Event::End(TagEnd::Table) => events.push(Event::Html("</tbody></table></div>".into())),
            Event::Start(Tag::TableRow) => {
                table.position = Some(0);
                events.push(event);
            }
            Event::Start(Tag::TableCell) => events.push(table.begins()),
            Event::End(TagEnd::TableCell) => events.push(table.ends()),
            Event::Text(text) => events.push(Event::Text(plain(&text).into_owned().into())),
            event => events.push(event),
        }
    }
    let mut html = String::with_capacity(text.len() * 2);
    html::push_html(&mut html, events.into_iter());
    Rendered { html, headings }
}

fn markup_event(markup: maud::Markup) -> Event<'static> {
    Event::Html(CowStr::from(markup.into_string()))
}

/// Returns the class of the callout whose quote begins with these events. `None` if it is another
/// quote.
fn callout_kind(events: &[Event]) -> Option<&'static str> {
    let [Event::Start(Tag::Paragraph), Event::Start(Tag::Strong), Event::Text(word), ..] = events else { return None };
    match word.trim_end_matches(':') {
        "Warning" | "Caution" => Some("warning"),
        "Note" | "Tip" | "Important" => Some("hint"),
        _ => None,
    }
}

/// Returns the label of a code block for its language.
fn name(language: &str) -> &'static str {
    match language {
        "sh" | "bash" | "console" => "Shell",
        "js" | "mjs" => "JavaScript",
        "ts" => "TypeScript",
        "json" | "jsonc" => "JSON",
        "py" | "python" => "Python",
        "toml" => "TOML",
        "yaml" | "yml" => "YAML",
        "nginx" => "nginx",
        "caddy" | "caddyfile" => "Caddyfile",
        "http" => "HTTP",
        "mermaid" => "Diagram",
        _ => "Text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_filled_in_once_and_false_parts_removed() {
        let text = "a {{one}}\n<!-- if yes -->\nb\n<!-- end -->\n<!-- if no -->\nc\n<!-- end -->\n{{two}} {{none}}d\n";
        let facts = [("one", "{{two}}".to_owned()), ("two", "2".to_owned())];
        assert_eq!(filled(text, &facts, |condition| condition == "yes"), "a {{two}}\nb\n2 d\n");
    }

    #[test]
    fn table_cells_are_labeled_with_their_column() {
        let Rendered { html, .. } = rendered("| who | `a`, \"b\" |\n|---|--:|\n| *x* | [y](/y) |\n| z | |\n\nafter\n");
        assert!(html.contains("<th>who</th>") && html.contains("<th scope=\"row\"><em>x</em></th>"), "{html}");
        assert!(html.contains("<td data-label=\"a, &quot;b&quot;\"><a href=\"/y\">y</a></td>") && !html.contains("style"), "{html}");
        assert!(html.contains("</tbody></table></div>") && html.contains("<p>after</p>"), "{html}");
    }

    #[test]
    fn quotes_with_a_bold_word_are_callouts() {
        let Rendered { html, .. } = rendered("> **Warning:** Keep the `key`.\n\n> **Note:** Small.\n\n> Said **so**.\n");
        assert!(html.contains("<aside class=\"callout warning\" role=\"note\">\n<p><strong>Warning:</strong> Keep"), "{html}");
        assert!(html.contains("<aside class=\"callout hint\" role=\"note\">") && html.matches("</aside>").count() == 2, "{html}");
        assert!(html.contains("<blockquote>\n<p>Said") && html.contains("</blockquote>"), "{html}");
    }

    #[test]
    fn repeated_headings_have_different_ids() {
        let Rendered { headings, .. } = rendered("## A\n\n### a_b\n\n## A\n\n## 409 `a_b`\n");
        assert_eq!(headings.iter().map(|(id, _)| &**id).collect::<Vec<_>>(), ["a", "a-1", "409-a_b"]);
    }

    #[test]
    fn code_is_highlighted_by_the_first_word_of_its_fence() {
        let Rendered { html, .. } = rendered("```sh norun\n$ tollhouse key new\nmade\n```\n");
        assert!(html.contains("<code class=\"language-sh\"><bdi><span class=\"p\">$ </span><span class=\"k\">tollhouse"), "{html}");
        assert!(html.contains("<span class=\"o\">made</span>") && html.contains("<span>Shell</span>"), "{html}");
    }

    #[test]
    fn raw_html_is_removed_and_code_stays_text() {
        let Rendered { html, headings } = rendered("# Title\n\n## A `b`\n\n<script>x</script>\n\na <b>c</b>\n\n```sh\n<i> && x\n```\n");
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<i>") && !html.contains("Title"), "{html}");
        assert!(html.contains("&lt;i&gt; &amp;&amp; <span class=\"k\">x") && html.contains("id=\"a-b\""), "{html}");
        assert_eq!(headings, [("a-b".to_owned(), "A b".to_owned())]);
    }
}
