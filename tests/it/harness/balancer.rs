//! A balancer: Debian's HAProxy, set up as the documents have it, on loopback.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// What the documents show to operators.
const SHOWN: &str = include_str!("../../../docs/examples/haproxy.cfg");

/// Where Debian's package puts it.
const PROGRAM: &str = "/usr/sbin/haproxy";

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
        // The port stays ours from here on: HAProxy is given what listens as its standard input.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (file, socket) = (folder.path().join("haproxy.cfg"), folder.path().join("socket"));
        let mut set = SHOWN.to_owned();
        for (shown, here) in [("127.0.0.1:8400", "fd@0"), ("/run/tollhouse-haproxy.sock mode", &format!("{} mode", socket.display()))] {
            assert!(set.contains(shown), "the example has no `{shown}`");
            set = set.replace(shown, here);
        }
        fs::write(&file, set).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("-db").arg("-f").arg(&file).stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("no HAProxy: `cargo xtask test` installs Debian's");
        let started = Self { process, folder, url };
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
        let said = self.told(&format!("set server hosts/{name} addr 127.0.0.1 port {port}"));
        assert!(said.contains("changed") || said.contains("no need to change"), "{said}");
    }

    /// Whether it sends calls to one of the hosts.
    pub fn sends_to(&self, name: &str) -> bool {
        let servers = self.told("show stat hosts 4 -1");
        let server = servers.lines().find(|line| line.split(',').nth(1) == Some(name)).unwrap_or_else(|| panic!("{servers}"));
        server.split(',').any(|field| field == "UP")
    }

    fn told(&self, command: &str) -> String {
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        writeln!(socket, "{command}").unwrap();
        let mut said = String::new();
        socket.read_to_string(&mut said).unwrap();
        said
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
