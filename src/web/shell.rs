//! What is around every page: the head, the strip for play money, name, navigation and search, and the footer.

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use super::{
    assets,
    page::{Area, Page},
    parts::text::{line, plain},
};

/// What a page tells of the host around itself.
pub(super) struct Around<'a> {
    /// Whether no real money moves here.
    pub(super) simulated: bool,
    pub(super) version: &'a Value,
}

/// The navigation: what is there for everybody.
const NAVIGATION: [(Area, &str, &str); 4] = [
    (Area::Tools, "/dashboard", "Tools"),
    (Area::Receipts, "/dashboard/receipts", "Receipts"),
    (Area::Guides, "/guides/x402-agent-payment-infrastructure", "Guide"),
    (Area::Documents, "/docs", "Docs"),
];

/// The whole document.
pub(super) fn document(page: &Page, around: &Around) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(page))
            body {
                a.skip href="#main" { "Skip to content" }
                (top(page, around))
                main #main tabindex="-1" {
                    div.wrap {
                        @if !page.crumbs.is_empty() { (crumbs(page)) }
                        @match &page.heading {
                            Some(heading) => (heading),
                            None => h1 { (line(&page.title)) },
                        }
                        (page.main)
                    }
                }
                (footer(page, around))
            }
        }
    }
}

fn head(page: &Page) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (plain(&page.title)) " · Tollhouse" }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if page.unlisted { meta name="robots" content="noindex"; }
            link rel="icon" href="/favicon.svg" type="image/svg+xml";
            // Not a module: it has to run before anything is drawn.
            script src=(assets::address("theme.js")) {}
            link rel="stylesheet" href=(assets::address("site.css"));
            script type="module" src=(assets::address("site.js")) {}
            @if let Some(script) = page.script { script type="module" src=(assets::address(script)) {} }
            @if let Some(twin) = &page.twin { link rel="alternate" type="text/markdown" href=(twin); }
        }
    }
}

fn top(page: &Page, around: &Around) -> Markup {
    html! {
        header.top {
            @if around.simulated {
                p.strip {
                    strong { "Play money." }
                    " This host settles on a simulated ledger: signatures and amounts are checked, no real money moves."
                }
            }
            div.wrap.bar {
                a.name href="/dashboard" { (sign()) "Tollhouse" }
                nav aria-label="Main" {
                    @for (area, path, name) in NAVIGATION {
                        a href=(path) aria-current=[(area == page.area).then_some("true")] { (name) }
                    }
                }
                @if !page.searches {
                    form.find role="search" action="/dashboard" {
                        label.aside for="find" { "Search tools" }
                        input #find name="q" type="search" placeholder="Search tools" data-key="/";
                        button { "Search" }
                    }
                }
            }
        }
    }
}

/// A gate, half open.
fn sign() -> Markup {
    html! {
        svg.sign viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" {
            path.post d="M4 6h5v22H4z" {}
            path.beam d="M9 12 29 4v5L9 17z" {}
        }
    }
}

fn crumbs(page: &Page) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol { @for (path, name) in &page.crumbs { li { a href=(path) { (name) } } } }
        }
    }
}

fn footer(page: &Page, around: &Around) -> Markup {
    html! {
        footer {
            div.wrap.bar {
                p { "Tollhouse " (around.version.as_str().unwrap_or_default()) }
                p {
                    a href="/openapi.json" { "OpenAPI" } " · " a href="/ai/manifest" { "Manifest" }
                    @if let Some(twin) = &page.twin { " · " a href=(twin) { "This page as Markdown" } }
                }
                // Without script they are not seen.
                p.switches {
                    label { "Theme " select data-switch="theme" { option value="" { "system" } option { "light" } option { "dark" } } }
                    label { "Times " select data-switch="times" { option value="" { "local" } option value="utc" { "UTC" } } }
                    label { "Shortcuts " select data-switch="keys" { option value="" { "on" } option { "off" } } }
                }
            }
        }
    }
}
