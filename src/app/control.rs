//! Requests to a running host through its control socket.

use std::{
    io::{self, BufWriter},
    sync::Arc,
    time::Duration,
};

use tokio::{io::AsyncReadExt as _, net::UnixStream, sync::mpsc};
pub use tollhouse_backup::control::{SampledObjects, Unresolved, ask_unresolved};
use tollhouse_backup::{
    BackupError, Header, Ids,
    control::{self, ControlEvent, ControlRequest, MAX_UNRESOLVED},
    write_dump,
};
use tollhouse_base::error_chain::full_message;
use tollhouse_config::Home;
use tollhouse_money::summarize_unresolved;
use tollhouse_objects::BucketLocation;
use tollhouse_store::live_migration::MigratableStore;

use super::{migration, services::Services};

/// Maximum time to wait for a slow receiver of a copy. The host keeps its journal meanwhile.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum unread progress messages.
const MAX_PENDING_STEPS: usize = 16;
/// Bytes per write.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;

/// Listens on the control socket as long as the host runs. If that is impossible, the host runs
/// without it.
pub(super) fn start(services: &Arc<Services>, store: Arc<MigratableStore>, home: &Home) {
    let listener = match control::listen(&home.data) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "the control socket cannot be opened: stop this host to back it up"),
    };
    let (services, objects) = (Arc::downgrade(services), home.objects.clone());
    tokio::spawn(async move {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the control socket failed");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let Some(services) = services.upgrade() else { return };
            let (store, objects) = (Arc::clone(&store), objects.clone());
            tokio::spawn(async move {
                if let Err(error) = answer(&services, store, objects, stream).await {
                    tracing::warn!(error = ?error, "a request through the control socket failed");
                }
            });
        }
    });
}

async fn answer(services: &Services, store: Arc<MigratableStore>, objects: BucketLocation, stream: UnixStream) -> Result<(), BackupError> {
    let removed = |source| BackupError::Io { path: "control".into(), source };
    let Some((request, mut stream)) = control::read_request(stream).await.map_err(removed)? else { return Ok(()) };
    match request {
        ControlRequest::Hold => {
            let _stays = services.objects.pause_deletions();
            control::write_event(&mut stream, &ControlEvent::Done("held".to_owned())).await.map_err(removed)?;
            // Wait until the client disconnects.
            _ = stream.read_u8().await;
            Ok(())
        }
        ControlRequest::Copy => {
            tracing::info!("sending a copy of the store");
            let to = blocking(stream).map_err(removed)?;
            let keys = Ids { receipt: Some(services.signer.kid().to_owned()), master: Some(services.secrets.key_id()) };
            write_dump(
                &*services.store,
                &Header::of(&*services.store, services.clock.now(), keys),
                BufWriter::with_capacity(WRITE_BUFFER_BYTES, to),
            )
            .await
        }
        ControlRequest::Unresolved => {
            let (count, oldest) = summarize_unresolved(&*services.store, MAX_UNRESOLVED).await?;
            control::write_event(&mut stream, &Unresolved { count, max: MAX_UNRESOLVED, oldest }).await.map_err(removed)
        }
        ControlRequest::Objects => control::write_event(&mut stream, &services.object_check.last()).await.map_err(removed),
        ControlRequest::Migrate { to, password } => migrate_to(store, objects, stream, to, password).await.map_err(removed),
    }
}

/// Moves the store, and reports progress. If the client disconnects before the end, the store
/// stays.
async fn migrate_to(
    store: Arc<MigratableStore>,
    objects: BucketLocation,
    mut stream: UnixStream,
    to: String,
    password: Option<String>,
) -> io::Result<()> {
    let (report, mut reported) = mpsc::channel(MAX_PENDING_STEPS);
    // A separate task, so that its last steps are not cut off.
    let moving = tokio::spawn(async move { migration::run(&store, &objects, &to, password.as_deref(), report).await });
    while let Some(step) = reported.recv().await {
        control::write_event(&mut stream, &ControlEvent::Step(step)).await?;
    }
    let ended = moving.await.map_err(io::Error::other)?;
    let reported = match ended {
        Ok(done) => {
            tracing::warn!("{done}");
            ControlEvent::Done(done)
        }
        Err(error) => {
            let message = full_message(&error);
            tracing::error!(error = message, "the migration failed; the store stays where it was");
            ControlEvent::Failed(message)
        }
    };
    control::write_event(&mut stream, &reported).await
}

/// Converts the connection for a blocking thread.
fn blocking(stream: UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(stream)
}
