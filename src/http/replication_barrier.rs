//! Delays responses to changes until every host of the store applies them.

use axum::middleware::Next;

use crate::{Http, Request, Response, State};

/// Middleware that runs a possible change, then waits until no host that takes calls uses the previous state.
pub(super) async fn wait(State(http): State<Http>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    let response = next.run(request).await;
    if changes {
        http.replica.wait_until_applied().await;
    }
    response
}
