//! Helpers for the tests of the command line: a user's shell, the output of commands, and a proxy
//! that records the traffic and can be cut.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::harness::{Host, eventually, tollhouse};

/// Maximum duration of a command that does not follow anything. One that waits for input would
/// never end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A user's shell.
pub struct Shell {
    home: TempDir,
    env: Vec<(String, String)>,
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Shell {
    /// Creates a shell with an empty home folder and without environment variables.
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), env: vec![] }
    }

    /// Creates a shell for this host.
    pub fn at(url: &str) -> Self {
        Self::new().env("TOLLHOUSE_URL", url)
    }

    /// Creates a shell of this host's admin.
    pub fn admin(host: &Host) -> Self {
        Self::at(&host.url).env("TOLLHOUSE_ADMIN_TOKEN", &host.admin)
    }

    /// Creates a shell of a builder with this key.
    pub fn builder(host: &Host, key: &str) -> Self {
        Self::at(&host.url).env("TOLLHOUSE_BUILDER_KEY", key)
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the path of a configuration file.
    pub fn config(&self, name: &str) -> PathBuf {
        self.home.path().join("config/tollhouse").join(name)
    }

    pub fn command(&self, words: &[&str]) -> tokio::process::Command {
        let home = self.home.path();
        let mut command = tollhouse();
        command.args(words).current_dir(home).env("HOME", home).env("XDG_CONFIG_HOME", home.join("config"));
        command.env("XDG_STATE_HOME", home.join("state")).env("TZ", "UTC").envs(self.env.iter().cloned());
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a command with empty standard input.
    pub async fn run(&self, words: &[&str]) -> Ran {
        self.run_in(self.home.path(), words).await
    }

    /// Runs a command in another folder.
    pub async fn run_in(&self, folder: &Path, words: &[&str]) -> Ran {
        let mut command = self.command(words);
        command.current_dir(folder);
        ended(command, words).await
    }

    /// Runs a command with this standard input.
    pub async fn given(&self, input: &str, words: &[&str]) -> Ran {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut command = self.command(words);
        command.stdin(file);
        ended(command, words).await
    }

    /// Runs a command in a folder. Its output is closed before it writes anything.
    pub async fn unread_in(&self, folder: &Path, words: &[&str]) -> Ran {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = self.command(words);
        command.current_dir(folder).stdout(writer);
        ended(command, words).await
    }

    /// Runs a command with `--json` and returns its document.
    pub async fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["--json"]].concat()).await.is(0);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {ran:?}"))
    }

    /// Writes a file into the home folder. Returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// Waits until a call of the endpoint is stored, which happens in the background.
pub async fn call_output(shell: &Shell, slug: &str) {
    eventually("the call is stored", Duration::from_secs(10), async || {
        (!shell.json(&["calls", slug]).await["calls"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
}

async fn ended(mut command: tokio::process::Command, words: &[&str]) -> Ran {
    let output = tokio::time::timeout(ENDS_WITHIN, command.spawn().unwrap().wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("`tollhouse {}` waits for somebody", words.join(" "))).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap_or_else(|| panic!("`tollhouse {}` was killed: {:?}", words.join(" "), output.status));
    Ran { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub fn is(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Asserts the standard output. `…` matches anything within a line; a line with `…` alone
    /// matches any lines.
    #[track_caller]
    pub fn stderr_text(self, requested: &str) -> Self {
        assert!(fits(&self.stdout, requested), "wanted:\n{requested}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts the standard error.
    #[track_caller]
    pub fn warned(self, requested: &str) -> Self {
        assert!(fits(&self.stderr, requested), "wanted:\n{requested}\nstderr:\n{}", self.stderr);
        self
    }
}

/// Returns whether a text matches a pattern, by the rules of [`Ran::stderr_text`].
pub fn fits(text: &str, requested: &str) -> bool {
    let (text, requested): (Vec<_>, Vec<_>) = (text.lines().collect(), requested.trim_matches('\n').lines().collect());
    lines_fit(&text, &requested)
}

fn lines_fit(text: &[&str], requested: &[&str]) -> bool {
    match requested {
        [] => text.is_empty(),
        ["…", rest @ ..] => (0..=text.len()).any(|from| lines_fit(&text[from..], rest)),
        [first, rest @ ..] => !text.is_empty() && line_fits(text[0], first) && lines_fit(&text[1..], rest),
    }
}

fn line_fits(text: &str, requested: &str) -> bool {
    let mut pieces = requested.split('…');
    let Some(mut remaining) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let rest: Vec<_> = pieces.collect();
    for (position, piece) in rest.iter().enumerate() {
        if position + 1 == rest.len() {
            return remaining.ends_with(piece);
        }
        match remaining.find(piece) {
            Some(at) => remaining = &remaining[at + piece.len()..],
            None => return false,
        }
    }
    remaining.is_empty()
}

#[test]
fn a_transcript_fits_what_it_says_and_nothing_else() {
    assert!(fits("a 1 b\nc\n", "a … b\nc") && fits("x\ny\nz\n", "…\nz") && fits("", "") && fits("ab\n", "ab…"));
    assert!(!fits("a 1 b\n", "a … c") && !fits("a\nb\n", "a") && !fits("a\n", "a\nb") && !fits("ab\n", "b") && !fits("ab\n", "a"));
}

/// A proxy between a shell and a host. It records the requests, and can be cut.
pub struct Wire {
    pub url: String,
    requested: Arc<Mutex<Vec<u8>>>,
    cut: watch::Sender<u64>,
    is_down: Arc<AtomicBool>,
}

impl Wire {
    pub async fn to(host: &str) -> Self {
        let host = host.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (request, is_down) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::new(AtomicBool::new(false)));
        let (cut, watched) = watch::channel(0);
        let (noted, down) = (Arc::clone(&request), Arc::clone(&is_down));
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                if !down.load(Ordering::SeqCst) {
                    tokio::spawn(carried(caller, host.clone(), Arc::clone(&noted), watched.clone()));
                }
            }
        });
        Self { url, requested: request, cut, is_down }
    }

    /// Breaks all connections, and accepts no new ones until [`Self::restore`].
    pub fn cut(&self) {
        self.is_down.store(true, Ordering::SeqCst);
        self.cut.send_modify(|count| *count += 1);
    }

    pub fn restore(&self) {
        self.is_down.store(false, Ordering::SeqCst);
    }

    /// Returns everything that was sent to the host.
    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.requested.lock().unwrap()).into_owned()
    }

    /// Returns the requests: method, and path without query.
    pub fn asked(&self) -> Vec<(String, String)> {
        let sent = self.sent();
        let lines = sent.split("\r\n").filter_map(|line| line.strip_suffix(" HTTP/1.1"));
        // After a body, the next request line follows on the same line.
        let of = |line: &str| {
            let (method, path) = line.rsplit_once(' ')?;
            let method = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].into_iter().find(|name| method.ends_with(name))?;
            Some((method.to_owned(), path.split('?').next()?.to_owned()))
        };
        lines.filter_map(of).collect()
    }
}

async fn carried(mut caller: TcpStream, host: String, noted: Arc<Mutex<Vec<u8>>>, mut cut: watch::Receiver<u64>) {
    let Ok(mut host) = TcpStream::connect(host).await else { return };
    cut.mark_unchanged();
    let (mut from_caller, mut from_host) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            _ = cut.changed() => return,
            read = caller.read(&mut from_caller) => {
                let Ok(read @ 1..) = read else { return };
                noted.lock().unwrap().extend_from_slice(&from_caller[..read]);
                if host.write_all(&from_caller[..read]).await.is_err() { return }
            }
            read = host.read(&mut from_host) => {
                let Ok(read @ 1..) = read else { return };
                if caller.write_all(&from_host[..read]).await.is_err() { return }
            }
        }
    }
}
