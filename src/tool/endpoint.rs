//! The hosted endpoint record: what a tool is, who owns it, what it may touch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_protocol::{Isolation, Language, Limits};

use super::{MicroUsd, Slug};
use crate::{
    clock::Timestamp,
    id::{BuilderId, EndpointId},
};

/// A hosted endpoint as it is stored. [`Endpoint::public`] is what everyone may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    pub slug: Slug,
    pub id: EndpointId,
    pub title: String,
    pub description: String,
    pub status: Status,
    pub price_usd: MicroUsd,
    pub handler_type: HandlerType,
    pub tags: Vec<String>,
    pub input_schema: Arc<Value>,
    pub output_schema: Arc<Value>,
    /// What calls may use now.
    pub capabilities: Capabilities,
    /// What the owner asked for and an admin has not granted yet.
    #[serde(default)]
    pub requested_capabilities: Capabilities,
    /// Hosts that `httpGetJson` may reach: exact names, or `*.example.com`.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Limits other than the defaults, within the policy's ceilings.
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub isolation: Isolation,
    pub content_safety: Option<ContentSafety>,
    pub owner: Owner,
    pub handler: Handler,
    /// SHA-256 of what runs, in hex: handler source and language, or the static response.
    pub version: String,
    /// Counts changes; the `ETag` of the record.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Whether an endpoint takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Active,
    Paused,
}

/// What kind of code answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerType {
    ReceiptEcho,
    StaticJson,
    X402ReadinessCheck,
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

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runtime {
    #[serde(rename = "managed_builtin_handler")]
    ManagedBuiltin,
    #[serde(rename = "admin_gated_js_request_response_v1")]
    AdminGatedJs,
}

/// How a call is priced. Follows from the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricingMode {
    FreePublicUtility,
    FixedPriceSuccessReceipt,
}

impl PricingMode {
    #[must_use]
    pub fn of(price: MicroUsd) -> Self {
        if price.is_zero() { Self::FreePublicUtility } else { Self::FixedPriceSuccessReceipt }
    }
}

/// What a handler may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Capabilities {
    pub kv: bool,
    pub files: bool,
    pub http_get_json: bool,
    pub logs: bool,
}

impl Capabilities {
    /// What `self` has and `other` has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            kv: self.kv && !other.kv,
            files: self.files && !other.files,
            http_get_json: self.http_get_json && !other.http_get_json,
            logs: self.logs && !other.logs,
        }
    }

    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// What the scan of an upload found, and when its builder vouched for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentSafety {
    pub outcome: String,
    pub policy_version: String,
    pub attested_at: Timestamp,
    pub findings: Vec<Value>,
}

/// Whose endpoint it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// Shipped with the host, or created with the admin token.
    Platform,
    Builder(BuilderId),
}

impl Owner {
    /// The name under which the sandbox shares its slots.
    #[must_use]
    pub fn share(&self) -> &str {
        match self {
            Self::Platform => "platform",
            Self::Builder(id) => id.as_str(),
        }
    }
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
    Js { language: Language },
}

/// Which form of the catalogue a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogForm {
    /// With `contentSafety`.
    Newer,
    /// Before `contentSafety` was added.
    Older,
}

impl Endpoint {
    #[must_use]
    pub fn pricing_mode(&self) -> PricingMode {
        PricingMode::of(self.price_usd)
    }

    /// True when its wall limit is above `threshold_ms`, so that `/ai/invoke` wants streaming.
    #[must_use]
    pub fn long_running(&self, threshold_ms: u64) -> bool {
        self.limits.wall_ms > threshold_ms
    }

    /// The hosted endpoint record of the catalogue.
    #[must_use]
    pub fn public(&self, base_url: &str, form: CatalogForm) -> Value {
        let free_builtin = self.handler_type.runtime() == Runtime::ManagedBuiltin && self.price_usd.is_zero();
        let mut record = json!({
            "slug": self.slug,
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "status": self.status,
            "priceUsd": self.price_usd,
            "handlerType": self.handler_type,
            "runtime": self.handler_type.runtime(),
            "pricingMode": self.pricing_mode(),
            "url": format!("{base_url}/tools/{}", self.slug),
            "method": "POST",
            "tags": self.tags,
            "inputSchema": *self.input_schema,
            "outputSchema": *self.output_schema,
            "capabilities": if free_builtin { json!({}) } else { json!(self.capabilities) },
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        });
        if form == CatalogForm::Newer {
            record["contentSafety"] = json!(self.content_safety);
        }
        record
    }

    /// The record for its owner and for admins: all of it but the source.
    #[must_use]
    pub fn owned(&self, base_url: &str) -> Value {
        let mut record = self.public(base_url, CatalogForm::Newer);
        let more = json!({
            "version": self.version,
            "revision": self.revision,
            "owner": match &self.owner { Owner::Platform => json!("platform"), Owner::Builder(id) => json!(id) },
            "requestedCapabilities": self.requested_capabilities,
            "allowedHosts": self.allowed_hosts,
            "limits": self.changed_limits(),
            "isolation": self.isolation,
        });
        if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
            record.extend(more);
        }
        record
    }

    /// The limits that are not the defaults.
    fn changed_limits(&self) -> Map<String, Value> {
        let defaults = Limits::default();
        tollhouse_protocol::limits::TABLE
            .iter()
            .filter_map(|row| {
                let value = self.limits.get(row.name)?;
                (defaults.get(row.name) != Some(value)).then(|| (row.name.to_owned(), json!(value)))
            })
            .collect()
    }
}
