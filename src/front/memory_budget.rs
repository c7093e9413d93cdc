//! Limits on memory used for clients: connections, request bodies and answers.

use std::{net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use tollhouse_config::{BodySettings, ConnectionSettings, IntakeSettings};
use tollhouse_telemetry::{Samples, metric_table};

use super::{
    api_error::ApiError,
    error_codes::Code,
    quota::{Quota, QuotaFull, QuotaShare},
};

/// Answers up to this many bytes are always sent, whatever memory is in use.
const SHORT_BYTES: u64 = 16 << 10;

/// Maximum bytes of bodies, or of unread answers, for an address to draw on the reserve for addresses that use little.
pub(crate) const LITTLE_OF_BODIES: usize = 64 << 10;
const LITTLE_OF_ANSWERS: usize = 512 << 10;
/// Maximum open connections of an address that draws on the reserve.
const FEW_CONNECTIONS: usize = 8;

/// Limits on memory used for clients, with current use.
#[derive(Debug)]
pub struct MemoryBudget {
    pub(crate) connections: ConnectionSettings,
    /// Limits on request bodies.
    pub bodies: BodySettings,
    /// Streams that follow logs, calls or events.
    pub followers: Arc<Quota>,
    /// Open connections.
    pub open: Arc<Quota>,
    /// Bytes of heads and bodies in memory.
    pub(crate) held: Arc<Quota>,
    /// Bytes of answers that clients have not read yet.
    pub(crate) answers: Arc<Quota>,
}

impl MemoryBudget {
    /// Returns limits with nothing in use.
    #[must_use]
    pub fn new(settings: &IntakeSettings) -> Self {
        let IntakeSettings { connections, followers, bodies, answers } = settings.clone();
        Self {
            followers: Quota::new(followers.max, followers.max_per_address),
            open: Quota::with_reserve_for(connections.open.max, connections.open.max_per_address, FEW_CONNECTIONS),
            held: Quota::with_reserve(bodies.held.max, bodies.held.max_per_address, LITTLE_OF_BODIES),
            answers: Quota::with_reserve(answers.max, answers.max_per_address, LITTLE_OF_ANSWERS),
            connections,
            bodies,
        }
    }

    /// Reserves `bytes` of the memory for bodies: for a body, a head or data derived from them.
    ///
    /// # Errors
    ///
    /// 503 if there is not enough room.
    pub fn hold(&self, address: IpAddr, bytes: usize) -> Result<QuotaShare, ApiError> {
        let mut share = self.held.share(address);
        match share.take(bytes) {
            Ok(()) => Ok(share),
            Err(full) => Err(ApiError::new(Code::Busy, full.reached("bytes of request bodies")).retry_after(1)),
        }
    }

    /// Checks that an address does not leave too many answers unread.
    ///
    /// # Errors
    ///
    /// 503 if the address has used up its share of the memory for answers.
    pub(crate) fn check_unread_answers(&self, address: IpAddr) -> Result<(), ApiError> {
        self.answers.has_all_of_its_share(address).map_or(Ok(()), |max| Err(unread(QuotaFull::Address(max))))
    }

    /// Checks that an unpaid answer of this many bytes can be held until its client reads it. A short answer always
    /// can. An answer larger than a limit can while at most half of that limit is in use. An eighth of the memory is
    /// reserved for addresses that use little.
    ///
    /// # Errors
    ///
    /// 503 if the memory for answers has no room for it.
    pub(crate) fn check_room(&self, address: IpAddr, bytes: u64) -> Result<(), ApiError> {
        if bytes <= SHORT_BYTES {
            return Ok(());
        }
        self.answers.has_room_or_is_large(address, usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(unread)
    }

    /// Adds the current use to the metrics.
    pub fn measured(&self, samples: &mut Samples) {
        samples.put(&metric_table::CONNECTIONS, [], self.open.used());
        samples.put(&metric_table::CONNECTIONS_LIMIT, [], self.open.max().unwrap_or_default());
        samples.put(&metric_table::BODIES_HELD, [], self.held.used());
        samples.put(&metric_table::ANSWERS_HELD, [], self.answers.used());
    }

    /// Returns the current use and the limits, for operators.
    pub fn status(&self) -> Value {
        json!({
            "connections": self.open.used(),
            "maxConnections": self.open.max(),
            "bodyBytesHeld": self.held.used(),
            "maxBodyBytesHeld": self.held.max(),
            "answerBytesHeld": self.answers.used(),
            "maxAnswerBytesHeld": self.answers.max(),
        })
    }
}

fn unread(full: QuotaFull) -> ApiError {
    let message = full.reached("bytes of unread answers");
    ApiError::new(Code::Busy, message).hint("Read the pending answers, or close their connections").retry_after(1)
}

#[cfg(test)]
mod tests {
    use tollhouse_config::QuotaSettings;

    use super::*;

    #[test]
    fn addresses_with_few_unread_answers_have_a_reserve() {
        const ALL: usize = 64 << 20;
        let quota = |max: Option<usize>| QuotaSettings { max, max_per_address: None };
        let connections = ConnectionSettings {
            open: quota(None),
            head: None,
            head_bytes: 64 << 10,
            head_fields: 100,
            idle: None,
            write_stall: None,
            streams: 100,
            overhead_frames: None,
        };
        let bodies = BodySettings { time: None, stall: None, held: quota(None), spooled: quota(None) };
        let answers = quota(Some(ALL));
        let budget = MemoryBudget::new(&IntakeSettings { connections, followers: quota(None), bodies, answers });
        let [hoarder, other]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let mut held = budget.answers.share(hoarder);
        // Answers that are always sent, such as errors, can exceed the limit.
        held.take_over_limit(2 * ALL);
        assert_eq!(budget.check_room(hoarder, 100_000).map_err(|error| error.code()), Err(Code::Busy));
        assert!(budget.check_room(other, LITTLE_OF_ANSWERS as u64).is_ok());
    }
}
