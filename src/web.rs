//! The web front: pages for people, made on the server, readable without script.
//!
//! ```text
//! browser ─▶ front ─▶ doors: by which name ─▶ pages ─▶ visitor: asks the ordinary API, inside the process
//!                                              │
//!                                              └─▶ parts ─▶ shell: one document
//! ```
//!
//! A page has no power of its own. Whatever it shows is the answer of an operation of the public API, asked by an ordinary request
//! that goes through the router that agents reach; what the API refuses is told as the API words it, by [`refusal`](wording). Nothing
//! comes from elsewhere: no font, no script, no style but what is in this binary, and none of it inside the markup.
//!
//! To add a page: its file in `pages/`, its route below. Its words and amounts are made of `parts/`; what others wrote goes through
//! `parts/text.rs`, which is how it stays text.

mod assets;
mod doors;
mod guides;
mod page;
mod pages;
mod parts;
mod refusal;
mod services;
mod shell;
mod visitor;

use std::sync::Arc;

use axum::{
    Router, middleware,
    response::Redirect,
    routing::{MethodRouter, get},
};

pub use self::{refusal::wording, services::Services};

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
        .route("/dashboard/receipts", get(pages::find_slip::page))
        .route("/dashboard/receipts/{id}", get(pages::receipt::page))
        .route("/dashboard/payments/{id}", get(pages::payment::page))
        .route("/guides", to("/guides/x402-agent-payment-infrastructure"))
        .route("/guides/", to("/guides/x402-agent-payment-infrastructure"))
        .route("/docs", get(pages::docs::index))
        .route("/docs/", to("/docs"))
        .route("/docs/{name}", get(pages::docs::page))
        .route("/guides/{name}", get(pages::guide::page))
        .route("/assets/{hash}/{name}", get(assets::asset))
        .layer(middleware::from_fn_with_state(Arc::clone(&services), doors::check))
        .with_state(services)
}

/// What leads elsewhere.
fn to(path: &'static str) -> Pages {
    get(async move || Redirect::to(path))
}
