//! Sends a payment until there is an answer to it, or none is to be had: the same bytes each time.

use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::sleep;

use super::{
    answer::{Verdict, judge, why},
    reply::{Lost, Progress, Reply},
    seller::Seller,
};
use crate::cli::base::answer::retry_after;

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

/// Sends it.
pub(super) async fn attempt(seller: &Seller, headers: &HeaderMap, most: Duration, tell: &mut dyn FnMut(Progress)) -> Went {
    let mut was_sent = false;
    let mut waits = WAITS.into_iter();
    loop {
        let (went, asked_wait) = match seller.ask(headers, most, tell).await {
            Ok(reply) => {
                was_sent = true;
                let wait = retry_after(&reply.headers);
                match judge(&reply) {
                    Verdict::Answered => return Went::Answered(reply),
                    Verdict::Refused => return Went::Refused(reply),
                    Verdict::Busy => (Went::Busy(reply), wait),
                    Verdict::Open => (Went::Lost(Some(why(&reply))), wait),
                }
            }
            Err(Lost::TooLarge(reply)) => return Went::TooLarge(*reply),
            // Whoever waits this long waits for nothing.
            Err(Lost::Late) => return Went::Lost(None),
            Err(Lost::Unsent(why)) if !was_sent => (Went::Unsent(why), None),
            Err(lost) => {
                was_sent |= !matches!(lost, Lost::Unsent(_));
                (Went::Lost(None), None)
            }
        };
        let Some(wait) = waits.next() else { return went };
        sleep(asked_wait.map_or(wait, |asked| asked.clamp(wait, MOST_WAIT))).await;
    }
}
