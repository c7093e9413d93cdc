//! Settings of the host itself: its address, its data, and its shutdown.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use tollhouse_objects::BucketLocation;
use tollhouse_store::{postgres::PostgresConfig, sled::SledConfig};
use url::Url;

use super::{error::SettingsError, layered::flags, secret::HiddenValue};

/// Default listening address.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4020);

/// Default time for load balancers to notice that a host is no longer ready.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

flags! {
/// Flags for the host itself.
pub struct HostFlags {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:4020]
    pub listen: Option<SocketAddr> = "TOLLHOUSE_LISTEN",
    /// Folder of the store, the files and the keys [default: data]
    pub data: Option<PathBuf> = "TOLLHOUSE_DATA",
    /// Public URL of this host, for records and payments [default: the listening address]
    pub base_url: Option<String> = "TOLLHOUSE_BASE_URL",
    /// PostgreSQL database of the store, as `postgres://user@host:5432/database`; `sslmode` and `sslrootcert` in its query set TLS [default: a store in the data folder]
    pub store: Option<HiddenValue> = "TOLLHOUSE_STORE" (hide_env_values = true),
    /// Password of the database user, unless the address has it
    pub store_password: Option<HiddenValue> = "TOLLHOUSE_STORE_PASSWORD" (hide_env_values = true),
    /// File with the password of the database user
    pub store_password_file: Option<PathBuf> = "TOLLHOUSE_STORE_PASSWORD_FILE",
    /// Bucket for large contents, as `s3://BUCKET/PREFIX`; `AWS_*` variables set region, endpoint and credentials [default: the folder `files` in the data folder]
    pub objects: Option<String> = "TOLLHOUSE_OBJECTS",
    /// Size of the store's page cache in bytes; several times that in memory [default: 25165824]
    pub store_cache_bytes: Option<u64> = "TOLLHOUSE_STORE_CACHE_BYTES",
    /// Length of a segment of the store's journal, in bytes; the first segments are shorter [default: 67108864]
    pub store_segment_bytes: Option<u64> = "TOLLHOUSE_STORE_SEGMENT_BYTES",
    /// Length of the store's journal at which older segments are removed, in bytes [default: 268435456]
    pub store_journal_bytes: Option<u64> = "TOLLHOUSE_STORE_JOURNAL_BYTES",
    /// Size of the store's tree above which it is rewritten, in bytes [default: 536870912]
    pub store_tree_bytes: Option<u64> = "TOLLHOUSE_STORE_TREE_BYTES",
    /// Free space on the store's disk below which commits are refused, in bytes [default: 134217728]
    pub store_free_bytes: Option<u64> = "TOLLHOUSE_STORE_FREE_BYTES",
    /// Time after SIGTERM in which `/health/ready` fails but calls are still accepted, in ms [default: 0, on a database 5000]
    pub shutdown_delay_ms: Option<u64> = "TOLLHOUSE_SHUTDOWN_DELAY_MS",
    /// Time for running calls to end after the shutdown delay, in ms [default: 30000]
    pub drain_ms: Option<u64> = "TOLLHOUSE_DRAIN_MS",
    /// Log filter, as `tracing` reads it [default: info,rmcp=error,h2=error]
    pub log: Option<String> = "TOLLHOUSE_LOG",
}
}

impl HostFlags {
    /// Returns the database of the store, if it is in one.
    ///
    /// # Errors
    ///
    /// A malformed address, or a password file that cannot be read.
    pub fn database(&self) -> Result<Option<PostgresConfig>, SettingsError> {
        let Some(address) = &self.store else { return Ok(None) };
        let password = HiddenValue::given_or_in(self.store_password.clone(), self.store_password_file.as_deref())?;
        Ok(Some(PostgresConfig::new(address.expose(), password.as_ref().map(HiddenValue::expose))?))
    }

    /// Returns how long load balancers get to notice a shutdown. Default: none if no other host can take over calls.
    pub(super) fn shutdown_delay(&self) -> Duration {
        let default = if self.store.is_some() { NOTICED_WITHIN } else { Duration::ZERO };
        self.shutdown_delay_ms.map_or(default, Duration::from_millis)
    }

    /// Returns the bucket of the objects, if they are in one.
    pub(super) fn bucket(&self) -> Result<Option<BucketLocation>, SettingsError> {
        self.objects.as_deref().map(|address| address.parse().map_err(SettingsError::Objects)).transpose()
    }

    /// Returns the settings of the store in the data folder.
    pub(super) fn folder(&self) -> SledConfig {
        let default = SledConfig::default();
        SledConfig {
            cache_bytes: self.store_cache_bytes.unwrap_or(default.cache_bytes),
            segment_bytes: self.store_segment_bytes.unwrap_or(default.segment_bytes),
            checkpoint_bytes: self.store_journal_bytes.unwrap_or(default.checkpoint_bytes),
            tree_bytes: self.store_tree_bytes.unwrap_or(default.tree_bytes),
            reserved_bytes: self.store_free_bytes.unwrap_or(default.reserved_bytes),
            ..default
        }
    }

    /// Returns the public URL without a trailing slash, as used in records.
    pub(super) fn base_url(&self) -> Result<Option<String>, SettingsError> {
        let fits = |url: Url| matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none();
        match self.base_url.as_deref() {
            Some(given) if !Url::parse(given).is_ok_and(fits) => Err(SettingsError::BaseUrl(given.to_owned())),
            given => Ok(given.map(|url| url.trim_end_matches('/').to_owned())),
        }
    }
}
