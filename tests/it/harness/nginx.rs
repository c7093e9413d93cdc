//! A reverse proxy: Debian's nginx, on loopback.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::signal;

/// The path in Debian's package.
const PROGRAM: &str = "/usr/sbin/nginx";

/// Maximum time to start.
const STARTED_WITHIN: Duration = Duration::from_secs(10);

/// A port for a proxy, known before the host that it forwards to.
pub struct Place {
    listener: TcpListener,
    pub url: String,
}

/// A proxy for one host. Dropping it stops it.
pub struct Nginx {
    _folder: TempDir,
    process: Child,
}

impl Place {
    pub fn take() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Starts a proxy that forwards everything to `host`, with `settings` in its `server` block and nginx's defaults
    /// otherwise.
    pub fn serve(&self, host: &str, settings: &str) -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let address = self.listener.local_addr().unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|of| format!("{of}_temp_path {of};")).join(" ");
        let set = format!(
            "daemon off; pid pid; error_log stderr; events {{}}
            http {{ access_log off; {temporary} server {{ listen {address}; {settings} location / {{ proxy_pass {host}; }} }} }}"
        );
        fs::write(folder.path().join("nginx.conf"), set).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
        // Keep the port: nginx inherits the listening socket, as in an upgrade of its binary.
        let listener = OwnedFd::from(self.listener.try_clone().unwrap());
        command.env("NGINX", "0;").stdin(listener).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("no nginx: `cargo xtask test` installs Debian's");
        let started = Instant::now();
        while !folder.path().join("pid").exists() {
            assert!(started.elapsed() < STARTED_WITHIN && process.try_wait().unwrap().is_none(), "nginx did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(TcpStream::connect(address).unwrap());
        Nginx { _folder: folder, process }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM also ends its worker processes.
        signal(i32::try_from(self.process.id()).unwrap(), Signal::TERM);
        _ = self.process.wait();
    }
}
