//! What pages take.

use std::sync::Arc;

use axum::{Router, http::Method};
use tollhouse_account::session::Sessions;
use tollhouse_base::clock::Clock;
use tollhouse_front::{AllowedOrigins, Shared};

use super::{cookie::Cookie, kept::Kept, root::Root};

/// What pages take.
#[derive(Debug, Clone)]
pub struct Services {
    /// What all fronts share: addresses' shares of the processor, which pages are made in.
    pub shared: Arc<Shared>,
    /// The public API: the routes that everybody else reaches.
    pub api: Router,
    /// What forms can ask for.
    pub operations: Arc<[Operation]>,
    /// Who is signed in.
    pub sessions: Arc<Sessions>,
    /// By which names the host is reached.
    pub origins: Arc<AllowedOrigins>,
    /// What a session is kept as by the browser.
    pub cookie: Cookie,
    /// Where the host is below its public name.
    pub root: Root,
    /// Documents as they were made last.
    pub kept: Arc<Kept>,
    /// The time.
    pub clock: Clock,
    /// Public URL, as it stands in records.
    pub base_url: String,
}

/// An operation of the API, as a form asks for it.
#[derive(Debug, Clone)]
pub struct Operation {
    /// What programs call it.
    pub id: &'static str,
    /// How it is asked for.
    pub method: Method,
    /// With `{slug}` or `{id}` where it names something.
    pub path: &'static str,
    /// Whether it takes a body.
    pub takes: bool,
}
