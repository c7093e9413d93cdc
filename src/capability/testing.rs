//! What the tests of this folder and of the readiness check share: servers, names, a store.

mod name_server;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use axum::{Router, serve::Listener};
use futures_util::future::BoxFuture;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::{TlsAcceptor, rustls, server::TlsStream};

pub(crate) use self::name_server::NameServer;
use super::guard::Lookup;
use crate::store::{Batch, Direction, Durability, KeyRange, Pairs, Space, Store, StoreError, around::Around, memory::MemoryStore};

/// Serves `router` on a loopback port until the test's runtime ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The same over TLS, by HTTP/2 for who speaks it; also gives the root certificate, as PEM, that vouches for `names`.
pub(crate) async fn serve_tls(router: Router, names: &[&str]) -> (SocketAddr, Vec<u8>) {
    let (mut config, root) = certified(names);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Tls { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
    tokio::spawn(async move { axum::serve(tls, router).await });
    (address, root)
}

/// A server of `names`, and the root certificate, as PEM, that vouches for them.
pub(crate) fn certified(names: &[&str]) -> (rustls::ServerConfig, Vec<u8>) {
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

/// A resolver that knows these names and no others.
pub(crate) struct Names(HashMap<String, Vec<IpAddr>>);

impl Names {
    pub(crate) fn new(names: &[(&str, &[&str])]) -> Arc<Self> {
        let parse = |(name, addresses): &(&str, &[&str])| ((*name).to_owned(), addresses.iter().map(|one| one.parse().unwrap()).collect());
        Arc::new(Self(names.iter().map(parse).collect()))
    }
}

impl Lookup for Names {
    fn lookup(&self, _: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.0.get(&name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        Box::pin(std::future::ready(found))
    }
}

/// A store in memory that lets others go first before it answers, so that what is read is often
/// not what is there when a commit checks it.
#[derive(Default)]
pub(crate) struct Yielding {
    inner: MemoryStore,
    scanned: AtomicUsize,
    scans: AtomicUsize,
}

impl Yielding {
    /// Bytes of keys and values that scans gave so far.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned.load(Ordering::Relaxed)
    }

    /// How many scans there were so far.
    pub(crate) fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Around for Yielding {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.inner.get(space, key).await;
        tokio::task::yield_now().await;
        found
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        let found = self.inner.scan(space, range, limit, direction).await;
        let bytes = found.iter().flatten().map(|(key, value)| key.len() + value.len()).sum();
        self.scanned.fetch_add(bytes, Ordering::Relaxed);
        self.scans.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        found
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        tokio::task::yield_now().await;
        self.inner.apply(batch, durability).await
    }
}

/// A store in memory that takes a commit for each permit it is given.
pub(crate) struct Stuck {
    inner: MemoryStore,
    pub(crate) go: Semaphore,
}

impl Stuck {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), go: Semaphore::new(0) })
    }
}

#[async_trait]
impl Around for Stuck {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.go.acquire().await.expect("it is never closed").forget();
        self.inner.apply(batch, durability).await
    }
}

/// Lets the other tasks of a runtime of one thread go on as far as they can.
pub(crate) async fn settled() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
