//! Requests to a running host through its control socket.

use std::{
    io::{self, BufWriter},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, net::UnixStream, sync::mpsc};
pub use tollhouse_backup::control::{Unresolved, ask_unresolved};
use tollhouse_backup::{
    BackupError, Header, Ids,
    control::{self, Asked, Told},
    write_dump,
};
use tollhouse_base::causes::in_full;
use tollhouse_store::movable::MovableStore;

use super::{moving, rooms::Rooms};

/// Maximum time to wait for a slow receiver of a copy. The host keeps its journal meanwhile.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// Maximum unread progress messages.
const STEPS: usize = 16;
/// Maximum number of unresolved settlements to count.
const MOST_UNRESOLVED: usize = 1_000;
/// Bytes per write.
const SENT: usize = 256 * 1024;

/// Listens on the control socket as long as the host runs. If that is impossible, the host runs
/// without it.
pub(super) fn start(rooms: &Arc<Rooms>, store: Arc<MovableStore>, data: &Path) {
    let listener = match control::listen(data) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "there is no control socket: backups of this host are made once it is stopped"),
    };
    let rooms = Arc::downgrade(rooms);
    tokio::spawn(async move {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the control socket could not be answered");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let Some(rooms) = rooms.upgrade() else { return };
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                if let Err(error) = answer(&rooms, store, stream).await {
                    tracing::warn!(error = ?error, "what was asked through the control socket was not done to its end");
                }
            });
        }
    });
}

async fn answer(rooms: &Rooms, store: Arc<MovableStore>, stream: UnixStream) -> Result<(), BackupError> {
    let gone = |source| BackupError::Io { path: "control".into(), source };
    let Some((asked, mut stream)) = control::asked(stream).await.map_err(gone)? else { return Ok(()) };
    match asked {
        Asked::Hold => {
            let _stays = rooms.objects.all_stays();
            control::tell(&mut stream, &Told::Done("held".to_owned())).await.map_err(gone)?;
            // Wait until the client disconnects.
            _ = stream.read_u8().await;
            Ok(())
        }
        Asked::Copy => {
            tracing::info!("a copy of the store is handed out");
            let to = blocking(stream).map_err(gone)?;
            let keys = Ids { receipt: Some(rooms.signer.kid().to_owned()), master: Some(rooms.secrets.key_id()) };
            write_dump(&*rooms.store, &Header::of(&*rooms.store, rooms.clock.now(), keys), BufWriter::with_capacity(SENT, to)).await
        }
        Asked::Unresolved => {
            let (count, oldest) = rooms.gate.summarize_unresolved(MOST_UNRESOLVED).await?;
            control::tell(&mut stream, &Unresolved { count, most: MOST_UNRESOLVED, oldest }).await.map_err(gone)
        }
        Asked::Migrate { to, password } => move_to(store, stream, to, password).await.map_err(gone),
    }
}

/// Moves the store, and reports progress. If the client disconnects before the end, the store
/// stays.
async fn move_to(store: Arc<MovableStore>, mut stream: UnixStream, to: String, password: Option<String>) -> io::Result<()> {
    let (tell, mut told) = mpsc::channel(STEPS);
    // A separate task, so that its last steps are not cut off.
    let moving = tokio::spawn(async move { moving::run(&store, &to, password.as_deref(), tell).await });
    while let Some(step) = told.recv().await {
        control::tell(&mut stream, &Told::Step(step)).await?;
    }
    let ended = moving.await.map_err(io::Error::other)?;
    let told = match ended {
        Ok(done) => {
            tracing::warn!("{done}");
            Told::Done(done)
        }
        Err(error) => {
            let said = in_full(&error);
            tracing::error!(error = said, "the store did not move, and is where it was");
            Told::Failed(said)
        }
    };
    control::tell(&mut stream, &told).await
}

/// Converts the connection for a blocking thread.
fn blocking(stream: UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TAKEN_WITHIN))?;
    Ok(stream)
}
