//! The HTTP/1.1 client of the guard, over metered connections to the addresses from a [`Resolver`].

use std::{io, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::time::timeout;
use tokio_rustls::rustls::{
    self, ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneSyncService};

use super::{
    error::GuardError,
    limits::{BUFFER_BYTES, CONNECT_WALL, HEADERS, IDLE_CONNECTIONS, IDLE_FOR},
    meter::MeteredConnection,
    resolve::Resolver,
};

pub(super) type GuardedClient = legacy::Client<Connector, Full<Bytes>>;
pub(super) type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<MeteredConnection>>, BoxError>;

/// Returns the system's root certificates and the additional ones in PEM.
pub(super) fn roots(further: &[Vec<u8>]) -> Result<Arc<RootCertStore>, GuardError> {
    let mut roots = RootCertStore::empty();
    for pem in further {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
    }
    let system = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(system.certs);
    if added == 0 {
        tracing::warn!(errors = ?system.errors, "the system has no root certificates, so https to public hosts will fail");
    }
    Ok(Arc::new(roots))
}

pub(super) fn client(roots: &Arc<RootCertStore>, resolver: Resolver) -> Result<GuardedClient, GuardError> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // This time is divided among the addresses of a name.
    tcp.set_connect_timeout(Some(CONNECT_WALL));
    let metered = ServiceExt::<Uri>::map_response(tcp, |stream| TokioIo::new(MeteredConnection::new(stream.into_inner())));
    let https = HttpsConnector::from((metered, tls(Arc::clone(roots))?));
    let connector = service_fn(move |to: Uri| {
        let connected = timeout(CONNECT_WALL, https.clone().oneshot(to));
        async move { connected.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))? }
    });
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_FOR)
        .http1_max_headers(HEADERS)
        .http1_max_buf_size(BUFFER_BYTES)
        .build(BoxCloneSyncService::new(connector));
    Ok(client)
}

fn tls(roots: Arc<RootCertStore>) -> Result<ClientConfig, rustls::Error> {
    let versions = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider())).with_safe_default_protocol_versions()?;
    let mut tls = versions.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}
