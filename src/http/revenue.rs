//! `/ai/builders/revenue`: what a builder's endpoints earned.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    auth::Business,
    error::ApiError,
    page::{Asked, Span},
};
use crate::{app::App, tool::Owner};

const DEFAULT_SINCE: Span = Span::days(30);

#[derive(Deserialize)]
pub(super) struct Since {
    since: Option<Span>,
}

/// Whole UTC days, from the one that `since` falls on.
pub(super) async fn revenue(
    Business(builder): Business,
    State(app): State<Arc<App>>,
    Asked(asked): Asked<Since>,
) -> Result<Json<Value>, ApiError> {
    let since = asked.since.unwrap_or(DEFAULT_SINCE).before(app.clock.now());
    let report = app.sales.report(&Owner::Builder(builder.id), since).await?;
    let mut answer = json!(report);
    answer["ok"] = json!(true);
    Ok(Json(answer))
}
