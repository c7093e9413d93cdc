//! What answers a call: code of the host's own, a response that is always the same, or a builder's code.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_protocol::Language;

use super::{Endpoint, Slug};

/// What kind of code answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerType {
    /// The request, and the receipt it will have.
    ReceiptEcho,
    /// Always the same JSON.
    StaticJson,
    /// A look at a service that may want to be paid.
    X402ReadinessCheck,
    /// A builder's code.
    JsRequestResponse,
}

impl HandlerType {
    /// Every type, with what it does: `supportedHandlerTypes` of the catalogue.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::ReceiptEcho, "Echoes a public-safe request summary and the receipt"),
        (Self::StaticJson, "Returns a static JSON response"),
        (
            Self::X402ReadinessCheck,
            "Inspects a submitted MCP/x402 metadata URL; returns readiness notes, expected discovery URLs and safe next actions",
        ),
        (
            Self::JsRequestResponse,
            "Runs an async function (req, ctx) in a sandbox; ctx offers kv, files, env, httpGetJson and log as granted",
        ),
    ];

    /// Where such code runs.
    #[must_use]
    pub fn runtime(self) -> Runtime {
        match self {
            Self::JsRequestResponse => Runtime::AdminGatedJs,
            Self::ReceiptEcho | Self::StaticJson | Self::X402ReadinessCheck => Runtime::ManagedBuiltin,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReceiptEcho => "receipt_echo",
            Self::StaticJson => "static_json",
            Self::X402ReadinessCheck => "x402_readiness_check",
            Self::JsRequestResponse => "js_request_response",
        }
    }
}

/// A handler of the host's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// Of [`HandlerType::ReceiptEcho`].
    ReceiptEcho,
    /// Of [`HandlerType::X402ReadinessCheck`].
    X402ReadinessCheck,
}

/// What runs when an endpoint is called: its handler, which is one of its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// Code of the host's own, in this process.
    Builtin(Builtin),
    /// Nothing: this is always the answer.
    Static(Arc<Value>),
    /// Its source, in the sandbox.
    Js,
}

/// A record whose handler is not one of its type. No host has made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoint `{slug}` is of type `{}`, and its handler is not", handler_type.as_str())]
pub struct ForeignHandler {
    /// Whose record it is.
    pub slug: Slug,
    /// The type of which the handler is not.
    pub handler_type: HandlerType,
}

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runtime {
    /// In this process, for it is the host's own.
    #[serde(rename = "managed_builtin_handler")]
    ManagedBuiltin,
    /// In the sandbox, touching what an admin or the policy allows.
    #[serde(rename = "admin_gated_js_request_response_v1")]
    AdminGatedJs,
}

/// What answers a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handler {
    /// Code of the host's own, chosen by the handler type.
    Builtin,
    /// `static_json`: always this.
    Static(Arc<Value>),
    /// Source in the store under the endpoint's version.
    Js {
        /// What it is written in.
        language: Language,
    },
}

impl Endpoint {
    /// What runs when it is called.
    ///
    /// # Errors
    ///
    /// [`ForeignHandler`].
    pub fn runs(&self) -> Result<Runs, ForeignHandler> {
        match (self.handler_type, &self.handler) {
            (HandlerType::ReceiptEcho, Handler::Builtin) => Ok(Runs::Builtin(Builtin::ReceiptEcho)),
            (HandlerType::X402ReadinessCheck, Handler::Builtin) => Ok(Runs::Builtin(Builtin::X402ReadinessCheck)),
            (HandlerType::StaticJson, Handler::Static(response)) => Ok(Runs::Static(Arc::clone(response))),
            (HandlerType::JsRequestResponse, Handler::Js { .. }) => Ok(Runs::Js),
            (handler_type, Handler::Builtin | Handler::Static(_) | Handler::Js { .. }) => {
                Err(ForeignHandler { slug: self.slug.clone(), handler_type })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::{clock::Timestamp, id::EndpointId};

    fn endpoint(handler_type: &str, handler: &Value) -> Endpoint {
        let record = json!({
            "slug": "some-tool", "id": EndpointId::generate(), "title": "t", "description": "", "status": "active", "priceUsd": 0,
            "handlerType": handler_type, "tags": [], "inputSchema": {}, "outputSchema": {}, "capabilities": {}, "contentSafety": null,
            "owner": "platform", "handler": handler, "version": "v", "revision": 1, "createdAt": Timestamp(0), "updatedAt": Timestamp(0),
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_handler_runs_only_where_the_record_is_of_its_type() {
        let handlers = [json!("builtin"), json!({ "static": { "a": 1 } }), json!({ "js": { "language": "js" } })];
        for (place, (handler_type, runs)) in [
            ("receipt_echo", Runs::Builtin(Builtin::ReceiptEcho)),
            ("x402_readiness_check", Runs::Builtin(Builtin::X402ReadinessCheck)),
            ("static_json", Runs::Static(Arc::new(json!({ "a": 1 })))),
            ("js_request_response", Runs::Js),
        ]
        .into_iter()
        .enumerate()
        {
            for (number, handler) in handlers.iter().enumerate() {
                let known = endpoint(handler_type, handler).runs();
                if number == place.saturating_sub(1) {
                    assert_eq!(known, Ok(runs.clone()));
                } else {
                    assert!(known.unwrap_err().to_string().contains(handler_type), "{handler_type} {handler}");
                }
            }
        }
    }
}
