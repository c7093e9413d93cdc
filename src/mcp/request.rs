//! A call of a tool as it is requested, whichever way it came in.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use rmcp::model::{MetaObject, RequestId as MessageId};
use tokio_util::sync::CancellationToken;
use tollhouse_call::RequestHead;
use tollhouse_catalog::Live;

use super::{progress::Subscriber, revision::Era};

/// Which call is wanted, and by whom, whichever way it came in.
pub(super) struct CallRequest<'a> {
    /// The request's own.
    pub(super) id: &'a MessageId,
    pub(super) name: &'a str,
    pub(super) meta: &'a MetaObject,
    pub(super) parts: &'a Parts,
    pub(super) era: Era,
    /// Whether a long-running call may be answered with a task.
    pub(super) takes_tasks: bool,
    /// Who is told of progress, if anybody.
    pub(super) subscriber: Option<Subscriber<'a>>,
    /// Cancelled when the caller is gone. `None` where the future is dropped then.
    pub(super) gone: Option<&'a CancellationToken>,
}

impl CallRequest<'_> {
    /// What the handler knows of the request: the same as over HTTP, so that it need not know of MCP.
    pub(super) fn head(&self, live: &Live) -> RequestHead {
        let traced = |name: &'static str| Some((name, self.meta.get(name)?.as_str()?.to_owned()));
        let mut headers = RequestHead::shown(&self.parts.headers);
        headers.extend(["traceparent", "tracestate"].into_iter().filter_map(traced));
        // These speak of JSON-RPC, not of the input.
        headers.extend(["accept", "content-type"].map(|name| (name, "application/json".to_owned())));
        RequestHead {
            method: "POST",
            url: live.terms.resource_url.clone(),
            path: format!("/tools/{}", live.endpoint.slug),
            query: BTreeMap::new(),
            headers,
        }
    }
}
