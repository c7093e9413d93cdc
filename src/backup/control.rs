//! The control socket: how the command line talks to a running host, which has its store locked.
//!
//! The socket is in the data folder, and only the host's own user can open it. So nobody can copy or move all rows over a
//! network, and no database password is sent over a network. The client sends one line of JSON; the form of the answer
//! depends on the request.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_objects::SampleReport;

/// Name of the socket in the data folder.
const NAME: &str = "control";
/// Maximum length of a line, in bytes.
const LINE: u64 = 64 * 1024;
/// How long a client may take to send its request after connecting.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlRequest {
    /// Keep all objects while the connection is open. The host answers with a line once they are safe.
    Hold,
    /// Send a dump of the store. The host answers with the dump and closes the connection, or only closes it if no dump
    /// can be made.
    Copy,
    /// Move the store to a database. The host answers with lines of [`ControlEvent`], of which the last contains the outcome.
    Migrate {
        /// The database's address, with or without the password.
        to: String,
        /// The password, if the address has none.
        password: Option<String>,
    },
    /// Count the unresolved settlements. The host answers with a line of [`Unresolved`].
    Unresolved,
    /// Report the objects that the host could not find. The host answers with a line of [`SampledObjects`].
    Objects,
}

/// The result of looking for a sample of the objects that rows name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledObjects {
    /// Number of objects in the sample.
    pub checked: usize,
    /// Number of those that are missing.
    pub missing: usize,
    /// The content of a missing one, in words.
    pub example: Option<String>,
}

impl From<&SampleReport> for SampledObjects {
    fn from(report: &SampleReport) -> Self {
        let example = report.missing.first().map(|object| object.what.clone());
        Self { checked: report.checked, missing: report.missing.len(), example }
    }
}

/// Maximum number of unresolved settlements to count.
pub const MAX_UNRESOLVED: usize = 1_000;

/// The unresolved settlements of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unresolved {
    /// Their number, or `max` if there are more.
    pub count: usize,
    /// The maximum that the host counts.
    pub max: usize,
    /// When the oldest of the counted ones began.
    pub oldest: Option<Timestamp>,
}

/// A progress report of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlEvent {
    /// The current step, in words.
    Step(String),
    /// The operation succeeded, in words.
    Done(String),
    /// Why the operation failed.
    Failed(String),
}

/// Returns a path to the socket that fits into a socket address, however long the folder's path is. It is valid while
/// the folder is open.
fn path_in(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()).into()
}

/// Listens in a data folder whose store this process has locked. Removes a socket left by a host that was killed.
pub fn listen(data: &Path) -> io::Result<UnixListener> {
    let folder = File::open(data)?;
    let path = path_in(&folder);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Reads the request from a connection. Returns `None` if the client is not allowed or requests nothing.
///
/// # Errors
///
/// Errors of the system, such as no free file descriptors.
#[boxed]
pub async fn read_request(stream: UnixStream) -> io::Result<Option<(ControlRequest, UnixStream)>> {
    let client = stream.peer_cred()?.uid();
    if client != geteuid().as_raw() && client != 0 {
        return Ok(None);
    }
    // The client sends nothing after this line, so the reader has nothing else in its buffer.
    let mut from = BufReader::new(stream);
    match timeout(REQUEST_TIMEOUT, read_event(&mut from)).await {
        Ok(Ok(request)) => Ok(request.map(|request| (request, from.into_inner()))),
        Ok(Err(error)) if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => Err(error),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// Sends a line.
pub async fn write_event(stream: &mut UnixStream, event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Sends a request to the host that uses a data folder. Returns `None` if no host is listening there.
#[boxed]
pub async fn connect(data: &Path, request: &ControlRequest) -> io::Result<Option<BufReader<UnixStream>>> {
    let Ok(folder) = File::open(data) else { return Ok(None) };
    let mut stream = match UnixStream::connect(path_in(&folder)).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => return Err(error),
    };
    write_event(&mut stream, request).await?;
    Ok(Some(BufReader::new(stream)))
}

/// Asks the host that uses a data folder for its unresolved settlements. Returns `None` if no host listens there, or
/// if it does not answer.
#[boxed]
pub async fn ask_unresolved(data: &Path) -> io::Result<Option<Unresolved>> {
    ask(data, &ControlRequest::Unresolved).await
}

/// Asks the host that uses a data folder which objects it could not find. Returns `None` if no host listens there, or if it
/// does not answer.
#[boxed]
pub async fn ask_objects(data: &Path) -> io::Result<Option<SampledObjects>> {
    ask(data, &ControlRequest::Objects).await
}

async fn ask<T: DeserializeOwned>(data: &Path, request: &ControlRequest) -> io::Result<Option<T>> {
    let answer = timeout(REQUEST_TIMEOUT, async {
        let Some(mut from) = connect(data, request).await? else { return Ok(None) };
        read_event(&mut from).await
    });
    answer.await.unwrap_or(Ok(None))
}

/// Reads the next line of a host, or `None` at the end.
pub async fn read_event<T: DeserializeOwned>(from: &mut BufReader<UnixStream>) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    if from.take(LINE).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
