//! Handlers of calls: code of the host, a static response, or a builder's code.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tollhouse_protocol::Language;

use super::StaticResponse;

macro_rules! builtins {
    ($($builtin:ident $name:literal $reaches_out:literal $what:literal;)*) => {
        /// A handler that is part of the host.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Builtin { $(#[doc = $what] $builtin,)* }

        impl Builtin {
            const ALL: &[Self] = &[$(Self::$builtin,)*];
            const NAMES: &[&str] = &[$($name,)* STATIC, JS];

            fn row(self) -> HandlerRow {
                match self {
                    $(Self::$builtin => HandlerRow { name: $name, reaches_out: $reaches_out, what: $what },)*
                }
            }
        }
    };
}

// Each row contains its name in records, whether it reaches out, and its description in `supportedHandlerTypes` of the
// catalog.
builtins! {
    ReceiptEcho "receipt_echo" false "Echoes a public-safe request summary and the receipt";
    X402ReadinessCheck "x402_readiness_check" true
        "Inspects a submitted MCP/x402 metadata URL; returns readiness notes, expected discovery URLs and safe next actions";
}

const STATIC: &str = "static_json";
const JS: &str = "js_request_response";

/// The description of a handler type.
struct HandlerRow {
    name: &'static str,
    reaches_out: bool,
    what: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandlerType {
    Builtin(Builtin),
    StaticJson,
    JsRequestResponse,
}

impl HandlerType {
    /// Returns all handler types.
    pub fn all() -> impl Iterator<Item = Self> {
        Builtin::ALL.iter().map(|builtin| Self::Builtin(*builtin)).chain([Self::StaticJson, Self::JsRequestResponse])
    }

    /// Returns where such code runs.
    pub fn runtime(self) -> Runtime {
        match self {
            Self::JsRequestResponse => Runtime::AdminGatedJs,
            Self::Builtin(_) | Self::StaticJson => Runtime::ManagedBuiltin,
        }
    }

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// Returns its description for the catalog.
    pub fn what(self) -> &'static str {
        self.row().what
    }

    /// Returns whether the host's own code sends requests to others.
    pub fn reaches_out(self) -> bool {
        self.row().reaches_out
    }

    fn row(self) -> HandlerRow {
        let inside = |name, what| HandlerRow { name, reaches_out: false, what };
        match self {
            Self::Builtin(builtin) => builtin.row(),
            Self::StaticJson => inside(STATIC, "Returns a static JSON response"),
            Self::JsRequestResponse => {
                inside(JS, "Runs an async function (req, ctx) in a sandbox; ctx offers its secrets, and what its capabilities grant")
            }
        }
    }
}

impl Serialize for HandlerType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for HandlerType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::all().find(|known| known.as_str() == name).ok_or_else(|| D::Error::unknown_variant(&name, Builtin::NAMES))
    }
}

/// The place where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub enum Runtime {
    /// In this process, because it is the host's own code.
    #[serde(rename = "managed_builtin_handler")]
    ManagedBuiltin,
    /// In the sandbox, with what an admin or the policy allows.
    #[serde(rename = "admin_gated_js_request_response_v1")]
    AdminGatedJs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handler {
    /// Code of the host, selected by the handler type.
    Builtin,
    /// `static_json`: this response.
    Static(StaticResponse),
    /// Source code, in the store under the tool's version.
    Js {
        /// The language of the source.
        language: Language,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn handler_types_round_trip_by_name() {
        for known in HandlerType::all() {
            assert_eq!(serde_json::from_value::<HandlerType>(json!(known)).unwrap(), known);
            assert!(Builtin::NAMES.contains(&known.as_str()) && !known.what().is_empty(), "{known:?}");
        }
        for name in ["", "receipt_ech", "ReceiptEcho", "builtin"] {
            assert!(serde_json::from_value::<HandlerType>(json!(name)).unwrap_err().to_string().contains(JS), "{name}");
        }
        assert_eq!(Builtin::NAMES.len(), HandlerType::all().count());
    }

    #[test]
    fn stored_handler_keeps_exact_numbers() {
        for response in ["[12345678901234567890123,0.1000,1e400,-0.0]", r#"{"a":1.5}"#] {
            let handler = Handler::Static(StaticResponse::read(response).unwrap());
            let stored = serde_json::to_string(&handler).unwrap();
            assert_eq!(stored, format!("{{\"static\":{response}}}"));
            assert_eq!(serde_json::from_str::<Handler>(&stored).unwrap(), handler);
        }
    }
}
