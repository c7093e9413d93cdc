//! Finds prose in Markdown: in documents, and in comments, which use a part of it.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use super::{
    passage::{Area, Passage},
    rules::{self, Finding},
};

/// Returns the passages of a text whose first line has this number.
pub(super) fn passages(text: &str, first_line: usize, area: Area) -> Vec<Passage> {
    let starts: Vec<_> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |offset: usize| first_line + starts.partition_point(|start| *start <= offset);
    let mut found = Vec::new();
    let mut current = Passage::new(area);
    let (mut code, mut link) = (false, false);
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => code = true,
            Event::End(TagEnd::CodeBlock) => code = false,
            Event::Start(Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. }) => {
                current.push_code(line(range.start));
                link = true;
            }
            Event::End(TagEnd::Link) => link = false,
            Event::Text(_) if code || link => {}
            Event::Text(text) => current.push(&text, line(range.start)),
            Event::Code(_) => current.push_code(line(range.start)),
            Event::SoftBreak | Event::HardBreak => current.push(" ", line(range.start)),
            Event::Start(tag) if is_block(&tag) => {
                let kind = match (&tag, area) {
                    (Tag::TableCell, Area::Document) => Area::Cell,
                    _ => area,
                };
                let mut next = Passage::new(kind);
                next.is_heading = matches!(tag, Tag::Heading { .. });
                found.push(std::mem::replace(&mut current, next));
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell) => {
                found.push(std::mem::replace(&mut current, Passage::new(area)));
            }
            _ => {}
        }
    }
    found.push(current);
    found.retain(|passage| !passage.text.trim().is_empty());
    found
}

/// Returns the lines of a document that are too long, outside tables, code and HTML.
pub(super) fn long_lines(text: &str) -> Vec<Finding> {
    let mut exempt: Vec<Range<usize>> = Vec::new();
    for (event, range) in events(text) {
        if let Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::HtmlBlock) = event {
            exempt.push(range);
        }
    }
    let mut offset = 0;
    let mut found = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if !exempt.iter().any(|range| range.contains(&offset)) {
            found.extend(rules::check_line(line.trim_end(), index + 1));
        }
        offset += line.len();
    }
    found
}

fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter()
}

fn is_block(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell | Tag::BlockQuote(_) | Tag::List(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Pay for a call\n\nSend `x` to\n[the host](https://host.example/a).\n\n```sh\ncancelled\n```\n\n- One item\n- See \
                            <https://b.example>\n\n| a | b |\n|---|---|\n| one cell | `two` |\n\n<!-- cancelled -->\n";

    #[test]
    fn paragraphs_items_and_cells_are_passages() {
        let found = passages(DOCUMENT, 1, Area::Document);
        let shown: Vec<_> = found.iter().map(|passage| (passage.text.replace('\u{FFFC}', "@"), passage.line(0), passage.area)).collect();
        let shown: Vec<_> = shown.iter().map(|(text, line, area)| (text.as_str(), *line, *area)).collect();
        let expected = [
            ("Pay for a call", 1, Area::Document),
            ("Send @ to the host.", 3, Area::Document),
            ("One item", 10, Area::Document),
            ("See @", 11, Area::Document),
            ("a", 13, Area::Cell),
            ("b", 13, Area::Cell),
            ("one cell", 15, Area::Cell),
            ("@", 15, Area::Cell),
        ];
        assert_eq!(shown, expected);
        assert!(found[0].is_heading && !found[1].is_heading);
    }

    #[test]
    fn lines_of_tables_and_code_can_be_long() {
        let long = "word ".repeat(30);
        let text = format!("{long}\n\n```\n{long}\n```\n\n| a |\n|---|\n| {long} |\n");
        assert_eq!(long_lines(&text).iter().map(|finding| finding.line).collect::<Vec<_>>(), [1]);
    }
}
