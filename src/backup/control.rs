//! The control socket: how the command line asks a host that runs, where its store is locked.
//!
//! It lies in the data folder and is for the host's own user: nothing that can be reached over a network makes a copy of all rows, or
//! moves them, and no password of a database goes over one. Whoever asks sends a line of JSON; what is answered depends on that.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    time::timeout,
};

/// Its name in the data folder.
const NAME: &str = "control";
/// Bytes of a line, at most.
const LINE: u64 = 64 * 1024;
/// Longest that whoever has connected takes to ask.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// What a host is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Asked {
    /// That the contents of files stay as long as the connection is open. Answered by a line once they do.
    Hold,
    /// A dump of the store. Answered by the dump, and the end of the connection; by its end alone where none can be made.
    Copy,
    /// That the store moves to a database. Answered by lines of [`Told`], the last of which says how it ended.
    Migrate {
        /// Its address, with the password.
        to: String,
        /// Its password, where the address has none.
        password: Option<String>,
    },
}

/// What a host tells of what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Told {
    /// How far it is, in words.
    Step(String),
    /// It is done, in words.
    Done(String),
    /// Why it is not.
    Failed(String),
}

/// A path to the socket that is short enough for one, however long that of the folder is. It is good for as long as the folder is open.
fn path_in(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()).into()
}

/// Listens in a data folder, whose store is locked by this process. What a host left there that was killed goes.
///
/// # Errors
///
/// A folder in which no socket can be made.
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

/// What the next one asks who may ask, and its connection; `None` for one who may not, or asks for nothing.
///
/// # Errors
///
/// The system's, who may have no descriptors left.
pub async fn asked(stream: UnixStream) -> io::Result<Option<(Asked, UnixStream)>> {
    let asker = stream.peer_cred()?.uid();
    if asker != geteuid().as_raw() && asker != 0 {
        return Ok(None);
    }
    let mut stream = stream;
    let mut line = Vec::new();
    // Byte by byte: nothing behind the line is taken.
    let read = timeout(ASKED_WITHIN, async {
        while line.len() as u64 <= LINE {
            match stream.read_u8().await {
                Ok(b'\n') => return Ok(true),
                Ok(byte) => line.push(byte),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    });
    match read.await {
        Ok(Ok(true)) => Ok(serde_json::from_slice(&line).ok().map(|asked| (asked, stream))),
        Ok(Ok(false)) | Err(_) => Ok(None),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Ok(Err(error)) => Err(error),
    }
}

/// Sends a line.
///
/// # Errors
///
/// Whoever is to read it has gone.
pub async fn tell(stream: &mut UnixStream, told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Asks the host that has the store in a data folder; `None` where none runs that listens.
///
/// # Errors
///
/// A socket that may not be opened.
pub async fn ask(data: &Path, asked: &Asked) -> io::Result<Option<BufReader<UnixStream>>> {
    let Ok(folder) = File::open(data) else { return Ok(None) };
    let mut stream = match UnixStream::connect(path_in(&folder)).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut line = serde_json::to_vec(asked)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(Some(BufReader::new(stream)))
}

/// The next that a host tells; `None` once it tells no more.
///
/// # Errors
///
/// The connection's; a line that does not read.
pub async fn told(from: &mut BufReader<UnixStream>) -> io::Result<Option<Told>> {
    let mut line = Vec::new();
    if from.take(LINE).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
