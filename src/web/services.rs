//! What pages take.

use std::sync::Arc;

use axum::Router;

use crate::front::{AllowedOrigins, Shared};

/// What pages take.
#[derive(Clone)]
pub struct Services {
    /// What all fronts share: addresses' shares of the processor, which pages are made in.
    pub shared: Arc<Shared>,
    /// The public API: the routes that everybody else reaches.
    pub api: Router,
    /// By which names the host is reached.
    pub origins: Arc<AllowedOrigins>,
    /// Public URL, as it stands in records.
    pub base_url: String,
}
