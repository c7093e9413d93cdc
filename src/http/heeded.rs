//! What admins and builders change is answered once every host of the store goes by it.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use super::services::Auditing;

/// Has what may be a change be done, and waits until no host of the store that takes calls goes by what was before.
pub(super) async fn wait(State(auditing): State<Arc<Auditing>>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    let response = next.run(request).await;
    if changes {
        auditing.replica.told().await;
    }
    response
}
