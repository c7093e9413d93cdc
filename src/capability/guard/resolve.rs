//! The client's resolver: a name is resolved once, and exactly the checked addresses are dialed.

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

/// Resolves names. Tests can replace the host's own resolver.
pub trait Lookup: Send + Sync + 'static {
    /// Returns all addresses of a name, on behalf of `owner`. It must limit its own duration and concurrency.
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The addresses of the host itself.
pub(super) trait OwnAddresses: Send + Sync + 'static {
    /// Returns whether one of these addresses is among them.
    fn include<'a>(&'a self, found: &'a [IpAddr]) -> BoxFuture<'a, bool>;
}

tokio::task_local! {
    /// The owner of the current request. The client resolves a name within that request but cannot pass the owner
    /// along.
    pub(super) static OWNER: Box<str>;
}

/// Why a name gave no address to dial. It is found again in the client's error chain.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The message omits the address, because a resolver inside a network knows names that are secret outside.
    #[error("`{name}` resolves to an address that is not public: {reason}")]
    NotPublic { name: String, reason: &'static str },
    #[error("`{0}` resolves to an address of this host, which a tool can only ask if its allowed hosts name it")]
    Own(String),
    #[error("`{0}` did not resolve in time")]
    Slow(String),
    #[error("`{0}` does not resolve")]
    Unknown(String),
}

#[derive(Clone)]
pub(super) struct Resolver {
    lookup: Arc<dyn Lookup>,
    refusal: fn(IpAddr) -> Option<&'static str>,
    /// The host whose addresses are refused too.
    own: Option<Arc<dyn OwnAddresses>>,
}

impl Resolver {
    /// Resolves names that anybody may supply. A name with an address that is not public is refused.
    pub(super) fn public(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, refusal: addresses::refusal, own: None }
    }

    /// The same, without the addresses of the host itself.
    pub(super) fn elsewhere(lookup: Arc<dyn Lookup>, own: Arc<dyn OwnAddresses>) -> Self {
        Self { own: Some(own), ..Self::public(lookup) }
    }

    /// Resolves names that the settings exempt.
    pub(super) fn unchecked(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, refusal: |_| None, own: None }
    }
}

impl Service<Name> for Resolver {
    /// Port 0 makes the client use the URL's port.
    type Response = Box<dyn Iterator<Item = SocketAddr> + Send>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (name, refusal, own) = (name.as_str().to_owned(), self.refusal, self.own.clone());
        let look = |owner: &str| self.lookup.lookup(owner, name.clone());
        let looking = OWNER.try_with(|owner| look(owner)).unwrap_or_else(|_| look(HOST));
        Box::pin(async move {
            let found = match looking.await {
                Ok(found) if !found.is_empty() => found,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(DialError::Slow(name)),
                Ok(_) | Err(_) => return Err(DialError::Unknown(name)),
            };
            if let Some(reason) = found.iter().find_map(|address| refusal(*address)) {
                return Err(DialError::NotPublic { name, reason });
            }
            if let Some(own) = own
                && own.include(&found).await
            {
                return Err(DialError::Own(name));
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
    async fn a_name_that_is_slow_is_distinguished_from_one_that_is_not_there() {
        for (reason, reported) in
            [(io::ErrorKind::TimedOut, "`slow.dev` did not resolve in time"), (io::ErrorKind::NotFound, "`slow.dev` does not resolve")]
        {
            let request = Resolver::public(Arc::new(Failing(reason))).call("slow.dev".parse().unwrap()).await;
            assert_eq!(request.err().unwrap().to_string(), reported);
        }
    }
}
