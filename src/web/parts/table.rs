//! Tables: the first column names the row, and numbers are right-aligned. On a narrow screen each
//! row becomes a card, with the heading of the column beside each cell.

use maud::{Markup, html};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Column<'a> {
    Words(&'a str),
    Number(&'a str),
}

impl<'a> Column<'a> {
    fn heading(self) -> &'a str {
        match self {
            Self::Words(heading) | Self::Number(heading) => heading,
        }
    }

    fn class(self) -> Option<&'static str> {
        matches!(self, Self::Number(_)).then_some("number")
    }
}

/// Returns a table called `name`. Each row has a cell for each column.
pub(crate) fn table<const COLUMNS: usize>(
    name: &str,
    columns: [Column; COLUMNS],
    rows: impl IntoIterator<Item = [Markup; COLUMNS]>,
) -> Markup {
    markup(name, &columns, &mut rows.into_iter().map(Vec::from))
}

/// The table of any number of columns.
fn markup(name: &str, columns: &[Column], rows: &mut dyn Iterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.scroll role="group" aria-label=(name) tabindex="0" {
            table.lines {
                thead { tr { @for column in columns { th class=[column.class()] scope="col" { (column.heading()) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (position, (column, cell)) in columns.iter().zip(row).enumerate() {
                                @if position == 0 { th scope="row" { (cell) } } @else { td class=[column.class()] data-label=(column.heading()) { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_heading() {
        let cell = |text: &str| html! { (text) };
        let markup = table("Days", [Column::Words("Day"), Column::Number("Calls")], [[cell("one"), cell("1")]]).into_string();
        assert!(markup.contains("<th scope=\"col\">Day</th><th class=\"number\" scope=\"col\">Calls</th>"), "{markup}");
        assert!(markup.contains("<th scope=\"row\">one</th><td class=\"number\" data-label=\"Calls\">1</td>"), "{markup}");
        assert!(markup.contains("aria-label=\"Days\" tabindex=\"0\""), "who has only keys moves it too: {markup}");
    }
}
