//! Settings of the catalog and of the operator's additions to the content safety policy.

use std::path::{Path, PathBuf};

use tollhouse_catalog::{CatalogCapacity, safety::OperatorLists};

use super::{error::SettingsError, layered::flags};

flags! {
/// Flags for the catalog.
pub struct CatalogFlags {
    /// Folder whose tools are published on first start [default: the tools shipped in the binary]
    pub tools: Option<PathBuf> = "TOLLHOUSE_TOOLS",
    /// Wall limit above which a tool is long-running, in ms [default: 10000]
    pub long_running_ms: Option<u64> = "TOLLHOUSE_LONG_RUNNING_MS",
    /// Maximum number of published tools [default: 1000000]
    pub max_endpoints: Option<usize> = "TOLLHOUSE_MAX_ENDPOINTS",
    /// Approximate memory for tools that are ready for calls and lists, in bytes [default: 268435456]
    pub ready_endpoints_bytes: Option<usize> = "TOLLHOUSE_READY_ENDPOINTS_BYTES",
    /// File of SHA-256 hashes, one per line; matching uploads are rejected
    pub safety_hashes: Option<PathBuf> = "TOLLHOUSE_SAFETY_HASHES",
    /// TOML file of terms for which uploads are reviewed or rejected
    pub safety_terms: Option<PathBuf> = "TOLLHOUSE_SAFETY_TERMS",
    /// Contact of the operator, in `/openapi.json`: an address or a URL
    pub contact: Option<String> = "TOLLHOUSE_CONTACT",
    /// Contact for reports of abuse, in the content safety policy: an address or a URL
    pub abuse_contact: Option<String> = "TOLLHOUSE_ABUSE_CONTACT",
}
}

/// Settings of the catalog.
#[derive(Debug, Clone)]
pub struct CatalogSettings {
    /// Folder of the tools that are published on first start. Default: the tools in the binary.
    pub tools: Option<PathBuf>,
    /// Wall limit above which a tool is long-running.
    pub long_running_ms: u64,
    /// Maximum number of tools, and how much of them is kept in memory.
    pub room: CatalogCapacity,
    /// How to reach the operator: an address or a URL.
    pub contact: Option<String>,
    /// Hashes and terms that uploads are checked for.
    pub safety_lists: OperatorLists,
    /// Where to report abuse: an address or a URL.
    pub abuse_contact: Option<String>,
}

impl CatalogFlags {
    pub(super) fn resolve(self) -> Result<CatalogSettings, SettingsError> {
        Ok(CatalogSettings {
            tools: self.tools,
            long_running_ms: self.long_running_ms.unwrap_or(10_000),
            room: CatalogCapacity {
                max_endpoints: self.max_endpoints.unwrap_or(CatalogCapacity::default().max_endpoints),
                ready_bytes: self.ready_endpoints_bytes.unwrap_or(CatalogCapacity::default().ready_bytes),
            },
            contact: self.contact,
            safety_lists: operator_lists(self.safety_hashes.as_deref(), self.safety_terms.as_deref())?,
            abuse_contact: self.abuse_contact,
        })
    }
}

fn operator_lists(hashes: Option<&Path>, terms: Option<&Path>) -> Result<OperatorLists, SettingsError> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source });
    let (hashes, terms) = (hashes.map(read).transpose()?, terms.map(read).transpose()?);
    Ok(OperatorLists::parse(hashes.as_deref(), terms.as_deref())?)
}
