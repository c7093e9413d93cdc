//! Sends a payment until there is an answer to it, or none is to be had: the same bytes each time.

use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::sleep;

use super::{
    answer::{Verdict, judge, why},
    reply::{Lost, Progress, Reply},
    seller::Seller,
};
use crate::base::answer::retry_after;

/// Between one time and the next.
const WAITS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// The longest that a host may ask to wait.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// How it went.
#[derive(Debug)]
pub(super) enum Went {
    /// What was paid for came.
    Answered(Reply),
    /// It did not, and the seller said why.
    Refused(Reply),
    /// The seller had no room, each time.
    Busy(Reply),
    /// It came, and is larger than is read.
    TooLarge(Reply),
    /// Nobody said anything that ends it; with what was said last.
    Lost(Option<String>),
    /// Nobody was there: nothing was sent.
    Unsent(String),
}

/// Sends it; answers too whether it may have been taken at a time before the last. One that `was_sent` by another process may have been.
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
            // Whoever waits this long waits for nothing.
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
