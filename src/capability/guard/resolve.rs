//! Where the client gets addresses from: a name is resolved once, and what was checked is what is dialled.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tollhouse_fair::HOST;

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

/// For everybody's names.
pub(super) struct PublicOnly(pub(super) Arc<dyn Lookup>);

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let found = lookup(&*self.0, name);
        Box::pin(async move {
            let (name, found) = found.await?;
            for &address in &found {
                if let Some(why) = addresses::refusal(address) {
                    return Err(DialError::NotPublic { name, why }.into());
                }
            }
            Ok(dialable(found))
        })
    }
}

/// For the names that settings exempt.
pub(super) struct Unchecked(pub(super) Arc<dyn Lookup>);

impl Resolve for Unchecked {
    fn resolve(&self, name: Name) -> Resolving {
        let found = lookup(&*self.0, name);
        Box::pin(async move { Ok(dialable(found.await?.1)) })
    }
}

fn lookup(resolver: &dyn Lookup, name: Name) -> impl Future<Output = Result<(String, Vec<IpAddr>), DialError>> + Send + use<> {
    let name = name.as_str().to_owned();
    let looking = OWNER.try_with(|owner| resolver.lookup(owner, name.clone())).unwrap_or_else(|_| resolver.lookup(HOST, name.clone()));
    async move {
        match looking.await {
            Ok(found) if !found.is_empty() => Ok((name, found)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(DialError::Slow(name)),
            Ok(_) | Err(_) => Err(DialError::Unknown(name)),
        }
    }
}

/// Port 0 lets the client put the URL's.
fn dialable(found: Vec<IpAddr>) -> Addrs {
    Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)))
}
