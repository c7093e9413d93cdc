//! Sends a payment until there is a final response or the retries are used up. Each retry sends the same bytes.

use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::sleep;

use super::{
    answer::{Verdict, judge, why},
    reply::{Lost, Progress, Reply},
    seller::Seller,
};
use crate::base::answer::retry_after;

/// Waits between the tries.
const WAITS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// Longest wait that a host may ask for.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Outcome of all tries.
#[derive(Debug)]
pub(super) enum Went {
    /// The result arrived.
    Answered(Reply),
    /// The seller refused.
    Refused(Reply),
    /// The seller was busy each time.
    Busy(Reply),
    /// The result arrived, but is too large to read.
    TooLarge(Reply),
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
    most: Duration,
    mut was_sent: bool,
    tell: &mut dyn FnMut(Progress),
) -> (Went, bool) {
    let mut in_doubt = was_sent;
    let mut waits = WAITS.into_iter();
    let went = loop {
        let (went, asked_wait) = match seller.ask(headers, most, tell).await {
            Ok(reply) => {
                was_sent = true;
                let wait = retry_after(&reply.headers);
                match judge(&reply) {
                    Verdict::Answered => break Went::Answered(reply),
                    Verdict::Refused => break Went::Refused(reply),
                    Verdict::Busy => (Went::Busy(reply), wait),
                    Verdict::Open => {
                        in_doubt = true;
                        (Went::Lost(Some(why(&reply))), wait)
                    }
                }
            }
            Err(Lost::TooLarge(reply)) => break Went::TooLarge(*reply),
            // The time for the call is used up, so there is no retry.
            Err(Lost::Late) => break Went::Lost(None),
            Err(Lost::Unsent(why)) if !was_sent => (Went::Unsent(why), None),
            Err(Lost::Unsent(why)) => (Went::Lost(Some(format!("nobody is there now: {why}"))), None),
            Err(Lost::Sent(_)) => {
                (was_sent, in_doubt) = (true, true);
                (Went::Lost(None), None)
            }
        };
        let Some(wait) = waits.next() else { break went };
        sleep(asked_wait.map_or(wait, |asked| asked.clamp(wait, MOST_WAIT))).await;
    };
    (went, in_doubt)
}
