//! Limits of a tool's calls: the owner's values, the limits by admin and policy, and the effective
//! values.

use maud::{Markup, html};
use tollhouse_api::{Limits, OwnEndpoint};
use tollhouse_protocol::limits::{LimitRow, TABLE};

use crate::{Number, Visitor, Words, form, pages::owner_pages, table, text};

/// Shows the limits with a form. `policy` contains the ceilings of builders' limits.
pub(super) fn limits(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, policy: &Limits) -> Markup {
    let of_builder = tool.owner != "platform";
    let columns = [Words("Limit"), Words("Owner's"), Number("Admin's cap"), Number("Policy's ceiling"), Number("In force")];
    let fields = html! {
        // Limits that are not named below keep their defaults.
        input type="hidden" name="json:/limits" value="{}";
        (owner_pages::if_match(tool))
        (table("Limits", columns, TABLE.iter().map(|row| limit_cells(row, tool, if of_builder { policy.get(row.name) } else { Some(row.ceiling) }))))
        button { "Save limits" }
    };
    html! {
        p.words {
            "Limits of one call. An empty field uses the default that it shows. The limit in force is the lowest of those from the owner, an admin "
            "and the host's policy. A call that exceeds a limit is stopped and fails."
        }
        (form::operation(visitor, "updateEndpoint", &[("slug", slug)], &owner_pages::page_path(slug, "settings"), fields))
    }
}

fn limit_cells(row: &LimitRow, tool: &OwnEndpoint, ceiling: Option<u64>) -> [Markup; 5] {
    let id = format!("limit-{}", row.name);
    [
        html! {
            label for=(id) { code { (row.name) } }
            p.note { (text::line(row.what)) }
        },
        html! {
            span.unit {
                input #(id) name={ "number:/limits/" (row.name) } type="number" inputmode="numeric" min="1" step="1"
                    max=[ceiling] value=[tool.own_limits.get(row.name)] placeholder=(row.default);
                (row.unit)
            }
        },
        amount(tool.limit_caps.get(row.name)),
        amount(ceiling),
        amount(Some(tool.limits.get(row.name).unwrap_or(row.default))),
    ]
}

fn amount(amount: Option<u64>) -> Markup {
    html! { @if let Some(amount) = amount { (text::grouped(amount)) } @else { span.muted { "none" } } }
}
