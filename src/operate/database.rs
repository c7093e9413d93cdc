//! Checks a store's database: whether it is durable, and which hosts serve the store.

use std::sync::Arc;
use tollhouse_base::{boxed, plural::plural};

use tollhouse_replica::{CLOCK_APART_MS, Replica, SeenReplica};
use tollhouse_store::{
    StoreError,
    postgres::{self, OpenError, PostgresConfig, PostgresStore, ServerInfo},
};

use super::finding::Finding;

/// A database and the hosts that serve the store in it.
#[derive(Debug)]
pub struct DatabaseReport {
    about: ServerInfo,
    hosts: Vec<SeenReplica>,
    /// Maximum number of connections of one host.
    each: usize,
}

/// Why a database cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It cannot be opened.
    #[error("the database of the store cannot be checked")]
    Open(#[from] OpenError),
    /// The store in it cannot be read.
    #[error("the hosts of the store cannot be read")]
    Hosts(#[from] StoreError),
}

/// Queries a database, and the store in it if there is one. Does not create one.
#[boxed]
pub async fn examine(config: &PostgresConfig) -> Result<DatabaseReport, InspectError> {
    let about = postgres::about(config).await?;
    let hosts = match about.has_store {
        true => Replica::new(Arc::new(PostgresStore::open(config.clone()).await?)).seen().await?,
        false => Vec::new(),
    };
    Ok(DatabaseReport { about, hosts, each: config.connections() })
}

/// Constructs a finding from its part, its text and its remedy.
type FindingBuilder = fn(&'static str, String, String) -> Finding;

impl DatabaseReport {
    /// Returns the properties that safe payments need and that are missing.
    pub fn lacks(&self) -> Vec<&'static str> {
        let needed = [("fsync", self.about.fsync), ("full_page_writes", self.about.full_page_writes), ("clock", self.clock_is_right())];
        needed.into_iter().filter(|(_, is_so)| !is_so).map(|(name, _)| name).collect()
    }

    fn clock_is_right(&self) -> bool {
        self.about.ahead_ms.unsigned_abs() <= CLOCK_APART_MS + self.about.give_or_take_ms
    }

    fn hosts(&self) -> Vec<Finding> {
        if !self.about.has_store {
            return vec![Finding::ok("database", "there is no store yet; the first host creates it")];
        }
        let reported = self.hosts.iter().map(|host| {
            let (state, until) = (if host.lives { "serves" } else { "ended" }, host.lease_until);
            let until = until.map(|until| format!(", lease until {until}")).unwrap_or_default();
            let reads = format!("version {}, row formats up to {}", host.version, host.formats);
            Finding::ok("database", format!("host {} {state}, {reads}{until}, {} behind", host.id, plural(host.behind, "change")))
        });
        let mut reported: Vec<_> = reported.collect();
        let mut formats: Vec<_> = self.hosts.iter().filter(|host| host.lives).map(|host| host.formats).collect();
        formats.sort_unstable();
        formats.dedup();
        if formats.len() > 1 {
            let text = format!("the hosts read row formats up to {formats:?}");
            reported.push(Finding::warn(
                "database",
                text,
                "finish the upgrade: until then, no host writes rows that the older hosts cannot read",
            ));
        }
        reported
    }

    /// Returns the findings about it.
    pub fn findings(&self) -> Vec<Finding> {
        let about = &self.about;
        let mut listed = vec![Finding::ok("database", format!("PostgreSQL {}", about.version))];
        let mut line = |is_so: bool, make: FindingBuilder, what: &str, missing: &str, remedy: &str| {
            listed.push(if is_so { Finding::ok("database", what) } else { make("database", missing.to_owned(), remedy.to_owned()) });
        };
        let (fail, warn): (FindingBuilder, FindingBuilder) = (Finding::fail, Finding::warn);
        let fsync = "set `fsync = on` in postgresql.conf: otherwise a crash of the server can lose or damage confirmed payments";
        line(about.fsync, fail, "fsync is on", "fsync is off", fsync);
        let pages = "set `full_page_writes = on` in postgresql.conf: otherwise a crash can leave half a page";
        line(about.full_page_writes, fail, "full_page_writes is on", "full_page_writes is off", pages);
        let standbys: Vec<_> = about.standbys.iter().map(|(name, state)| format!("{name} ({state})")).collect();
        let standbys = if standbys.is_empty() { "none that this user can see".to_owned() } else { standbys.join(", ") };
        let named = format!("synchronous_standby_names: `{}`; standbys: {standbys}", about.synchronous);
        let alone = "confirmed payments are on one disk only; name a synchronous standby there, so that each is on two disks before it is confirmed";
        line(!about.synchronous.is_empty(), warn, &named, &named, alone);
        let clock = format!(
            "clock: this machine and the server differ by {} ms, plus or minus {}",
            about.ahead_ms.unsigned_abs(),
            about.give_or_take_ms
        );
        line(
            self.clock_is_right(),
            fail,
            &clock,
            &clock,
            "use the same time server for both: the host checks payments by this machine's clock",
        );
        let hosts = about.connections as usize / self.each;
        let connections = format!("max_connections: {}, for {}", about.connections, plural(hosts, "host"));
        line(
            about.connections == 0 || hosts >= 2,
            warn,
            &connections,
            &connections,
            &format!("each host uses up to {} connections", self.each),
        );
        listed.extend(self.hosts());
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn examined() -> DatabaseReport {
        let about = ServerInfo {
            version: "15.8".to_owned(),
            fsync: true,
            full_page_writes: true,
            synchronous: "ANY 1 (*)".to_owned(),
            standbys: vec![("two".to_owned(), "quorum".to_owned())],
            connections: 100,
            ahead_ms: -3,
            give_or_take_ms: 1,
            has_store: false,
        };
        DatabaseReport { about, hosts: Vec::new(), each: 12 }
    }

    #[test]
    fn durable_database_lacks_nothing() {
        let well = examined();
        let listed: Vec<_> = well.findings().iter().map(ToString::to_string).collect();
        assert!(well.lacks().is_empty() && well.findings().iter().all(|finding| finding.level == Level::Ok), "{listed:?}");
        let listed = listed.join("\n");
        assert!(listed.contains("clock: this machine and the server differ by 3 ms, plus or minus 1"), "{listed}");
        assert!(
            listed.contains("synchronous_standby_names: `ANY 1 (*)`; standbys: two (quorum)") && listed.contains("100, for 8 hosts"),
            "{listed}"
        );
    }

    #[test]
    fn each_missing_setting_has_a_remedy() {
        let mut about = examined().about;
        (about.fsync, about.full_page_writes, about.ahead_ms, about.connections) = (false, false, 1_002, 20);
        (about.synchronous, about.standbys) = (String::new(), Vec::new());
        let bad = DatabaseReport { about, hosts: Vec::new(), each: 12 };
        assert_eq!(bad.lacks(), ["fsync", "full_page_writes", "clock"]);
        let (mut fail, mut warn) = (0, 0);
        for finding in bad.findings() {
            fail += u32::from(finding.level == Level::Fail);
            warn += u32::from(finding.level == Level::Warn);
            assert_eq!(finding.level != Level::Ok, !finding.remedies.is_empty(), "{finding}");
        }
        assert_eq!((fail, warn), (3, 2));
    }
}
