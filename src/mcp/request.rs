//! A call of a tool as it is requested, whichever way it came in.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use rmcp::model::{MetaObject, RequestId as MessageId};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{progress::Subscriber, revision::Era};
use crate::{call::RequestHead, catalog::Live};

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
        let traced = |name: &str| self.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        let given = |name: &'static str| RequestHead::header(&self.parts.headers, name);
        let header = |name: &&'static str| {
            let value = match *name {
                "traceparent" | "tracestate" => traced(name).or_else(|| given(name)),
                // These speak of JSON-RPC, not of the input.
                "accept" | "content-type" => Some("application/json".to_owned()),
                _ => given(name),
            };
            value.map(|value| (*name, value))
        };
        RequestHead {
            method: "POST",
            url: live.terms.resource_url.clone(),
            path: format!("/tools/{}", live.endpoint.slug),
            query: BTreeMap::new(),
            headers: RequestHead::HEADERS.iter().filter_map(header).collect(),
        }
    }
}
