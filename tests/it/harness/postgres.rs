//! A PostgreSQL server for tests: Debian's package, in a temporary folder, on loopback.

use std::{
    fs,
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use super::process;

/// The user of the server if root runs the tests, because PostgreSQL refuses root: `nobody`.
const NOBODY: u32 = 65_534;

/// Runs a server until its standard input ends, which happens when the parent process ends, for
/// whatever reason. Then deletes a folder.
const GUARD: &str = r#"exec 3<&0
removed=$1; shift
"$@" 3<&- & server=$!
(read _ <&3; kill -INT $server) & watch=$!
wait $server
kill $watch 2>/dev/null || case $removed in ?*) rm -rf "$removed";; esac"#;

/// Maximum time for a start, including recovery after a crash.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// A server. It ends when this is dropped.
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    guard: Option<Child>,
    schemas: AtomicU32,
    /// Deleted with the server. The guard deletes the folder of the shared server.
    own: Option<TempDir>,
}

impl Postgres {
    /// Starts a server for one test.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::init(folder.path().to_owned(), Some(folder))
    }

    /// Returns the server for all tests of this process, which ends with it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::init(tempfile::tempdir().unwrap().keep(), None))
    }

    /// Starts a synchronous standby. From now on every commit is on its disk before it is
    /// acknowledged.
    pub async fn standby(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut standby = Self { folder: folder.path().to_owned(), port: 0, guard: None, schemas: AtomicU32::new(0), own: Some(folder) };
        standby.hand_over(&standby.folder);
        let mut copy = standby.command(&program("pg_basebackup"));
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "tollhouse", "-R", "-c", "fast", "-D"]).arg(standby.data());
        let copy = tokio::task::spawn_blocking(move || copy.output().unwrap()).await.unwrap();
        assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
        standby.run();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        self.sql("SELECT pg_reload_conf()").await;
        self.sql(
            "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') LOOP \
             PERFORM pg_sleep(0.02), pg_stat_clear_snapshot(); END LOOP; END $$",
        )
        .await;
        standby
    }

    fn init(folder: PathBuf, own: Option<TempDir>) -> Self {
        let mut server = Self { folder, port: 0, guard: None, schemas: AtomicU32::new(0), own };
        server.hand_over(&server.folder);
        let mut init = server.command(&program("initdb"));
        init.args(["-A", "trust", "-U", "tollhouse", "-E", "UTF8", "--locale=C", "-N", "-D"]).arg(server.data());
        let init = init.output().unwrap();
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        server.run();
        server
    }

    /// Starts the server on the existing data, with the same port if it had one.
    pub fn run(&mut self) {
        let (started, port) = (Instant::now(), self.port);
        while self.guard.is_none() {
            assert!(started.elapsed() < STARTED_WITHIN, "{}", self.log());
            if port == 0 {
                self.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            }
            // If it ends at once, another process has the port. Try again.
            self.guard = self.try_run(started);
        }
    }

    fn try_run(&self, started: Instant) -> Option<Child> {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let removed = if self.own.is_some() { Path::new("") } else { &self.folder };
        let mut guard = self.command(Path::new("sh"));
        guard.args(["-c", GUARD, "sh"]).arg(removed).arg(program("postgres")).arg("-D").arg(self.data());
        guard.args(["-p", &self.port.to_string(), "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=600"]);
        let mut guard = guard.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        while guard.try_wait().unwrap().is_none() {
            if self.about().is_some_and(|about| about.lines().nth(7).is_some_and(|state| ["ready", "standby"].contains(&state.trim()))) {
                return Some(guard);
            }
            assert!(started.elapsed() < STARTED_WITHIN, "{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Kills all processes of the server at once, as in a power failure. Data that were synced to
    /// disk stay.
    pub fn kill9(&mut self) {
        let pid = self.pid();
        let mut all = process::descendants(pid);
        all.push(pid);
        for pid in &all {
            process::signal(*pid, Signal::KILL);
        }
        assert!(process::left_over(all, STARTED_WITHIN).is_empty());
        fs::remove_file(self.data().join("postmaster.pid")).unwrap();
        self.guard.take().unwrap().wait().unwrap();
    }

    /// Stops the server in an orderly way, and closes all connections.
    pub fn stop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            guard.wait().unwrap();
        }
    }

    /// Adds text to a configuration file, effective from the next start.
    pub fn configure(&self, file: &str, text: &str) {
        let path = self.data().join(file);
        let before = fs::read_to_string(&path).unwrap_or_default();
        self.keep(file, &format!("{text}\n{before}"));
    }

    /// Writes a file into the data folder, readable by the server only.
    pub fn keep(&self, file: &str, text: &str) {
        let path = self.data().join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        self.hand_over(&path);
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a new schema. Returns the address with it.
    pub async fn schema(&self) -> String {
        let name = format!("schema_{}", self.schemas.fetch_add(1, Relaxed));
        self.sql(&format!("CREATE SCHEMA {name}")).await;
        format!("{}?options=-c%20search_path%3D{name}", self.url())
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        format!("postgres://tollhouse@127.0.0.1:{}/postgres", self.port)
    }

    /// Executes SQL.
    pub async fn sql(&self, text: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(text).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Returns the number that a query yields; none if the server does not answer.
    pub async fn count(&self, question: &str) -> Option<i64> {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.ok()?;
        let connection = tokio::spawn(connection);
        let answer = client.query_one(question, &[]).await.ok()?.try_get(0).ok();
        drop(client);
        _ = connection.await;
        answer
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn hand_over(&self, path: &Path) {
        if getuid().is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn about(&self) -> Option<String> {
        fs::read_to_string(self.data().join("postmaster.pid")).ok()
    }

    fn pid(&self) -> i32 {
        self.about().unwrap().lines().next().unwrap().trim().parse().unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the path of a program in the newest installed version.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin").join(name));
    let newest = versions.filter(|path| path.exists()).max_by_key(|path| version(path));
    newest.expect("no PostgreSQL in /usr/lib/postgresql: `cargo xtask test` installs Debian's")
}

fn version(path: &Path) -> Option<u32> {
    path.iter().rev().nth(2)?.to_str()?.parse().ok()
}
