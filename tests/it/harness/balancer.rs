//! A balancer: Debian's HAProxy, set up as the documents have it, on loopback.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// What the documents show to operators.
const SHOWN: &str = include_str!("../../../docs/examples/haproxy.cfg");

/// How long it may take to start.
const STARTED_WITHIN: Duration = Duration::from_secs(10);

/// A balancer before at most three hosts. It ends when it is dropped.
pub struct Balancer {
    folder: TempDir,
    process: Child,
    pub url: String,
}

impl Balancer {
    pub const HOSTS: [&str; 3] = ["one", "two", "three"];

    /// Before hosts at these addresses, in the order of [`Self::HOSTS`].
    pub fn start(hosts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let socket = folder.path().join("socket").display().to_string();
        let file = folder.path().join("haproxy.cfg");
        let set = put(
            put(SHOWN, "bind 127.0.0.1:8400", &format!("bind {at}")),
            "stats socket /run/tollhouse-haproxy.sock",
            &format!("stats socket {socket}"),
        );
        fs::write(&file, set).unwrap();
        let mut command = Command::new(program());
        command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self { process: command.spawn().unwrap(), folder, url: format!("http://{at}") };
        let begun = Instant::now();
        while UnixStream::connect(started.socket()).is_err() {
            assert!(begun.elapsed() < STARTED_WITHIN, "HAProxy did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        for (name, url) in Self::HOSTS.iter().zip(hosts) {
            started.moved(name, url);
        }
        started
    }

    /// Tells it where one of the hosts is now.
    pub fn moved(&self, name: &str, url: &str) {
        let port = url.rsplit(':').next().unwrap();
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        writeln!(socket, "set server hosts/{name} addr 127.0.0.1 port {port}").unwrap();
        let mut said = String::new();
        socket.read_to_string(&mut said).unwrap();
        assert!(said.contains("changed") || said.contains("no need to change"), "{said}");
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// `text` with one thing in another's place.
fn put(text: impl AsRef<str>, before: &str, after: &str) -> String {
    assert!(text.as_ref().contains(before), "the example has no `{before}`");
    text.as_ref().replace(before, after)
}

fn program() -> PathBuf {
    let found = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"].into_iter().map(PathBuf::from).find(|path| path.exists());
    found.expect("no HAProxy: `cargo xtask test` installs Debian's")
}
