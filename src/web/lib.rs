//! The web front: pages for people, made on the server, readable without script.
//!
//! ```text
//! browser ─▶ doors: by which name, from which page ─▶ pages ─▶ visitor: asks the ordinary API, inside the process
//!                                                       │
//!                                                       └─▶ parts ─▶ shell ─▶ root: one document
//! ```
//!
//! A page has no power of its own. Whatever it shows is the answer of an operation of the public API, asked by an ordinary request
//! that goes through the router that agents reach; what the API refuses is told as the API words it, by [`refusal`]. Nothing
//! comes from elsewhere: no font, no script, no style but what is in this binary, and none of it inside the markup.
//!
//! What a form or a script asks for goes the same way: it is one operation of the API, made with the credential that its reader signed
//! in with ([`forms`], [`api`]), and nothing is done for a page of another site ([`doors`]).
//!
//! To add a page: its file in `pages/`, its route below. Its words and amounts are made of `parts/`; what others wrote goes through
//! `parts/text.rs`, which is how it stays text.

#![warn(missing_docs)]

mod api;
mod asked;
mod assets;
mod cookie;
mod doors;
mod forms;
mod guides;
mod kept;
mod page;
mod pages;
mod parts;
mod play;
mod refusal;
mod root;
mod services;
mod shell;
mod visitor;

use std::sync::Arc;

use axum::{
    Router, middleware,
    response::Redirect,
    routing::{MethodRouter, any, get, post},
};
use tollhouse_front::Wording;

pub use self::{
    cookie::Cookie,
    doors::door,
    kept::Kept,
    root::Root,
    services::{Operation, Services},
};

/// What a page is reached by: GET and HEAD, which change nothing.
type Pages = MethodRouter<Arc<Services>>;

/// Every route of the front.
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
        .route("/dashboard/receipts", get(pages::find_slip::page))
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
        .route("/dashboard/api/{*path}", any(api::pass))
        .merge(pages::admin::routes())
        .route("/guides", to("/guides/x402-agent-payment-infrastructure"))
        .route("/guides/", to("/guides/x402-agent-payment-infrastructure"))
        .route("/docs", get(pages::docs::index))
        .route("/docs/", to("/docs"))
        .route("/docs/{name}", get(pages::docs::page))
        .route("/guides/{name}", get(pages::guide::page))
        .route("/assets/{hash}/{name}", get(assets::asset))
        .layer(middleware::from_fn_with_state(Arc::clone(&services), doors::pass))
        .with_state(services)
}

/// How faults are told at the addresses of this front: to scripts as programs are told them, and as pages to people.
#[must_use]
pub fn wordings(services: Services) -> [Wording; 2] {
    [api::wording(), refusal::wording(services)]
}

/// What leads elsewhere.
fn to(path: &'static str) -> Pages {
    get(async move || Redirect::to(path))
}
