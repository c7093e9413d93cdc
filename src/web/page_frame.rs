//! The frame of every page: head, banner for play money, title, navigation, search, and footer.

use maud::{DOCTYPE, Markup, html};
use tollhouse_account::session::{OpenSession, SessionKind};

use crate::{Area, Page, assets, line, plain};

pub(super) struct PageContext<'a> {
    /// Whether money is simulated.
    pub(super) simulated: bool,
    /// Version of the host. Empty if it is unknown.
    pub(super) version: &'a str,
    /// The session, if the visitor is signed in.
    pub(super) session: Option<&'a OpenSession>,
    /// Operation id and confirmation of a form that was just submitted.
    pub(super) done: Option<(&'static str, &'static str)>,
}

type Entry = (Area, &'static str, &'static str);

const TOOLS: Entry = (Area::Tools, "/dashboard", "Tools");
const PUBLIC: &[Entry] = &[
    TOOLS,
    (Area::Receipts, "/dashboard/receipts", "Receipts"),
    (Area::Guides, "/guides/x402-agent-payment-infrastructure", "Guide"),
    (Area::Documents, "/docs", "Docs"),
];
const BUILDER: &[Entry] = &[
    (Area::Home, "/dashboard/home", "Home"),
    TOOLS,
    (Area::Revenue, "/dashboard/revenue", "Revenue"),
    (Area::Payouts, "/dashboard/payouts", "Payouts"),
    (Area::Events, "/dashboard/events", "Events"),
    (Area::Documents, "/docs", "Docs"),
];
const ADMIN: &[Entry] = &[
    (Area::Overview, "/dashboard/admin", "Overview"),
    TOOLS,
    (Area::Reviews, "/dashboard/admin/reviews", "Reviews"),
    (Area::Policy, "/dashboard/admin/policy", "Policy"),
    (Area::Builders, "/dashboard/admin/builders", "Builders"),
    (Area::Credits, "/dashboard/admin/credits", "Credits"),
    (Area::AdminPayouts, "/dashboard/admin/payouts", "Payouts"),
    (Area::Audit, "/dashboard/admin/audit", "Audit"),
    (Area::Runtime, "/dashboard/admin/runtime", "Runtime"),
];
const HOLDER: &[Entry] = &[
    (Area::Credit, "/dashboard/credit", "Credit"),
    TOOLS,
    (Area::Receipts, "/dashboard/receipts", "Receipts"),
    (Area::Documents, "/docs", "Docs"),
];

fn navigation(session: Option<&OpenSession>) -> &'static [Entry] {
    match session.map(|session| session.kind) {
        None => PUBLIC,
        Some(SessionKind::Builder) => BUILDER,
        Some(SessionKind::Admin) => ADMIN,
        Some(SessionKind::Holder) => HOLDER,
    }
}

/// Returns the start page of this kind of user.
pub(super) fn home(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Builder => "/dashboard/home",
        SessionKind::Admin => "/dashboard/admin",
        SessionKind::Holder => "/dashboard/credit",
    }
}

pub(super) fn document(page: &Page, context: &PageContext) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(page, context))
            body {
                a.skip href="#main" { "Skip to content" }
                (top(page, context))
                main #main tabindex="-1" {
                    div.wrap {
                        @if !page.crumbs.is_empty() { (crumbs(page)) }
                        @match &page.heading {
                            Some(heading) => (heading),
                            None => h1 { (line(&page.title)) },
                        }
                        @if let Some(twin) = &page.twin {
                            p.crumbs { a href=(twin) { "This page as Markdown" } " · " a href="/llms.txt" { "All documents for programs" } }
                        }
                        @if let Some((id, done)) = context.done { p.notice role="status" data-done=(id) { span aria-hidden="true" { "✓ " } (done) } }
                        (page.main)
                    }
                }
                (footer(context))
            }
        }
    }
}

fn head(page: &Page, context: &PageContext) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (plain(&page.title)) " · Tollhouse" }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(session) = context.session { meta name="csrf" content=(session.form_token); }
            @if page.unlisted || context.session.is_some() { meta name="robots" content="noindex"; }
            link rel="icon" href="/favicon.svg" type="image/svg+xml";
            // Delays rendering until the document is complete, because a growing table would move
            // content.
            link rel="expect" href="#end" blocking="render";
            // Not a module, because it must run before the first paint.
            script src=(assets::address("theme.js")) {}
            link rel="stylesheet" href=(assets::address("site.css"));
            @if let Some(style) = page.style { link rel="stylesheet" href=(assets::address(style)); }
            script type="module" src=(assets::address("site.js")) {}
            @if context.session.is_some() { script type="module" src=(assets::address("form.js")) {} }
            @if let Some(script) = page.script { script type="module" src=(assets::address(script)) {} }
            @if let Some(twin) = &page.twin { link rel="alternate" type="text/markdown" href=(twin); }
        }
    }
}

fn top(page: &Page, context: &PageContext) -> Markup {
    html! {
        header.top {
            @if context.simulated {
                p.strip {
                    strong { "Play money." }
                    " This host settles on a simulated ledger: "
                    span.more { "signatures and amounts are checked, " }
                    "no real money moves."
                }
            }
            div.wrap.bar {
                a.name href="/dashboard" { (logo()) "Tollhouse" }
                nav aria-label="Main" {
                    @for (area, path, name) in navigation(context.session) {
                        a href=(path) aria-current=[(*area == page.area).then_some("true")] { (name) }
                    }
                }
                // Admins have too many entries for the search field. Their list of tools has its
                // own.
                @if !page.searches && context.session.is_none_or(|session| session.kind != SessionKind::Admin) {
                    form.find role="search" aria-label="Tools" action="/dashboard" {
                        label.aside for="find" { "Search tools" }
                        input #find name="q" type="search" placeholder="Search tools" data-key="/";
                        button { "Search" }
                    }
                }
                (account(page, context.session))
            }
        }
    }
}

/// Shows the account, or a link to sign in. Pages that are the same for everybody show no account.
fn account(page: &Page, session: Option<&OpenSession>) -> Markup {
    let (path, name) = match session.map(|session| session.kind) {
        None => ("/dashboard/sign-in", "Sign in"),
        Some(SessionKind::Admin) => ("/dashboard/account", "Admin"),
        Some(SessionKind::Builder) => ("/dashboard/account", "Account"),
        Some(SessionKind::Holder) => ("/dashboard/account", "Credit holder"),
    };
    let here = matches!(page.area, Area::Account | Area::SignIn);
    html! { nav.account aria-label="Account" { a href=(path) aria-current=[here.then_some("true")] { (name) } } }
}

fn logo() -> Markup {
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

fn footer(context: &PageContext) -> Markup {
    html! {
        footer #end {
            div.wrap.bar {
                p { "Tollhouse " (context.version) }
                p {
                    a href="/openapi.json" { "OpenAPI" } " · " a href="/ai/manifest" { "Manifest" }
                }
                // Hidden without scripts.
                p.switches {
                    label { "Theme " select data-switch="theme" { option value="" { "System" } option value="light" { "Light" } option value="dark" { "Dark" } } }
                    label { "Times " select data-switch="times" { option value="" { "Local" } option value="utc" { "UTC" } } }
                    label { "Shortcuts " select data-switch="keys" { option value="" { "On" } option value="off" { "Off" } } }
                    button #keys.quiet type="button" { "Keys" }
                }
            }
        }
    }
}
