//! Runs of drafts and stored versions without publishing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{constant::True, log::LogLine, publish::Handler};

/// The request to run a draft, or a stored version, without publishing it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DryRunRequest {
    /// The input. Default: `{}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The version to run. Default: the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The handler to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Handler>,
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryRunResponse {
    /// Always true.
    pub ok: True,
    /// The run.
    pub run: DryRun,
}

/// A dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DryRun {
    /// Hash of the version that ran.
    pub version: String,
    /// The log of the run.
    pub log: Vec<LogLine>,
    /// What the run used.
    pub spent: DryRunUsage,
    /// The capabilities and hosts that the run could use.
    pub granted: Map<String, Value>,
    /// The status that the handler chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The error that a call would get, in place of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Map<String, Value>>,
}

/// What a dry run used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DryRunUsage {
    /// Processor time, in milliseconds.
    pub cpu_ms: f64,
    /// Duration, in milliseconds.
    pub wall_ms: f64,
    /// Memory, in bytes.
    pub heap_bytes: u64,
    /// Number of ops.
    pub ops: u64,
}
