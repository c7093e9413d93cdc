//! A tool call, independent of how it was parsed.

use std::borrow::Cow;

use axum::http::request::Parts;
use rmcp::model::{MetaObject, RequestId as MessageId};
use tokio_util::sync::CancellationToken;
use tollhouse_call::RequestHead;
use tollhouse_catalog::LiveEndpoint;

use super::{progress::Subscriber, revision::Era};

/// A tool call and its caller, independent of how it was parsed.
pub(super) struct CallRequest<'a> {
    pub(super) id: &'a MessageId,
    pub(super) name: &'a str,
    pub(super) meta: &'a MetaObject,
    pub(super) parts: &'a Parts,
    pub(super) era: Era,
    /// Whether a long-running call can be answered with a task.
    pub(super) takes_tasks: bool,
    /// The client that gets progress, if any.
    pub(super) subscriber: Option<Subscriber<'a>>,
    /// Canceled when the caller disconnects. `None` if the future is dropped then.
    pub(super) caller_gone: Option<&'a CancellationToken>,
}

impl CallRequest<'_> {
    /// Returns the request data for the handler. It is the same as over HTTP, so that handlers need not know about MCP.
    pub(super) fn head(&self, live: &LiveEndpoint) -> RequestHead {
        let traced = |name: &'static str| Some((Cow::Borrowed(name), self.meta.get(name)?.as_str()?.to_owned()));
        let mut headers = RequestHead::visible_headers(&self.parts.headers, &live.endpoint.request_headers);
        headers.extend(["traceparent", "tracestate"].into_iter().filter_map(traced));
        // The client's values are about JSON-RPC, not about the input.
        headers.extend(["accept", "content-type"].map(|name| (Cow::Borrowed(name), "application/json".to_owned())));
        RequestHead::post(live, headers)
    }
}
