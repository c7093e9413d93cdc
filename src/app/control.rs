//! What a host does that is asked through its control socket.

use std::{
    io::{self, BufWriter},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, net::UnixStream};

use super::rooms::Rooms;
use crate::backup::{
    BackupError, Header, Ids,
    control::{self, Asked, Told},
    write_dump,
};

/// Longest that whoever takes a copy lets the host wait: it keeps its journal meanwhile.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// Bytes that are sent at once.
const SENT: usize = 256 * 1024;

/// Listens for as long as the host lives. Where that is not possible, all else goes on.
pub(super) fn start(rooms: &Arc<Rooms>, data: &Path) {
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
            tokio::spawn(async move {
                if let Err(error) = answer(&rooms, stream).await {
                    tracing::warn!(error = ?error, "what was asked through the control socket was not done to its end");
                }
            });
        }
    });
}

async fn answer(rooms: &Arc<Rooms>, stream: UnixStream) -> Result<(), BackupError> {
    let gone = |source| BackupError::Io { path: "control".into(), source };
    let Some((asked, mut stream)) = control::asked(stream).await.map_err(gone)? else { return Ok(()) };
    match asked {
        Asked::Hold => {
            let _stays = rooms.objects.all_stays();
            control::tell(&mut stream, &Told::Done("held".to_owned())).await.map_err(gone)?;
            // Until whoever asked has gone.
            _ = stream.read_u8().await;
            Ok(())
        }
        Asked::Copy => {
            tracing::info!("a copy of the store is handed out");
            let to = blocking(stream).map_err(gone)?;
            let keys = Ids { receipt: Some(rooms.signer.kid().to_owned()), master: Some(rooms.secrets.key_id()) };
            write_dump(&*rooms.store, &header(rooms, keys), BufWriter::with_capacity(SENT, to)).await
        }
        Asked::Migrate { .. } => control::tell(&mut stream, &Told::Failed("not yet".to_owned())).await.map_err(gone),
    }
}

fn header(rooms: &Rooms, keys: Ids) -> Header {
    let backend = rooms.store.sizes().backend.to_owned();
    Header { version: env!("CARGO_PKG_VERSION").to_owned(), at: rooms.clock.now(), backend, keys }
}

/// The same connection for a thread that waits.
fn blocking(stream: UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TAKEN_WITHIN))?;
    Ok(stream)
}
