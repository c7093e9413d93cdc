//! The limits of a tool's calls: what its owner set, what an admin and the policy narrow it to, and what is in force.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_protocol::limits::{Row, TABLE};

use crate::web::{
    pages::own,
    parts::{form, text},
    visitor::Visitor,
};

/// The limits, to be changed; `policy` has the ceilings of builders' limits.
pub(super) fn limits(visitor: &Visitor, slug: &str, tool: &Value, policy: &Value) -> Markup {
    let of_builder = tool["owner"] != "platform";
    let fields = html! {
        // What is not named below is as it is by default.
        input type="hidden" name="json:/limits" value="{}";
        (own::if_match(tool))
        div.scroll role="group" aria-label="Limits" tabindex="0" {
            table.limits {
                thead {
                    tr {
                        th scope="col" { "Limit" } th scope="col" { "Owner's" } th.number scope="col" { "Admin's cap" }
                        th.number scope="col" { "Policy's ceiling" } th.number scope="col" { "In force" }
                    }
                }
                tbody { @for row in TABLE { (told(row, tool, if of_builder { policy[row.name].as_u64() } else { Some(row.ceiling) })) } }
            }
        }
        button { "Save limits" }
    };
    html! {
        p.words {
            "What one call may use. An empty field is the default, which stands in it. In force is the lowest of what its owner, an admin "
            "and the host's policy allow. A call that passes a limit is stopped, and nothing is charged."
        }
        (form::of(visitor, "updateEndpoint", &[("slug", slug)], &own::place(slug, "settings"), fields))
    }
}

fn told(row: &Row, tool: &Value, ceiling: Option<u64>) -> Markup {
    let of = |set: &str| tool[set][row.name].as_u64();
    let id = format!("limit-{}", row.name);
    html! {
        tr {
            th scope="row" {
                label for=(id) { code { (row.name) } }
                p.note { (text::line(row.what)) }
            }
            td {
                span.unit {
                    input #(id) name={ "number:/limits/" (row.name) } type="number" inputmode="numeric" min="1" step="1"
                        max=[ceiling] value=[of("ownLimits")] placeholder=(row.default);
                    (row.unit)
                }
            }
            td.number { (amount(of("limitCaps"))) }
            td.number { (amount(ceiling)) }
            td.number { (amount(Some(of("limits").unwrap_or(row.default)))) }
        }
    }
}

fn amount(amount: Option<u64>) -> Markup {
    html! { @if let Some(amount) = amount { (grouped(amount)) } @else { span.muted { "none" } } }
}

/// A number whose digits can be counted.
fn grouped(amount: u64) -> String {
    let digits = amount.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        for (amount, told) in [(0, "0"), (999, "999"), (1_000, "1,000"), (67_108_864, "67,108,864")] {
            assert_eq!(grouped(amount), told);
        }
    }
}
