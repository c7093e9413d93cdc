//! Stores in a database: opened by one host or by several.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use tollhouse::store::{Changes, SpaceSizes, postgres::OpenError};

use super::{
    changes::followed_batch,
    cut::CuttingProxy,
    harness::*,
    postgres::Postgres,
    questions::{absent_checks_of_keys_not_written_exclude_each_other, counted},
};

/// Two stores in one database, used in turn.
pub struct Twins {
    both: [PostgresStore; 2],
    requested: AtomicUsize,
}

impl Twins {
    pub async fn open() -> Self {
        Self::at(&Postgres::shared().schema().await).await
    }

    /// Opens two stores behind a proxy that makes every transaction serializable.
    pub async fn serializable() -> Self {
        let server = Postgres::shared();
        let cut = CuttingProxy::before_serializable(server.port()).await;
        Self::at(&through(&cut, server, &server.schema().await)).await
    }

    async fn at(address: &str) -> Self {
        let (one, other) = tokio::join!(at(address), at(address));
        Self { both: [one, other], requested: AtomicUsize::new(0) }
    }

    fn one(&self) -> &PostgresStore {
        &self.both[self.requested.fetch_add(1, Relaxed) % 2]
    }
}

#[async_trait]
impl Store for Twins {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.one().get(space, key).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.one().scan(space, range, limit, direction).await
    }

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        self.one().count(space, range, max).await
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.one().apply(batch, durability).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.one().changes(after, limit).await
    }

    fn sizes(&self) -> SpaceSizes {
        self.one().sizes()
    }
}

/// Returns the address of a server, with the proxy in its place.
fn through(cut: &CuttingProxy, server: &Postgres, address: &str) -> String {
    address.replacen(&format!(":{}/", server.port()), &format!(":{}/", cut.port), 1)
}

/// A trigger that records the isolation level of transactions that insert rows.
const WATCH: &str = "CREATE TABLE isolated (how text PRIMARY KEY);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO isolated VALUES (current_setting('transaction_isolation')) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER watch AFTER INSERT ON tollhouse_row EXECUTE FUNCTION watch()";

/// Returns whether any rows were inserted with "read committed", and whether any with
/// "serializable".
async fn isolated(server: &Postgres) -> [Option<i64>; 2] {
    let of = |how| async move { server.count(&format!("SELECT count(*) FROM isolated WHERE how = '{how}'")).await };
    [of("read committed").await, of("serializable").await]
}

/// Sessions set their isolation level themselves, so that a database's default does not cause
/// failed commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn database_with_serializable_default_works_like_any_other() {
    let server = Postgres::start();
    server.sql("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'").await;
    server.sql("ALTER ROLE tollhouse SET default_transaction_isolation = 'serializable'").await;
    let twins = Twins::at(&server.url()).await;
    server.sql(WATCH).await;
    absent_checks_of_keys_not_written_exclude_each_other(twins).await;
    assert_eq!(isolated(&server).await, [Some(1), Some(0)]);
}

/// Where a database allows nothing but serializable, a commit that cannot be serialized is retried,
/// and is not reported as a conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_that_cannot_be_serialized_are_tried_again() {
    let server = Postgres::start();
    let cut = CuttingProxy::before_serializable(server.port()).await;
    let twins = Twins::at(&through(&cut, &server, &server.url())).await;
    // Both stores add to one counter. No addition is refused, and none is lost.
    let adds = (0..200).map(|n| {
        let add = Add { space: Space::Accounts, key: b"counter".to_vec(), by: 1, limit: SumLimit::Ceiling(1_000) };
        twins.apply(Batch { adds: vec![add], ..Batch::new() }, if n % 2 == 0 { Durable } else { Buffered })
    });
    let mut sums: Vec<_> = futures_util::future::join_all(adds).await.into_iter().map(|sum| sum.unwrap()[0]).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=200).collect::<Vec<_>>());
    assert!(server.log().contains("could not serialize access"), "none was in the way of another: {}", server.log());
    server.sql(WATCH).await;
    put(&twins, Space::Kv, b"key", b"value").await;
    assert_eq!(isolated(&server).await, [Some(0), Some(1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_of_one_store_are_visible_to_the_others() {
    let address = Postgres::shared().schema().await;
    // No host exists yet: all of them create the tables.
    let hosts = futures_util::future::join_all((0..6).map(|_| at(&address))).await;
    for (n, host) in hosts.iter().enumerate() {
        host.apply(followed_batch(&[&n.to_string()]), if n % 2 == 0 { Durable } else { Buffered }).await.unwrap();
        for other in &hosts {
            let there: Vec<_> = (0..=n).map(|n| n.to_string()).collect();
            assert_eq!(names(&all(other, Space::Builders).await), there.iter().map(String::as_bytes).collect::<Vec<_>>());
            assert_eq!(other.changes(0, 10).await.unwrap().newest, n as u64 + 1);
        }
    }
    let late = at(&address).await;
    assert_eq!(late.sizes().spaces, counted(&late).await);
    // The hosts from before learn of it a little later.
    let requested = counted(&late).await;
    for host in &hosts {
        until(|| host.sizes().spaces == requested).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_later_version_is_refused() {
    let server = Postgres::shared();
    let address = server.schema().await;
    drop(at(&address).await);
    let schema = address.rsplit_once("%3D").unwrap().1;
    server.sql(&format!("UPDATE {schema}.tollhouse_about SET version = 9")).await;
    let refused = PostgresStore::open(PostgresConfig::new(&address, None).unwrap()).await.err().unwrap();
    assert!(matches!(refused, OpenError::Newer { found: 9, .. }), "{refused}");
    assert!(refused.to_string().contains("version 9") && refused.to_string().contains("start a host of that version"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_a_database_go_by_its_clock_which_no_transaction_stops() {
    let address = Postgres::shared().schema().await;
    let [one, other] = [at(&address).await, at(&address).await];
    assert!(one.is_shared() && other.is_shared());
    let mut before = one.now().await.unwrap();
    for store in [&other, &one, &other] {
        until_async(async || store.now().await.unwrap() > before).await;
        before = store.now().await.unwrap();
    }
    let host = tollhouse::base::clock::Clock::default().now();
    assert!(host.0.abs_diff(before.0) < 60_000, "of the machine that both run on: {host:?}, {before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_database_rights_and_users_are_reported() {
    let server = Postgres::shared();
    let schema = server.schema().await.rsplit_once("%3D").unwrap().1.to_owned();
    server.sql(&format!("CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA {schema} TO guest")).await;
    let address = |user| format!("postgres://{user}@127.0.0.1:{}/postgres?options=-c%20search_path%3D{schema}", server.port());
    let open = async |user| PostgresStore::open(PostgresConfig::new(&address(user), None).unwrap()).await.err().unwrap();
    assert!(matches!(open("guest").await, OpenError::Refused(_)));
    assert!(matches!(open("nobody").await, OpenError::Connect(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_certificates_are_asked_for() {
    let mut server = Postgres::start();
    server.sql("SET password_encryption = 'scram-sha-256'; CREATE ROLE careful LOGIN SUPERUSER PASSWORD 'open sesame'").await;
    server.stop();
    server.configure("pg_hba.conf", "hostssl all careful 127.0.0.1/32 scram-sha-256\nhost all careful 127.0.0.1/32 reject");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let roots = folder();
    let [own, other] = ["own.pem", "other.pem"].map(|name| roots.path().join(name));
    std::fs::write(&own, made.cert.pem()).unwrap();
    std::fs::write(&other, rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()).unwrap();
    server.keep("server.crt", &made.cert.pem());
    server.keep("server.key", &made.signing_key.serialize_pem());
    server.configure("postgresql.conf", "ssl = on");
    server.run();

    let open = async |host: &str, query: &str, password: &str| {
        let address = format!("postgres://careful@{host}:{}/postgres?{query}", server.port());
        PostgresStore::open(PostgresConfig::new(&address, Some(password))?).await
    };
    let signed = |path: &std::path::Path| format!("sslmode=verify-full&sslrootcert={}", path.display());
    for (host, query) in [("127.0.0.1", ""), ("127.0.0.1", "sslmode=require"), ("localhost", &signed(&own))] {
        let store = open(host, query, "open sesame").await.unwrap_or_else(|error| panic!("{host} {query}: {error:?}"));
        put(&store, Space::Kv, b"k", b"v").await;
    }
    let refused = [
        ("127.0.0.1", "sslmode=disable".to_owned(), "open sesame"),
        ("127.0.0.1", "sslmode=require".to_owned(), "close sesame"),
        // A certificate for another name, from another signer, and from one that the system does
        // not know.
        ("127.0.0.1", signed(&own), "open sesame"),
        ("localhost", signed(&other), "open sesame"),
        ("localhost", "sslmode=verify-full".to_owned(), "open sesame"),
    ];
    for (host, query, password) in refused {
        let refused = open(host, &query, password).await;
        assert!(matches!(refused, Err(OpenError::Connect(_))), "{host} {query}: {:?}", refused.err());
    }
}
