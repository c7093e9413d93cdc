//! The address of a database and how to connect to it.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{SslMode, TargetSessionAttrs},
};

use super::{
    error::OpenError,
    tls::{CertTrust, Tls},
};

/// Timeout for connecting to one address.
pub(super) const CONNECT_WALL: Duration = Duration::from_secs(3);
/// Timeout for sent data that the other side does not acknowledge.
const SILENCE: Duration = Duration::from_secs(5);

/// Number of connections that write commits of one durability.
const LANES: usize = 4;
/// Number of connections that read.
pub(super) const READERS: usize = 4;
/// Maximum number of commits in one transaction.
const TOGETHER: usize = 64;

/// The address of a database and how to connect to it.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    pub(super) database: Config,
    pub(super) tls: Tls,
    /// Number of connections that write durable commits. As many others write buffered ones. Default: 4.
    pub lanes: usize,
    /// Maximum number of commits in one transaction. Default: 64.
    pub together: usize,
}

impl PostgresConfig {
    /// Parses an address such as `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE`, in
    /// which most parts are optional. `password` replaces a password in the address.
    pub fn new(address: &str, password: Option<&str>) -> Result<Self, OpenError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Err(OpenError::Scheme);
        }
        let (address, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut mode, mut roots, mut others) = ("prefer", None, vec![]);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(&*percent_decode_str(value).decode_utf8_lossy())),
                Some(_) | None => others.push(pair),
            }
        }
        let (ssl, trust) = match (mode, roots) {
            ("disable", _) => (SslMode::Disable, CertTrust::Anyone),
            ("prefer", None) => (SslMode::Prefer, CertTrust::Anyone),
            ("require", None) => (SslMode::Require, CertTrust::Anyone),
            // Naming certificates implies that they must be verified.
            ("prefer" | "require" | "verify-full", Some(roots)) => (SslMode::Require, CertTrust::Signed(roots)),
            ("verify-full", None) => (SslMode::Require, CertTrust::System),
            (other, _) => return Err(OpenError::Mode(other.to_owned())),
        };
        let mut database: Config = format!("{address}?{}", others.join("&")).parse().map_err(OpenError::Address)?;
        database
            .ssl_mode(ssl)
            .connect_timeout(CONNECT_WALL)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if database.get_application_name().is_none() {
            database.application_name("tollhouse");
        }
        if let Some(password) = password {
            database.password(password);
        }
        Ok(Self { database, tls: Tls::new(&trust)?, lanes: LANES, together: TOGETHER })
    }

    /// Returns the maximum number of connections of a host: for durable commits, for buffered commits, and for reads.
    pub fn connections(&self) -> usize {
        2 * self.lanes + READERS
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    #[test]
    fn addresses_contain_host_user_and_options() {
        let config = PostgresConfig::new("postgres://me:in%20it@db.test:6000/tolls?sslmode=require&application_name=other", None).unwrap();
        assert_eq!(config.database.get_hosts(), [Host::Tcp("db.test".to_owned())]);
        assert_eq!((config.database.get_user(), config.database.get_dbname()), (Some("me"), Some("tolls")));
        assert_eq!(config.database.get_password(), Some(&b"in it"[..]));
        assert_eq!((config.database.get_ssl_mode(), config.database.get_application_name()), (SslMode::Require, Some("other")));
        let config = PostgresConfig::new("postgresql://me@db.test/tolls", Some("beside")).unwrap();
        assert_eq!((config.database.get_ssl_mode(), config.database.get_application_name()), (SslMode::Prefer, Some("tollhouse")));
        assert_eq!(config.database.get_password(), Some(&b"beside"[..]));
        assert_eq!(config.database.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert!(!format!("{config:?}").contains("beside"), "a password is shown to nobody");
    }

    #[test]
    fn address_can_name_several_servers() {
        let config = PostgresConfig::new("postgres://tollhouse@db1:5432,db2:5433/tolls", None).unwrap();
        assert_eq!(config.database.get_hosts(), ["db1", "db2"].map(|host| Host::Tcp(host.to_owned())));
        assert_eq!((config.database.get_ports(), config.database.get_dbname()), (&[5432, 5433][..], Some("tolls")));
    }

    #[test]
    fn malformed_addresses_are_rejected() {
        assert!(matches!(PostgresConfig::new("mysql://a/b", None), Err(OpenError::Scheme)));
        assert!(matches!(PostgresConfig::new("postgres://a/b?sslmode=verify-ca", None), Err(OpenError::Mode(mode)) if mode == "verify-ca"));
        assert!(matches!(PostgresConfig::new("postgres://a/b?colour=red", None), Err(OpenError::Address(_))));
        let missing = PostgresConfig::new("postgres://a/b?sslmode=verify-full&sslrootcert=%2Fno%2Fsuch", None);
        assert!(matches!(missing, Err(OpenError::Roots { path, .. }) if path == std::path::Path::new("/no/such")));
    }
}
