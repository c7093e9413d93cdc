//! Lists that script keeps as they are while they are looked at. Without it they are what they were when they were asked for.

use maud::{Markup, html};

/// A list, with what it is followed by where it can be: `live` is the stream that tells when there is more.
pub(in crate::web) fn followed(live: Option<&str>, list: Markup) -> Markup {
    html! {
        @if live.is_some() {
            p.buttons.needs-script {
                button #follow type="button" aria-pressed="false" { "Follow" }
                span #following.muted role="status" { "Not following" }
                button #newer.quiet type="button" hidden { "Show what is new" }
            }
        }
        div #rows data-live=[live] { (list) }
    }
}

/// What a row is told apart by from others of its list.
pub(in crate::web) fn named(name: &str, cell: Markup) -> Markup {
    html! { span data-row=(name) { (cell) } }
}
