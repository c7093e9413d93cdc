//! How many requests one address may make.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use super::error::ApiError;
use crate::app::App;

/// Requests that an address may make at once, as a multiple of those it may make in a second.
const BURST: u32 = 2;

/// Requests per second of each client address (GCRA).
pub struct Rate {
    limiter: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
    per_second: NonZeroU32,
}

impl Rate {
    /// `per_second` requests for each address, and twice as many at once.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(NonZeroU32::MIN.saturating_add(BURST - 1)));
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default(), per_second }
    }

    /// Forgets addresses that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        self.limiter.retain_recent();
    }

    /// Seconds until the address may ask again, if it may not now.
    fn wait(&self, address: IpAddr) -> Option<u64> {
        let not_until = self.limiter.check_key(&address).err()?;
        Some(not_until.wait_time_from(self.clock.now()).as_secs() + 1)
    }
}

/// Refuses an address that asks too often, before anything is done for it.
pub(super) async fn limit(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rate) = &app.rate else { return next.run(request).await };
    let Some(seconds) = rate.wait(peer.ip().to_canonical()) else { return next.run(request).await };
    let message = format!("more than {} requests per second from your address", rate.per_second);
    let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(seconds).into_response();
    // draft-ietf-httpapi-ratelimit-headers
    let headers =
        [("ratelimit-policy", format!("\"address\";q={};w=1", rate.per_second)), ("ratelimit", format!("\"address\";r=0;t={seconds}"))];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
