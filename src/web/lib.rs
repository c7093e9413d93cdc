//! The web front end: pages for people, rendered on the server, usable without scripts.
//!
//! ```text
//! browser ─▶ host_checks: host name and origin ─▶ pages ─▶ visitor: calls the API within the process
//!                                                   │
//!                                                   └─▶ parts ─▶ page_frame ─▶ base_path: one document
//! ```
//!
//! A page has no powers of its own. Everything it shows is the answer of an operation of the public
//! API, requested through the same router that agents use, and read into the types of
//! `tollhouse_api`. Refusals appear in the words of the API, by [`refusal`]. All resources come from this binary: no external font, script or style, and none
//! inline in the markup.
//!
//! A request of a form or script takes the same way: it is one operation of the API, with the
//! credential that the reader signed in with ([`forms`], [`api_client`]). Nothing is done for a page of
//! another site ([`host_checks`]).
//!
//! To add a page: create its file in `pages/` and its route below. Use `parts/` for texts and
//! amounts. Text written by others must go through `parts/text.rs`, which escapes it.

#![warn(missing_docs)]

mod answer;
mod api_client;
mod assets;
mod base_path;
mod cookie;
mod form_table;
mod forms;
mod guides;
mod host_checks;
mod page;
mod page_frame;
mod pages;
mod parts;
mod play_wallet;
mod query;
mod refusal;
mod render_cache;
mod services;
mod visitor;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{MethodRouter, any, get, post},
};
use tollhouse_front::ErrorWording;

pub use self::{
    base_path::BasePath,
    cookie::Cookie,
    host_checks::host_check,
    render_cache::RenderCache,
    services::{ApiOperation, Services},
};

// Most pages use these.
pub(crate) use axum::{
    body::Body,
    extract::{RawQuery, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};

pub(crate) use self::{
    answer::Answer,
    forms::{Fields, PostedBySession, PostedForm},
    host_checks::set_security_headers,
    page::{Area, BackLink, Page},
    parts::{
        Bar, Chart,
        Column::{self, Number, Words},
        DiffNames, FollowedList, MONTH, SnippetParts, Tab, api_section, code, curl_command, day, diff, empty, facts, first, follow,
        followed, form, line, lines, link, moment, money, onward, page_links, pager, plain, sample, state, table, tabs, text, word, words,
    },
    query::PageQuery,
    visitor::{ApiRefusal, PageResult, SignedIn, Visitor, lazy_html, segment, with_query},
};

/// Handlers of a page: GET and HEAD, which change nothing.
type Pages = MethodRouter<Arc<Services>>;

/// Returns all routes of the web front end.
pub fn routes(services: Services) -> Router {
    let services = Arc::new(services);
    Router::new()
        .route("/", to("/dashboard"))
        .route("/dashboard", get(pages::tools::page))
        .route("/dashboard/", to("/dashboard"))
        .route("/dashboard/tools/{slug}", get(pages::tool::page))
        .route("/dashboard/tools/{slug}/calls", get(pages::calls::page))
        .route("/dashboard/home", get(pages::home::page))
        .route("/dashboard/revenue", get(pages::revenue::page))
        .route("/dashboard/revenue.csv", get(pages::revenue::csv))
        .route("/dashboard/payouts", get(pages::payouts::page))
        .route("/dashboard/payouts/{id}", get(pages::payout::page))
        .route("/dashboard/events", get(pages::events::page))
        .route("/dashboard/credit", get(pages::credit::page))
        .route("/dashboard/tools/{slug}/try", get(pages::try_it::page).post(pages::try_it::posted))
        .route("/dashboard/new", get(pages::edit::new).post(pages::edit::create))
        .route("/dashboard/tools/{slug}/edit", get(pages::edit::edit).post(pages::edit::save))
        .route("/dashboard/tools/{slug}/log", get(pages::log::page))
        .route("/dashboard/tools/{slug}/secrets", get(pages::secrets::page))
        .route("/dashboard/tools/{slug}/settings", get(pages::settings::page).post(pages::settings::delete))
        .route("/dashboard/tools/{slug}/versions", get(pages::versions::page))
        .route("/dashboard/receipts", get(pages::receipt_lookup::page))
        .route("/dashboard/receipts/{id}", get(pages::receipt::page))
        .route("/dashboard/payments/{id}", get(pages::payment::page))
        .route("/dashboard/sign-in", get(pages::sign_in::page))
        .route("/dashboard/register", get(pages::register::page).post(pages::register::terms))
        .route("/dashboard/session", post(pages::sign_in::sign_in))
        .route("/dashboard/sign-out", post(pages::sign_in::sign_out))
        .route("/dashboard/account", get(pages::account::page))
        .route("/dashboard/sessions/end", post(pages::account::end))
        .route("/dashboard/do/{operation}", post(forms::submit))
        .route("/dashboard/api/do/{operation}", post(forms::submit_by_script))
        .route("/dashboard/api/{*path}", any(api_client::pass))
        .merge(pages::admin::routes())
        .route("/guides", to("/guides/x402-agent-payment-infrastructure"))
        .route("/guides/", to("/guides/x402-agent-payment-infrastructure"))
        .route("/docs", get(pages::docs::index))
        .route("/docs/", to("/docs"))
        .route("/docs/search", get(pages::docs::search))
        .route("/docs/{name}", get(pages::docs::page))
        .route("/guides/{name}", get(pages::guide::page))
        .route("/assets/{hash}/{name}", get(assets::asset))
        .layer(middleware::from_fn_with_state(Arc::clone(&services), host_checks::pass))
        .with_state(services)
}

/// Returns the forms of faults on the addresses of this front end: JSON for scripts, pages for
/// people.
#[must_use]
pub fn wordings(services: Services) -> [ErrorWording; 2] {
    [api_client::wording(), refusal::wording(services)]
}

fn to(path: &'static str) -> Pages {
    get(async move || Redirect::to(path))
}
