//! Places of streams that stay open until their readers go: among those of the stream's kind, and among connections.

use std::{net::IpAddr, sync::Arc};

use super::{
    fault::Fault,
    faults::Code,
    intake::Intake,
    quota::{Full, Quota, Share},
};

/// When one who found no place may try again, in seconds.
const RETRY_SECS: u64 = 30;

/// What a stream has as long as it is open.
#[derive(Debug)]
pub struct Places {
    _stream: Share,
    /// A stream that stays is a connection, also where HTTP/2 has many on one.
    _connection: Share,
}

impl Places {
    /// Places for a stream of `address` among `streams`, which are called `what`, and among all connections. `else_do` says what to do
    /// where there are none.
    ///
    /// # Errors
    ///
    /// 429 where the address has as many as it may, 503 where all together have.
    pub fn take(streams: &Arc<Quota>, intake: &Intake, address: IpAddr, what: &str, else_do: &'static str) -> Result<Self, Fault> {
        let (mut stream, mut connection) = (streams.share(address), intake.open.share(address));
        let crowded = |full: Full, what: &str| {
            let fault = match full {
                Full::All(most) => Fault::new(Code::Busy, format!("the host has its {most} {what}")),
                Full::Address(most) => Fault::new(Code::RateLimited, format!("your address has its {most} {what}")),
            };
            fault.hint(else_do).retry_after(RETRY_SECS)
        };
        stream.take(1).map_err(|full| crowded(full, what))?;
        connection.take(1).map_err(|full| crowded(full, "connections and streams that stay"))?;
        Ok(Self { _stream: stream, _connection: connection })
    }
}
