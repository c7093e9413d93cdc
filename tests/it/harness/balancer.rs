//! A load balancer: Debian's HAProxy on loopback, configured as in the documents.

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

/// The example in the documents for operators.
const SHOWN: &str = include_str!("../../../docs/examples/haproxy.cfg");

/// Path of the program in Debian's package.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Maximum time for its start.
const STARTED_WITHIN: Duration = Duration::from_secs(10);

/// A load balancer for at most three hosts. It ends when this is dropped.
pub struct Balancer {
    folder: TempDir,
    process: Child,
    pub url: String,
}

impl Balancer {
    pub const HOSTS: [&str; 3] = ["one", "two", "three"];

    /// Starts a load balancer for hosts at these addresses, in the order of [`Self::HOSTS`].
    pub fn start(hosts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // HAProxy gets the listening socket as its standard input, so that nobody else can take the
        // port meanwhile.
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
        let in_progress = Instant::now();
        while UnixStream::connect(started.socket()).is_err() {
            assert!(in_progress.elapsed() < STARTED_WITHIN, "HAProxy did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        for (name, url) in Self::HOSTS.iter().zip(hosts) {
            started.moved(name, url);
        }
        started
    }

    /// Sets the current address of a host.
    pub fn moved(&self, name: &str, url: &str) {
        let port = url.rsplit(':').next().unwrap();
        let message = self.command(&format!("set server hosts/{name} addr 127.0.0.1 port {port}"));
        assert!(message.contains("changed") || message.contains("no need to change"), "{message}");
    }

    /// Returns whether it sends calls to a host.
    pub fn sends_to(&self, name: &str) -> bool {
        let servers = self.command("show stat hosts 4 -1");
        let server = servers.lines().find(|line| line.split(',').nth(1) == Some(name)).unwrap_or_else(|| panic!("{servers}"));
        server.split(',').any(|field| field == "UP")
    }

    fn command(&self, command: &str) -> String {
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        writeln!(socket, "{command}").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
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
