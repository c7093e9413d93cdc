//! Limits that an admin sets for one tool.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_protocol::limits::TABLE;

/// Shows a field for each limit. An empty one leaves the limit unchanged.
pub(super) fn caps(id: &str, tool: &Value) -> Markup {
    let (own, caps) = (&tool["limits"], &tool["limitCaps"]);
    html! {
        details.way {
            summary { "Caps" @if let Some(set @ 1..) = caps.as_object().map(serde_json::Map::len) { " (" (set) " set)" } }
            p.note { "A number sets a cap, `null` lifts it, nothing leaves it as it is." }
            div.caps {
                @for row in TABLE {
                    div.field {
                        label for={ (id) "-" (row.name) } { code { (row.name) } ", " (row.unit) }
                        input #{ (id) "-" (row.name) } name={ "json:/limits/" (row.name) } autocomplete="off" pattern="[0-9]+|null" placeholder=[caps[row.name].as_u64()];
                        p.note { "in force " (own[row.name].as_u64().unwrap_or(row.default)) @if caps[row.name].is_u64() { ", capped" } }
                    }
                }
            }
        }
    }
}
