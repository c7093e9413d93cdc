//! The host itself: where it listens, where its data are, how it ends.

use std::{net::SocketAddr, path::PathBuf};

use super::layered::flags;

flags! {
/// Of the host itself.
pub struct HostFlags {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:4020]
    #[arg(long, env = "TOLLHOUSE_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Folder of the store, the files and the keys [default: ./data]
    #[arg(long, env = "TOLLHOUSE_DATA")]
    pub data: Option<PathBuf>,
    /// Public URL of this host, as it stands in records and payments [default: the listening address]
    #[arg(long, env = "TOLLHOUSE_BASE_URL")]
    pub base_url: Option<String>,
    /// Memory that the store caches, in bytes [default: 67108864]
    #[arg(long, env = "TOLLHOUSE_STORE_CACHE_BYTES")]
    pub store_cache_bytes: Option<u64>,
    /// Time that calls under way have to end after SIGTERM, in ms [default: 30000]
    #[arg(long, env = "TOLLHOUSE_DRAIN_MS")]
    pub drain_ms: Option<u64>,
    /// Log filter, as `tracing` reads it [default: info,rmcp=warn]
    #[arg(long, env = "TOLLHOUSE_LOG")]
    pub log: Option<String>,
}
}
