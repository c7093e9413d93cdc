//! `/dashboard/admin` and below: pending decisions and overviews for admins.

mod audit;
mod builder;
mod builders;
mod capabilities;
mod changes;
mod credit;
mod credits;
mod findings;
mod overview;
mod payouts;
mod policy;
mod read_tool;
pub(super) mod refund;
mod review;
mod review_form;
mod reviews;
mod runtime;
mod shared;
pub(super) mod takedown;
mod unresolved;

use std::sync::Arc;

use axum::{Router, routing::get};

use crate::Services;

pub(crate) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/dashboard/admin", get(overview::page))
        .route("/dashboard/admin/reviews", get(reviews::page))
        .route("/dashboard/admin/reviews/{slug}", get(review::page))
        .route("/dashboard/admin/policy", get(policy::page).post(policy::look))
        .route("/dashboard/admin/builders", get(builders::page))
        .route("/dashboard/admin/builders/{id}", get(builder::page))
        .route("/dashboard/admin/credits", get(credits::page))
        .route("/dashboard/admin/credits/{id}", get(credit::page))
        .route("/dashboard/admin/payouts", get(payouts::page))
        .route("/dashboard/admin/audit", get(audit::page))
        .route("/dashboard/admin/runtime", get(runtime::page))
}
