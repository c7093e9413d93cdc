//! Sends a payment until there is a final response or the retries are used up. Each retry sends the same bytes.

use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::sleep;

use super::{
    LostReply, Reply, Report, Seller,
    answer::{Verdict, verdict_of},
    reason,
};
use crate::base::retry_after;

/// Waits between the tries.
const WAITS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// Longest wait that a host may ask for.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Outcome of all tries.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// The result arrived.
    Answered(Reply),
    /// The seller refused.
    Refused(Reply),
    /// The seller was busy each time.
    Busy(Reply),
    /// The result arrived, but is too large to read.
    TooLarge(Reply),
    /// The result was printed in part, and broke off.
    BrokenOff(Reply),
    /// No try had a final response. Holds the last reason that is known.
    Lost(Option<String>),
    /// The host could not be reached: nothing was sent.
    Unsent(String),
}

/// Sends the payment. Also returns whether an earlier try may have been charged.
///
/// `was_sent` means that another process may have sent the payment before.
pub(super) async fn attempt(
    seller: &Seller,
    headers: &HeaderMap,
    max: Duration,
    mut was_sent: bool,
    report: &mut Report<'_>,
) -> (AttemptOutcome, bool) {
    let mut in_doubt = was_sent;
    let mut waits = WAITS.into_iter();
    let outcome = loop {
        let (outcome, asked_wait) = match seller.ask(headers, max, report).await {
            Ok(reply) => {
                was_sent = true;
                let wait = retry_after(&reply.headers);
                match verdict_of(&reply) {
                    Verdict::Answered => break AttemptOutcome::Answered(reply),
                    Verdict::Refused => break AttemptOutcome::Refused(reply),
                    Verdict::Busy => (AttemptOutcome::Busy(reply), wait),
                    Verdict::Open => {
                        in_doubt = true;
                        (AttemptOutcome::Lost(Some(reason(&reply))), wait)
                    }
                }
            }
            Err(LostReply::TooLarge(reply)) => break AttemptOutcome::TooLarge(*reply),
            Err(LostReply::BrokenOff(reply)) => break AttemptOutcome::BrokenOff(*reply),
            // The time for the call is used up, so there is no retry.
            Err(LostReply::Late) => break AttemptOutcome::Lost(None),
            Err(LostReply::Unsent(reason)) if !was_sent => (AttemptOutcome::Unsent(reason), None),
            Err(LostReply::Unsent(reason)) => (AttemptOutcome::Lost(Some(format!("the host is unreachable: {reason}"))), None),
            Err(LostReply::Sent(_)) => {
                (was_sent, in_doubt) = (true, true);
                (AttemptOutcome::Lost(None), None)
            }
        };
        let Some(wait) = waits.next() else { break outcome };
        sleep(asked_wait.map_or(wait, |request| request.clamp(wait, MOST_WAIT))).await;
    };
    (outcome, in_doubt)
}
