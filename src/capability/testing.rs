//! Test helpers shared with the readiness check: servers, names, a store.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

mod name_server;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use axum::{Router, serve::Listener};
use futures_util::future::BoxFuture;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::{TlsAcceptor, rustls, server::TlsStream};
use tollhouse_store::{Batch, Durability, Store, StoreError, memory::MemoryStore, test_wrappers::StoreWrapper};

pub use self::name_server::NameServer;
use super::guard::Lookup;

/// Serves `router` on a loopback port until the test's runtime ends.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Serves `router` over TLS, with HTTP/2 for clients that support it. Also returns the root certificate for `names`, as
/// PEM.
pub async fn serve_tls(router: Router, names: &[&str]) -> (SocketAddr, Vec<u8>) {
    let (mut config, root) = certified(names);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
    tokio::spawn(async move { axum::serve(tls, router).await });
    (address, root)
}

/// Returns a TLS server configuration for `names` and its root certificate, as PEM.
pub fn certified(names: &[&str]) -> (rustls::ServerConfig, Vec<u8>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (config, made.cert.pem().into_bytes())
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, from)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A resolver that knows only these names.
pub struct FixedNames(HashMap<String, Vec<IpAddr>>);

impl FixedNames {
    /// Creates a resolver with these names and addresses.
    pub fn new(names: &[(&str, &[&str])]) -> Arc<Self> {
        let parse = |(name, addresses): &(&str, &[&str])| ((*name).to_owned(), addresses.iter().map(|one| one.parse().unwrap()).collect());
        Arc::new(Self(names.iter().map(parse).collect()))
    }
}

impl Lookup for FixedNames {
    fn lookup(&self, _: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.0.get(&name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        Box::pin(std::future::ready(found))
    }
}

/// An in-memory store in which each commit needs a permit.
pub struct StuckStore {
    inner: MemoryStore,
    /// One permit for each commit that may proceed.
    pub permits: Semaphore,
}

impl StuckStore {
    /// Creates a store without permits.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), permits: Semaphore::new(0) })
    }
}

#[async_trait]
impl StoreWrapper for StuckStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.permits.acquire().await.expect("it is never closed").forget();
        self.inner.apply(batch, durability).await
    }
}

/// Lets the other tasks of a single-threaded runtime run as far as they can.
pub async fn settled() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
