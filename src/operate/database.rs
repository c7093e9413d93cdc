//! The database of a store, looked at: whether it keeps what it is told, and which hosts serve it.

use std::{fmt, sync::Arc};

use crate::{
    replica::{CLOCK_APART_MS, Replica, Seen},
    store::{
        StoreError,
        postgres::{self, About, OpenError, PostgresConfig, PostgresStore},
    },
};

/// A database, and who serves the store in it.
#[derive(Debug)]
pub struct Examined {
    about: About,
    hosts: Vec<Seen>,
    /// Connections of one host, at most.
    each: usize,
}

/// Why a database cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// It does not open.
    #[error("the database of the store cannot be looked at")]
    Open(#[from] OpenError),
    /// The store in it does not read.
    #[error("the hosts of the store cannot be read")]
    Hosts(#[from] StoreError),
}

/// Asks a database, and the store in it where there is one. Makes none.
///
/// # Errors
///
/// Where it cannot be reached, or read.
pub async fn examine(config: &PostgresConfig) -> Result<Examined, LookError> {
    let about = postgres::about(config).await?;
    let hosts = match about.has_store {
        true => Replica::new(Arc::new(PostgresStore::open(config.clone()).await?)).seen().await?,
        false => Vec::new(),
    };
    Ok(Examined { about, hosts, each: config.connections() })
}

impl Examined {
    /// What a promise to those who pay needs and is not so.
    #[must_use]
    pub fn lacks(&self) -> Vec<&'static str> {
        let needed = [("fsync", self.about.fsync), ("full_page_writes", self.about.full_page_writes), ("clock", self.clock_is_right())];
        needed.into_iter().filter(|(_, is_so)| !is_so).map(|(name, _)| name).collect()
    }

    fn clock_is_right(&self) -> bool {
        self.about.ahead_ms.unsigned_abs() <= CLOCK_APART_MS + self.about.give_or_take_ms
    }

    fn hosts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.about.has_store {
            return writeln!(f, "  left out  store: there is none yet, the first host makes it");
        }
        for host in &self.hosts {
            let (state, until) = (if host.lives { "serves" } else { "ended" }, host.lease_until);
            let until = until.map(|until| format!(", lease until {until}")).unwrap_or_default();
            writeln!(
                f,
                "  host      {} {state}, version {}, forms of rows up to {}{until}, {} changes not heard",
                host.id, host.version, host.formats, host.behind
            )?;
        }
        let mut formats: Vec<_> = self.hosts.iter().filter(|host| host.lives).map(|host| host.formats).collect();
        formats.sort_unstable();
        formats.dedup();
        if formats.len() > 1 {
            writeln!(
                f,
                "  missing   one version: hosts read forms of rows up to {formats:?}\n            end the upgrade: what the older ones do not read is not written"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = &self.about;
        writeln!(f, "the database, PostgreSQL {}", about.version)?;
        let mut line = |is_so: bool, what: &str, remedy: &str| match is_so {
            true => writeln!(f, "  in force  {what}"),
            false => writeln!(f, "  missing   {what}\n            {remedy}"),
        };
        line(about.fsync, "fsync", "`fsync = on` in postgresql.conf: a crash of the server loses or breaks what was told as paid")?;
        line(about.full_page_writes, "full_page_writes", "`full_page_writes = on` in postgresql.conf: a crash can leave half a page")?;
        let standbys: Vec<_> = about.standbys.iter().map(|(name, state)| format!("{name} ({state})")).collect();
        let standbys = if standbys.is_empty() { "none that its user may know of".to_owned() } else { standbys.join(", ") };
        line(
            !about.synchronous.is_empty(),
            &format!("synchronous_standby_names: `{}`; standbys: {standbys}", about.synchronous),
            "what was told as paid is on this server's disk alone; with a standby named there it is on two before it is told",
        )?;
        let clock = format!("clock: this machine's is {} ms ahead of the server's, give or take {}", about.ahead_ms, about.give_or_take_ms);
        line(self.clock_is_right(), &clock, "have both follow one time server: payments are judged by this machine's clock")?;
        let hosts = about.connections as usize / self.each;
        let connections = format!("max_connections: {}, for {hosts} hosts", about.connections);
        line(about.connections == 0 || hosts >= 2, &connections, &format!("each host has {} connections at most", self.each))?;
        self.hosts(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let told = well.to_string();
        assert!(well.lacks().is_empty() && !told.contains("missing"), "{told}");
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
        let told = bad.to_string();
        assert_eq!((told.matches("\n  missing   ").count(), told.matches("\n            ").count()), (5, 5), "{told}");
    }
}
