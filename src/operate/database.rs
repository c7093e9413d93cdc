//! Checks a store's database: whether it is durable, and which hosts serve the store.

use std::sync::Arc;

use tollhouse_replica::{CLOCK_APART_MS, Replica, Seen};
use tollhouse_store::{
    StoreError,
    postgres::{self, About, OpenError, PostgresConfig, PostgresStore},
};

use super::finding::Finding;

/// A database and the hosts that serve the store in it.
#[derive(Debug)]
pub struct Examined {
    about: About,
    hosts: Vec<Seen>,
    /// Maximum number of connections of one host.
    each: usize,
}

/// Why a database cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It cannot be opened.
    #[error("the database of the store cannot be looked at")]
    Open(#[from] OpenError),
    /// The store in it cannot be read.
    #[error("the hosts of the store cannot be read")]
    Hosts(#[from] StoreError),
}

/// Queries a database, and the store in it if there is one. Does not create one.
///
/// # Errors
///
/// It cannot be reached or read.
pub async fn examine(config: &PostgresConfig) -> Result<Examined, LookError> {
    let about = postgres::about(config).await?;
    let hosts = match about.has_store {
        true => Replica::new(Arc::new(PostgresStore::open(config.clone()).await?)).seen().await?,
        false => Vec::new(),
    };
    Ok(Examined { about, hosts, each: config.connections() })
}

/// Constructs a finding from its part, its text and its remedy.
type Made = fn(&'static str, String, String) -> Finding;

impl Examined {
    /// Returns the properties that safe payments need and that are missing.
    #[must_use]
    pub fn lacks(&self) -> Vec<&'static str> {
        let needed = [("fsync", self.about.fsync), ("full_page_writes", self.about.full_page_writes), ("clock", self.clock_is_right())];
        needed.into_iter().filter(|(_, is_so)| !is_so).map(|(name, _)| name).collect()
    }

    fn clock_is_right(&self) -> bool {
        self.about.ahead_ms.unsigned_abs() <= CLOCK_APART_MS + self.about.give_or_take_ms
    }

    fn hosts(&self) -> Vec<Finding> {
        if !self.about.has_store {
            return vec![Finding::ok("database", "there is no store yet, the first host makes it")];
        }
        let told = self.hosts.iter().map(|host| {
            let (state, until) = (if host.lives { "serves" } else { "ended" }, host.lease_until);
            let until = until.map(|until| format!(", lease until {until}")).unwrap_or_default();
            let reads = format!("version {}, forms of rows up to {}", host.version, host.formats);
            Finding::ok("database", format!("host {} {state}, {reads}{until}, {} changes not heard", host.id, host.behind))
        });
        let mut told: Vec<_> = told.collect();
        let mut formats: Vec<_> = self.hosts.iter().filter(|host| host.lives).map(|host| host.formats).collect();
        formats.sort_unstable();
        formats.dedup();
        if formats.len() > 1 {
            let text = format!("hosts read forms of rows up to {formats:?}");
            told.push(Finding::warn("database", text, "end the upgrade: what the older ones do not read is not written"));
        }
        told
    }

    /// Returns the findings about it.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let about = &self.about;
        let mut told = vec![Finding::ok("database", format!("PostgreSQL {}", about.version))];
        let mut line = |is_so: bool, make: Made, what: &str, missing: &str, remedy: &str| {
            told.push(if is_so { Finding::ok("database", what) } else { make("database", missing.to_owned(), remedy.to_owned()) });
        };
        let (fail, warn): (Made, Made) = (Finding::fail, Finding::warn);
        let fsync = "`fsync = on` in postgresql.conf: a crash of the server loses or breaks what was told as paid";
        line(about.fsync, fail, "fsync is on", "fsync is off", fsync);
        let pages = "`full_page_writes = on` in postgresql.conf: a crash can leave half a page";
        line(about.full_page_writes, fail, "full_page_writes is on", "full_page_writes is off", pages);
        let standbys: Vec<_> = about.standbys.iter().map(|(name, state)| format!("{name} ({state})")).collect();
        let standbys = if standbys.is_empty() { "none that its user may know of".to_owned() } else { standbys.join(", ") };
        let named = format!("synchronous_standby_names: `{}`; standbys: {standbys}", about.synchronous);
        let alone = "what was told as paid is on this server's disk alone; with a standby named there it is on two before it is told";
        line(!about.synchronous.is_empty(), warn, &named, &named, alone);
        let clock = format!("clock: this machine's is {} ms ahead of the server's, give or take {}", about.ahead_ms, about.give_or_take_ms);
        line(self.clock_is_right(), fail, &clock, &clock, "have both follow one time server: payments are judged by this machine's clock");
        let hosts = about.connections as usize / self.each;
        let connections = format!("max_connections: {}, for {hosts} hosts", about.connections);
        line(
            about.connections == 0 || hosts >= 2,
            warn,
            &connections,
            &connections,
            &format!("each host has {} connections at most", self.each),
        );
        told.extend(self.hosts());
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn examined() -> Examined {
        let about = About {
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
        Examined { about, hosts: Vec::new(), each: 12 }
    }

    #[test]
    fn a_database_that_keeps_what_it_is_told_lacks_nothing() {
        let well = examined();
        let told: Vec<_> = well.findings().iter().map(ToString::to_string).collect();
        assert!(well.lacks().is_empty() && well.findings().iter().all(|finding| finding.level == Level::Ok), "{told:?}");
        let told = told.join("\n");
        assert!(
            told.contains("synchronous_standby_names: `ANY 1 (*)`; standbys: two (quorum)") && told.contains("100, for 8 hosts"),
            "{told}"
        );
    }

    #[test]
    fn each_thing_that_is_missing_comes_with_what_to_do() {
        let mut about = examined().about;
        (about.fsync, about.full_page_writes, about.ahead_ms, about.connections) = (false, false, 1_002, 20);
        (about.synchronous, about.standbys) = (String::new(), Vec::new());
        let bad = Examined { about, hosts: Vec::new(), each: 12 };
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
