//! Delays responses to changes until every host of the store applies them.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use super::services::AuditServices;

/// Middleware that runs a possible change, then waits until no host that takes calls uses the previous state.
pub(super) async fn wait(State(auditing): State<Arc<AuditServices>>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    let response = next.run(request).await;
    if changes {
        auditing.replica.wait_until_applied().await;
    }
    response
}
