//! What belongs to a call from its start to its receipt, and what it leaves when it has ended.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tollhouse_protocol::Spent;

use super::{
    finish::Closing,
    history::{CallOutcome, CallRecord, Charge},
    request::{CalledBy, Progress, RequestHead},
    run::Produced,
    write_behind::Failed,
};
use crate::{
    base::{
        clock::Timestamp,
        id::{CallId, ReceiptId},
        share::Turn,
    },
    capability::Till,
    catalog::Live,
    money::{Quoted, Way, receipt, sale::FeeBps},
    tool::MicroUsd,
};

/// What belongs to a call from its start to its receipt.
pub(super) struct NewCall {
    pub(super) live: Arc<Live>,
    /// What it costs, under its quote where it has one.
    pub(super) quoted: Quoted,
    pub(super) by: CalledBy,
    pub(super) way: Way,
    pub(super) head: RequestHead,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    pub(super) cancel: CancellationToken,
    pub(super) started: Timestamp,
    /// The same moment, for telling how long it takes.
    pub(super) begun: Instant,
    pub(super) call: CallId,
    pub(super) receipt: ReceiptId,
    pub(super) payment: receipt::Kind,
    pub(super) input_bytes: usize,
    /// What its handler says that it costs.
    pub(super) till: Arc<Till>,
    /// Of its run in the sandbox, once that has ended.
    pub(super) spent: OnceLock<Spent>,
    /// Of the caller's network.
    pub(super) turn: Turn,
}

impl NewCall {
    /// What the call costs at most whom it is made by: what is asked for before it runs.
    pub(super) fn most(&self) -> MicroUsd {
        match self.by {
            CalledBy::Anyone => self.quoted.terms.price,
            CalledBy::Owner => MicroUsd::ZERO,
        }
    }

    /// What the call costs whom it is made by, by all that its handler has said.
    pub(super) fn price(&self) -> MicroUsd {
        match self.by {
            CalledBy::Anyone if self.quoted.terms.metered => {
                self.till.charged().unwrap_or(self.live.endpoint.price_usd).min(self.quoted.terms.price)
            }
            CalledBy::Anyone => self.quoted.terms.price,
            CalledBy::Owner => MicroUsd::ZERO,
        }
    }

    /// What the last commit of the call is made from.
    pub(super) fn closing(&self, request_hash: String, ran: &Produced, ended: Timestamp, fee: FeeBps) -> Closing {
        let endpoint = &self.live.endpoint;
        let receipt = receipt::Draft {
            receipt_id: self.receipt.clone(),
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            version: endpoint.version.clone(),
            price_usd: self.price(),
            quote_id: self.quoted.id.clone(),
            max_price_usd: self.quoted.terms.metered.then_some(self.quoted.terms.price),
            owner: self.by == CalledBy::Owner,
            resource_url: self.quoted.terms.resource(self.way).into_owned(),
            request_hash,
            result_hash: ran.result_hash.clone(),
            started_at: self.started,
            issued_at: ended,
        };
        let fee = fee.of(self.price(), &endpoint.owner);
        Closing { receipt, call: self.call.clone(), owner: endpoint.owner.clone(), fee, registered: None }
    }

    /// That it came to nothing, as its owner is told.
    pub(super) fn failed(&self, code: &'static str, at: Timestamp) -> Failed {
        let endpoint = &self.live.endpoint;
        Failed {
            call: self.call.clone(),
            owner: endpoint.owner.clone(),
            endpoint: endpoint.id.clone(),
            slug: endpoint.slug.clone(),
            by: self.by,
            code,
            at,
        }
    }

    /// Its record: failed where there is a code.
    pub(super) fn record(&self, code: Option<&str>, charged: Charge, at: Timestamp) -> CallRecord {
        let outcome = if code.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded };
        CallRecord {
            call_id: self.call.clone(),
            at,
            outcome,
            code: code.map(str::to_owned),
            charged,
            price_usd: self.price(),
            owner: self.by == CalledBy::Owner,
            payment: self.payment,
            duration_ms: millis(self.begun.elapsed().as_micros()),
            cpu_ms: self.spent.get().map(|spent| millis(spent.cpu_us.into())),
            tier: self.spent.get().map(|_| self.live.endpoint.tier),
            input_bytes: self.input_bytes as u64,
            receipt_id: (outcome == CallOutcome::Succeeded).then(|| self.receipt.clone()),
            version: self.live.endpoint.version.clone(),
        }
    }
}

/// Microseconds as milliseconds.
#[expect(clippy::cast_precision_loss, reason = "of a call, at most minutes")]
fn millis(micros: u128) -> f64 {
    micros as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_milliseconds_with_their_fractions() {
        assert_eq!([0, 1, 1_500, 2_000_000].map(millis), [0.0, 0.001, 1.5, 2_000.0]);
    }
}
