//! Slots for long-lived streams, which count among streams of their kind and among connections.

use std::{net::IpAddr, sync::Arc};

use super::{
    api_error::ApiError,
    error_codes::Code,
    memory_budget::MemoryBudget,
    quota::{Quota, QuotaFull, QuotaShare},
};

/// Seconds until a client without a slot can retry.
const RETRY_SECS: u64 = 30;

/// The slots of an open stream.
#[derive(Debug)]
pub struct Places {
    _stream: QuotaShare,
    /// A long-lived stream counts as a connection even if HTTP/2 shares one among many.
    _connection: QuotaShare,
}

impl Places {
    /// Takes slots for a stream of `address`, among `streams` and among all connections. `what` names the streams in errors, and `hint`
    /// is their hint.
    ///
    /// # Errors
    ///
    /// 429 if the address is at its limit, 503 if all clients together are.
    pub fn take(streams: &Arc<Quota>, intake: &MemoryBudget, address: IpAddr, what: &str, hint: &'static str) -> Result<Self, ApiError> {
        let (mut stream, mut connection) = (streams.share(address), intake.open.share(address));
        let crowded = |full: QuotaFull, what: &str| {
            let code = if matches!(full, QuotaFull::All(_)) { Code::Busy } else { Code::RateLimited };
            ApiError::new(code, full.reached(what)).hint(hint).retry_after(RETRY_SECS)
        };
        stream.take(1).map_err(|full| crowded(full, what))?;
        connection.take(1).map_err(|full| crowded(full, "open connections and streams"))?;
        Ok(Self { _stream: stream, _connection: connection })
    }
}
