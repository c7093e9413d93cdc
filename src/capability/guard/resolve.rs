//! Where the client gets addresses from: a name is resolved once, and what was checked is what is dialled.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tollhouse_fair::HOST;
use tower::Service;

use super::addresses;

/// Resolves a name. The host's own resolver unless a test brings another.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name, for `owner`. It bounds itself, in how long it takes and in how many are under way.
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

tokio::task_local! {
    /// Whose request it is that needs a connection: the client asks for a name within that request, and does not say for whom.
    pub(super) static OWNER: Box<str>;
}

/// Why a name was not resolved to an address to dial. Comes back out of the client's error chain.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The address itself is not told: a resolver inside a network knows names that nobody outside does.
    #[error("`{name}` resolves to an address that is not public: {why}")]
    NotPublic { name: String, why: &'static str },
    #[error("`{0}` did not resolve in time")]
    Slow(String),
    #[error("`{0}` does not resolve")]
    Unknown(String),
}

/// What the client asks for addresses.
#[derive(Clone)]
pub(super) struct Resolver {
    lookup: Arc<dyn Lookup>,
    refusal: fn(IpAddr) -> Option<&'static str>,
}

impl Resolver {
    /// For everybody's names: those with an address that is not public have none.
    pub(super) fn public(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, refusal: addresses::refusal }
    }

    /// For the names that settings exempt.
    pub(super) fn unchecked(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, refusal: |_| None }
    }
}

impl Service<Name> for Resolver {
    /// Port 0 lets the client put the URL's.
    type Response = Box<dyn Iterator<Item = SocketAddr> + Send>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (name, refusal) = (name.as_str().to_owned(), self.refusal);
        let look = |owner: &str| self.lookup.lookup(owner, name.clone());
        let looking = OWNER.try_with(|owner| look(owner)).unwrap_or_else(|_| look(HOST));
        Box::pin(async move {
            let found = match looking.await {
                Ok(found) if !found.is_empty() => found,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(DialError::Slow(name)),
                Ok(_) | Err(_) => return Err(DialError::Unknown(name)),
            };
            if let Some(why) = found.iter().find_map(|address| refusal(*address)) {
                return Err(DialError::NotPublic { name, why });
            }
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as _)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);

    impl Lookup for Failing {
        fn lookup(&self, _: &str, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(std::future::ready(Err(self.0.into())))
        }
    }

    #[tokio::test]
    async fn a_name_that_is_slow_is_told_from_one_that_is_not_there() {
        for (why, told) in
            [(io::ErrorKind::TimedOut, "`slow.dev` did not resolve in time"), (io::ErrorKind::NotFound, "`slow.dev` does not resolve")]
        {
            let asked = Resolver::public(Arc::new(Failing(why))).call("slow.dev".parse().unwrap()).await;
            assert_eq!(asked.err().unwrap().to_string(), told);
        }
    }
}
