//! The listener: accepts connections within the limits, and drains them at shutdown.

mod chunks;
mod conn_state;
mod connection;
mod frames;
mod incoming;
mod outgoing;

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::task::TaskTracker;
use tollhouse_base::id::RequestId;
use tollhouse_telemetry::counters::{CONNECTIONS_ACCEPTED, CONNECTIONS_REFUSED};

use self::connection::Protocols;
use super::{
    api_error::{ApiError, REQUEST},
    error_codes::Code,
    front_services::FrontServices,
    middleware::{Fronts, framed, framed_routes},
    quota::{QuotaFull, QuotaShare},
};

/// Maximum bytes of a connection that the system keeps unsent. The host keeps and counts the rest.
const UNSENT_BYTES: u32 = 64 << 10;
/// Maximum bytes of a connection that the system keeps until they are acknowledged. Linux doubles it for its own data.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Maximum connections that get a "no room" response at once. Further ones are closed.
const REFUSALS: usize = 64;
/// Maximum time for such a response.
const REFUSAL: Duration = Duration::from_secs(1);

/// Pause after the system fails to accept a connection, for example when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum interval between log lines about such failures.
const LOGGED: Duration = Duration::from_secs(10);

/// Serves all front ends on `listener` until shutdown begins and all connections have ended.
pub async fn serve(listener: TcpListener, shared: Arc<FrontServices>, fronts: Fronts) {
    let acceptor = Acceptor {
        protocols: Arc::new(Protocols::new(&shared.intake)),
        refusals: Arc::new(Semaphore::new(REFUSALS)),
        connections: TaskTracker::new(),
    };
    let service = framed_routes(Arc::clone(&shared), fronts);
    if let Err(error) = limit_send_buffers(&listener) {
        tracing::warn!(%error, "cannot limit the send buffers of connections");
    }
    let mut logged = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.shutdown.begins() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                recover(&error, &mut logged).await;
                continue;
            }
        };
        // Small responses must not wait for the client's acknowledgement.
        _ = stream.set_nodelay(true);
        let trusted = shared.proxies.trusts(peer.ip());
        if !trusted && !shared.limits.admits_connection(peer.ip()) {
            // A response would cost more than the connection.
            CONNECTIONS_REFUSED.count(["address"]);
            continue;
        }
        let mut share = shared.intake.open.share(peer.ip());
        match if trusted { share.take_of_all(1) } else { share.take(1) } {
            Ok(()) => {
                CONNECTIONS_ACCEPTED.count([]);
                acceptor.accept(stream, peer, share, service.clone(), Arc::clone(&shared));
            }
            Err(full) => acceptor.refuse(stream, full),
        }
    }
    drop(listener);
    acceptor.connections.close();
    acceptor.connections.wait().await;
}

/// Limits the memory of the system for answers that clients do not read. Accepted connections inherit the limits.
fn limit_send_buffers(listener: &TcpListener) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// Returns at once if only one connection failed, and after a pause if the system failed.
async fn recover(error: &io::Error, logged: &mut Option<Instant>) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    if logged.is_none_or(|at: Instant| at.elapsed() > LOGGED) {
        tracing::error!(%error, "cannot accept connections");
        *logged = Some(Instant::now());
    }
    tokio::time::sleep(PAUSE).await;
}

struct Acceptor {
    protocols: Arc<Protocols>,
    refusals: Arc<Semaphore>,
    connections: TaskTracker,
}

impl Acceptor {
    fn accept(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        share: QuotaShare,
        service: impl connection::ConnectionService,
        shared: Arc<FrontServices>,
    ) {
        let protocols = Arc::clone(&self.protocols);
        self.connections.spawn(async move {
            protocols.serve(stream, peer, service, &shared).await;
            drop(share);
        });
    }

    /// Sends the reason to the client, if there is room for that.
    fn refuse(&self, stream: TcpStream, full: QuotaFull) {
        let limit = match full {
            QuotaFull::All(_) => "all",
            QuotaFull::Address(_) => "address",
        };
        CONNECTIONS_REFUSED.count([limit]);
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let protocols = Arc::clone(&self.protocols);
        tokio::spawn(async move {
            _ = tokio::time::timeout(REFUSAL, protocols.answer(stream, || crowded(full))).await;
            drop(permit);
        });
    }
}

fn crowded(full: QuotaFull) -> Response {
    let error = ApiError::new(Code::Busy, full.reached("connections")).hint("Reuse open connections, or close some").retry_after(1);
    let id = RequestId::generate();
    let response = REQUEST.sync_scope(id.clone(), || error.into_response());
    let mut response = framed(&id, response);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests;
