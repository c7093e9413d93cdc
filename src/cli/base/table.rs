//! Plain tables for people, with numbers aligned to the right.

use unicode_width::UnicodeWidthStr as _;

use super::line;

/// A table of text cells, with headers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these headers. A header that starts with `>` aligns its column to the right.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: vec![] }
    }

    /// Adds a row. Foreign text is made safe to display.
    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| line(cell.as_ref())).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table.
    pub(crate) fn text(&self) -> String {
        let heads: Vec<_> = self.heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect();
        let all = || std::iter::once(&heads).chain(&self.rows);
        let width = |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
        let widths: Vec<_> = (0..heads.len()).map(width).collect();
        let mut text = String::new();
        for row in all() {
            let mut message = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths.get(column).map_or(0, |width| width.saturating_sub(cell.width())));
                let right = self.heads.get(column).is_some_and(|head| head.starts_with('>'));
                message += &if right { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") };
            }
            text += message.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A list of facts about one thing, one per line.
#[derive(Debug, Default)]
pub(crate) struct FactList(Vec<(String, String)>);

impl FactList {
    /// Adds a fact, unless the value is empty.
    pub(crate) fn add(&mut self, name: &str, value: impl AsRef<str>) {
        if !value.as_ref().is_empty() {
            self.0.push((name.to_owned(), line(value.as_ref())));
        }
    }

    /// Formats the list.
    pub(crate) fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        self.0.iter().map(|(name, value)| format!("{name}{}  {value}\n", " ".repeat(width - name.width()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_display_width() {
        let mut table = Table::new(&["name", ">price", "what"]);
        table.row(["日本", "0.01", "x"]);
        table.row(["shout", "10", ""]);
        table.row(["a\u{202e}", "", "two\nlines"]);
        assert_eq!(table.text(), "name     price  what\n日本      0.01  x\nshout       10\naU+202E         twoU+000Alines\n");
    }

    #[test]
    fn empty_facts_are_left_out() {
        let mut facts = FactList::default();
        facts.add("slug", "a");
        facts.add("builder", "");
        facts.add("revision", "7");
        assert_eq!(facts.text(), "slug      a\nrevision  7\n");
    }
}
