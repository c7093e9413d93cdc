//! Services for pages.

use std::sync::Arc;

use axum::{Router, http::Method};
use tollhouse_account::session::Sessions;
use tollhouse_base::clock::Clock;
use tollhouse_front::{AllowedOrigins, FrontServices};

use super::{base_path::BasePath, cookie::Cookie, render_cache::RenderCache};

/// Services for pages.
#[derive(Debug, Clone)]
pub struct Services {
    /// State that all front ends share, including each address's share of processor time for pages.
    pub shared: Arc<FrontServices>,
    /// The public API, with the routes that every client uses.
    pub api: Router,
    /// Operations that forms can request.
    pub operations: Arc<[ApiOperation]>,
    /// Sessions of signed-in visitors.
    pub sessions: Arc<Sessions>,
    /// Host names that are allowed.
    pub origins: Arc<AllowedOrigins>,
    /// The session cookie.
    pub cookie: Cookie,
    /// Path of the public URL.
    pub root: BasePath,
    /// Cache of rendered documents.
    pub rendered: Arc<RenderCache>,
    /// The clock.
    pub clock: Clock,
    /// Public URL, as in records.
    pub base_url: String,
}

/// An operation of the HTTP API, as the pages call it.
#[derive(Debug, Clone)]
pub struct ApiOperation {
    /// Operation id.
    pub id: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path, with `{slug}` or `{id}` for a name.
    pub path: &'static str,
    /// Whether the operation takes a body.
    pub takes: bool,
}
