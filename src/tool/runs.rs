//! Determines what runs when a tool is called.

use super::{Builtin, Endpoint, Handler, HandlerType, Slug, StaticResponse};

/// The code that a call runs, consistent with the tool's handler type.
#[derive(Debug, Clone, PartialEq)]
pub enum EndpointCode {
    /// Code of the host, in this process.
    Builtin(Builtin),
    /// Nothing: this is the response.
    Static(StaticResponse),
    /// Its source, in the sandbox.
    Js,
}

/// The handler of a record does not match its type. No host writes such a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the handler of the tool `{slug}` does not match its type `{}`", handler_type.as_str())]
pub struct ForeignHandler {
    /// The tool with this record.
    pub slug: Slug,
    pub handler_type: HandlerType,
}

impl Endpoint {
    /// Returns the code that a call runs.
    pub fn runs(&self) -> Result<EndpointCode, ForeignHandler> {
        match (self.handler_type, &self.handler) {
            (HandlerType::Builtin(builtin), Handler::Builtin) => Ok(EndpointCode::Builtin(builtin)),
            (HandlerType::StaticJson, Handler::Static(response)) => Ok(EndpointCode::Static(response.clone())),
            (HandlerType::JsRequestResponse, Handler::Js { .. }) => Ok(EndpointCode::Js),
            (handler_type, Handler::Builtin | Handler::Static(_) | Handler::Js { .. }) => {
                Err(ForeignHandler { slug: self.slug.clone(), handler_type })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use tollhouse_base::{clock::Timestamp, id::EndpointId};

    fn endpoint(handler_type: &str, handler: &Value) -> Endpoint {
        let record = json!({
            "slug": "some-tool", "id": EndpointId::generate(), "title": "t", "description": "", "status": "active", "priceUsd": 0,
            "handlerType": handler_type, "tags": [], "inputSchema": {}, "outputSchema": {}, "capabilities": {},
            "requestedCapabilities": {}, "withheldCapabilities": {}, "allowedHosts": [], "requestedHosts": [], "withheldHosts": [],
            "limits": {}, "limitCaps": {}, "isolation": "warm", "review": {}, "versions": [], "contentSafety": null,
            "owner": "platform", "handler": handler, "version": "v", "revision": 1, "createdAt": Timestamp(0), "updatedAt": Timestamp(0),
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn handler_must_match_the_type_of_its_record() {
        let handlers = [json!("builtin"), json!({ "static": { "a": 1 } }), json!({ "js": { "language": "js" } })];
        for known in HandlerType::all() {
            let (position, runs) = match known {
                HandlerType::Builtin(builtin) => (0, EndpointCode::Builtin(builtin)),
                HandlerType::StaticJson => (1, EndpointCode::Static(StaticResponse::from(&json!({ "a": 1 })))),
                HandlerType::JsRequestResponse => (2, EndpointCode::Js),
            };
            for (number, handler) in handlers.iter().enumerate() {
                let known_runs = endpoint(known.as_str(), handler).runs();
                if number == position {
                    assert_eq!(known_runs, Ok(runs.clone()));
                } else {
                    assert!(known_runs.unwrap_err().to_string().contains(known.as_str()), "{known:?} {handler}");
                }
            }
        }
    }
}
