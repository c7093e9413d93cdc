//! Settings of the MCP front end.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use super::{error::SettingsError, http::QuotaSettings, layered::flags};

flags! {
/// Flags for the MCP front end.
pub struct McpFlags {
    /// Allowed `Host` names for `/ai/mcp` and the dashboard, comma-separated; `*` allows any [default: loopback's and the base URL's when listening on loopback, else any]
    pub mcp_hosts: Vec<String> = "TOLLHOUSE_MCP_HOSTS" (value_delimiter = ','),
    /// Web origins that can use `/ai/mcp`, for example `https://app.example.com:443`, comma-separated; `*` allows any [default: loopback's and the base URL's]
    pub mcp_origins: Vec<String> = "TOLLHOUSE_MCP_ORIGINS" (value_delimiter = ','),
    /// MCP calls per second from one address to one tool; 0 means no limit [default: 20, and none when listening on loopback]
    pub mcp_rate_limit: Option<u32> = "TOLLHOUSE_MCP_RATE_LIMIT",
    /// Maximum number of messages in a JSON-RPC batch, for MCP revision 2025-03-26 [default: 20]
    pub mcp_batch: Option<usize> = "TOLLHOUSE_MCP_BATCH",
    /// Time between progress notifications of an MCP call, in ms [default: 15000]
    pub mcp_progress_ms: Option<u64> = "TOLLHOUSE_MCP_PROGRESS_MS",
    /// Long-running MCP calls that run as tasks, in total [default: 1024]
    pub mcp_tasks: Option<usize> = "TOLLHOUSE_MCP_TASKS",
    /// Long-running MCP calls from one address that run as tasks [default: 64]
    pub mcp_address_tasks: Option<usize> = "TOLLHOUSE_MCP_ADDRESS_TASKS",
    /// Stored bytes of free tasks' results; above this limit, the largest client loses its oldest [default: 33554432]
    pub mcp_task_bytes: Option<usize> = "TOLLHOUSE_MCP_TASK_BYTES",
    /// Minutes that the answer of a free task is kept [default: 10]
    pub mcp_task_minutes: Option<u64> = "TOLLHOUSE_MCP_TASK_MINUTES",
    /// Open streams of MCP's `subscriptions/listen`, in total [default: 1024]
    pub mcp_listeners: Option<usize> = "TOLLHOUSE_MCP_LISTENERS",
    /// Open streams of MCP's `subscriptions/listen` from one address [default: 64]
    pub mcp_address_listeners: Option<usize> = "TOLLHOUSE_MCP_ADDRESS_LISTENERS",
    /// Folder of the conformance suite's tools, instead of the catalog; on loopback only
    pub mcp_conformance_tools: Option<PathBuf> = "TOLLHOUSE_MCP_CONFORMANCE_TOOLS" (hide = true),
}
}

/// Settings of the MCP front end.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// Allowed `Host` names, as configured. Empty means the default.
    pub hosts: Vec<String>,
    /// Allowed origins, as configured. Empty means the default.
    pub origins: Vec<String>,
    /// Limit on calls per second for each pair of address and tool.
    pub rate_limit: Option<NonZeroU32>,
    /// Maximum number of messages in a batch.
    pub batch: usize,
    /// Interval between progress notifications of a call.
    pub progress: Duration,
    /// Limits on tasks.
    pub tasks: TaskSettings,
    /// Limits on streams of `subscriptions/listen`.
    pub listeners: QuotaSettings,
    /// Folder of tools with the names that the conformance suite requires, instead of the catalog.
    pub conformance_tools: Option<PathBuf>,
}

/// Limits on long-running calls that run as tasks, and on their stored answers.
#[derive(Debug, Clone, Copy)]
pub struct TaskSettings {
    /// Running tasks.
    pub running: QuotaSettings,
    /// Maximum bytes of stored answers that no payment keeps.
    pub bytes: usize,
    /// How long such an answer is kept after the task has ended.
    pub kept: Duration,
}

impl McpFlags {
    /// Returns the effective settings. `one_address` says whether all clients appear to have one address, as behind an
    /// untrusted proxy.
    pub(super) fn resolve(self, listen: SocketAddr, one_address: bool) -> Result<McpSettings, SettingsError> {
        let loopback = listen.ip().is_loopback();
        if self.mcp_conformance_tools.is_some() && !loopback {
            return Err(SettingsError::ConformanceInPublic(listen));
        }
        let quota = |max: Option<usize>, of_address: Option<usize>| QuotaSettings {
            max: max.or(Some(1_024)),
            max_per_address: of_address.or(Some(64)),
        };
        Ok(McpSettings {
            hosts: self.mcp_hosts,
            origins: self.mcp_origins,
            rate_limit: NonZeroU32::new(self.mcp_rate_limit.unwrap_or(if one_address { 0 } else { 20 })),
            conformance_tools: self.mcp_conformance_tools,
            batch: self.mcp_batch.unwrap_or(20).max(1),
            progress: Duration::from_millis(self.mcp_progress_ms.unwrap_or(15_000).max(1)),
            tasks: TaskSettings {
                running: quota(self.mcp_tasks, self.mcp_address_tasks),
                bytes: self.mcp_task_bytes.unwrap_or(32 << 20),
                kept: Duration::from_secs(self.mcp_task_minutes.unwrap_or(10).saturating_mul(60)),
            },
            listeners: quota(self.mcp_listeners, self.mcp_address_listeners),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unlike in the settings of HTTP, 0 is a limit here.
    #[test]
    fn tasks_and_listeners_have_their_documented_limits() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 4020));
        let default = McpFlags::default().resolve(listen, true).unwrap();
        for quota in [default.tasks.running, default.listeners] {
            assert_eq!((quota.max, quota.max_per_address), (Some(1_024), Some(64)));
        }
        assert_eq!((default.tasks.bytes, default.tasks.kept), (33_554_432, Duration::from_secs(600)));
        let none = McpFlags { mcp_tasks: Some(0), mcp_address_listeners: Some(0), ..McpFlags::default() };
        let none = none.resolve(listen, false).unwrap();
        assert_eq!((none.tasks.running.max, none.listeners.max_per_address), (Some(0), Some(0)));
    }
}
