//! Carries out one payment, from the first try to the known outcome.

use std::time::Duration;

use reqwest::{Url, header::HeaderMap};
use tokio::time::sleep;
use tollhouse_base::clock::Clock;
use tollhouse_tool::MicroUsd;

use super::{
    PaymentState, Reply, Report, Seller, SentPayment, Settlement,
    attempt::{AttemptOutcome, attempt},
    reason, state,
};

/// Time for the settlement and the transfer, in addition to that of the work.
const GRACE: Duration = Duration::from_secs(30);

/// Longest time that is allowed for the work, whatever the seller demands.
const MAX_SECS: u64 = 600;

/// Waits between the queries to a host that reports a payment as in progress.
const LOOKS: [Duration; 4] = [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// Outcome of a payment.
#[derive(Debug)]
pub(crate) enum PaymentEnd {
    /// The result, and the settlement if one is reported.
    Answered { reply: Reply, settlement: Option<Settlement> },
    /// The result arrived, but is too large to read.
    TooLarge { settlement: Settlement },
    /// The seller reports that nothing was charged, and nothing will be. Only the profile's own host is trusted with that.
    NotCharged { reply: Option<Reply> },
    /// The host could not be reached.
    Unsent(String),
    /// The result was printed in part, and broke off. `settled` means that the seller reports a charge.
    BrokenOff { settled: bool },
    /// The outcome is unknown, or the payment was settled but the result is missing. `message` is the last one of the
    /// seller.
    Unknown { message: Option<String>, settled: bool },
}

/// Sends the payment and finds out its outcome. `was_sent` means that another process may have sent it before.
pub(crate) async fn perform(
    seller: &Seller,
    sent: &SentPayment,
    headers: &HeaderMap,
    host: &Url,
    was_sent: bool,
    report: &mut Report<'_>,
) -> PaymentEnd {
    let max = Duration::from_secs(sent.timeout_secs.min(MAX_SECS)) + GRACE;
    let (outcome, in_doubt) = attempt(seller, headers, max, was_sent, report).await;
    let settlement = |reply: &Reply| Settlement::of(reply, sent);
    match outcome {
        AttemptOutcome::Answered(reply) => {
            let mut settlement = settlement(&reply).filter(|settled| settled.success);
            if settlement.is_none() && !sent.usd.is_zero() && final_state(seller, host, sent).await == PaymentState::Settled {
                settlement = Some(Settlement::UNREPORTED);
            }
            PaymentEnd::Answered { reply, settlement }
        }
        AttemptOutcome::TooLarge(reply) => match settlement(&reply).filter(|settled| settled.success) {
            Some(settlement) => PaymentEnd::TooLarge { settlement },
            None => match final_state(seller, host, sent).await {
                PaymentState::Settled => PaymentEnd::TooLarge { settlement: Settlement::UNREPORTED },
                PaymentState::NotCharged => PaymentEnd::NotCharged { reply: None },
                _ => PaymentEnd::Unknown { message: Some("the answer is larger than 64 MiB and was discarded".to_owned()), settled: false },
            },
        },
        AttemptOutcome::BrokenOff(reply) => {
            let is_reported = settlement(&reply).is_some_and(|settled| settled.success);
            PaymentEnd::BrokenOff { settled: is_reported || final_state(seller, host, sent).await == PaymentState::Settled }
        }
        AttemptOutcome::Unsent(reason) => PaymentEnd::Unsent(reason),
        AttemptOutcome::Refused(reply) | AttemptOutcome::Busy(reply) => match final_state(seller, host, sent).await {
            PaymentState::NotCharged => PaymentEnd::NotCharged { reply: Some(reply) },
            // The payment was refused and never reached the tool, unless an earlier attempt is still on its way.
            PaymentState::NotFound if !in_doubt || is_over(sent) => PaymentEnd::NotCharged { reply: Some(reply) },
            final_state => PaymentEnd::Unknown { message: Some(reason(&reply)), settled: final_state == PaymentState::Settled },
        },
        AttemptOutcome::Lost(message) => match final_state(seller, host, sent).await {
            PaymentState::NotCharged => PaymentEnd::NotCharged { reply: None },
            final_state => PaymentEnd::Unknown { message, settled: final_state == PaymentState::Settled },
        },
    }
}

/// How far a host's clock may be behind.
const CLOCKS_SECS: u64 = 600;

/// Returns whether the payment has expired at the profile's own host. A payment that the host does not know by then was
/// never charged.
fn is_over(sent: &SentPayment) -> bool {
    let until = sent.token.as_ref().map_or(u64::MAX, |token| token.until_secs.saturating_add(CLOCKS_SECS));
    sent.own && Clock::default().now().0 / 1_000 > until
}

/// Asks the host for the outcome until it is no longer in progress, or the queries are used up.
async fn final_state(seller: &Seller, host: &Url, sent: &SentPayment) -> PaymentState {
    let mut looks = LOOKS.into_iter();
    loop {
        let outcome = state::ask(seller, host, &sent.payment_id).await;
        match (outcome, looks.next()) {
            (PaymentState::InProgress, Some(wait)) => sleep(wait).await,
            _ => return outcome,
        }
    }
}

impl PaymentEnd {
    /// Returns the amount that counts as charged, or `None` while it is unknown. If the host is not the profile's own,
    /// the full signed amount counts, because the host's report is not trusted.
    pub(crate) fn taken(&self, sent: &SentPayment) -> Option<MicroUsd> {
        let reported = match self {
            Self::Unsent(_) => return Some(MicroUsd::ZERO),
            Self::Unknown { settled: false, .. } | Self::BrokenOff { settled: false } => return None,
            Self::Unknown { settled: true, .. } | Self::BrokenOff { settled: true } => sent.usd,
            Self::NotCharged { .. } => MicroUsd::ZERO,
            Self::Answered { settlement, .. } => settlement.as_ref().and_then(|settled| settled.taken).unwrap_or(sent.usd),
            Self::TooLarge { settlement } => settlement.taken.unwrap_or(sent.usd),
        };
        Some(if sent.own { reported } else { sent.usd })
    }
}
