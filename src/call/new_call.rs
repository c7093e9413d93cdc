//! The data of a call from its start to its receipt, and its records.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tollhouse_api::CallKind;
use tollhouse_base::{
    clock::Timestamp,
    cpu_share::CpuTurn,
    id::{CallId, ReceiptId},
    sentence::sentence_case,
};
use tollhouse_capability::MeteredCharge;
use tollhouse_catalog::{LiveEndpoint, SPECIFIER};
use tollhouse_money::{EntryMethod, PaymentId, QuotedTerms, ReceiptContext, receipt, sale::FeeBps};
use tollhouse_tool::{EndpointCode, MicroUsd, SettleTime};

use super::{
    error::{CallError, ERROR_STATUS},
    history::{CallOutcome, CallRecord, Charge},
    request::{CalledBy, Progress, RequestHead},
    run::{HandlerResult, RunUsage},
    stream::StreamSender,
    write_behind::Failed,
};

/// The data of a call from its start to its receipt.
pub(super) struct NewCall {
    pub(super) live: Arc<LiveEndpoint>,
    /// Its price, under its quote if it has one.
    pub(super) quoted: QuotedTerms,
    pub(super) by: CalledBy,
    pub(super) entry_method: EntryMethod,
    pub(super) head: RequestHead,
    pub(super) from: IpAddr,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    /// Receives a streamed answer, if the caller takes one.
    pub(super) stream: Option<StreamSender>,
    pub(super) cancel: CancellationToken,
    pub(super) started: Timestamp,
    /// The start on the monotonic clock, for measuring the duration.
    pub(super) clock_start: Instant,
    pub(super) call: CallId,
    pub(super) receipt: ReceiptId,
    pub(super) payment: receipt::PaymentKind,
    pub(super) input_bytes: usize,
    /// The charge set by its handler.
    pub(super) charge: Arc<MeteredCharge>,
    /// Resources used in the sandbox, once the run has ended.
    pub(super) elapsed: OnceLock<RunUsage>,
    /// The status of the handler's answer, once it has answered.
    pub(super) status: OnceLock<u16>,
    /// The turn of the caller's address.
    pub(super) turn: CpuTurn,
}

impl NewCall {
    /// Reports the payment, so that a caller who does not wait knows what the call may charge. A reader that is gone or
    /// slow does not stop the call.
    pub(super) fn note_payment(&self, payment: &PaymentId) {
        if let Some(progress) = &self.progress {
            _ = progress.try_send(Progress::Admitted(payment.clone()));
        }
    }

    /// Takes the receiver of a streamed answer, if the tool can stream.
    pub(super) fn take_stream(&mut self) -> Option<StreamSender> {
        self.stream.take().filter(|_| matches!(self.live.runs, EndpointCode::Js))
    }

    /// Returns the maximum price for the caller, which is required before the call runs.
    pub(super) fn max(&self) -> MicroUsd {
        match self.by {
            CalledBy::Anyone => self.quoted.terms.price,
            CalledBy::Owner => MicroUsd::ZERO,
        }
    }

    /// Returns the price for the caller, including the handler's charge.
    pub(super) fn price(&self) -> MicroUsd {
        match self.by {
            CalledBy::Anyone if self.quoted.terms.metered => {
                self.charge.charged().unwrap_or(self.live.endpoint.price_usd).min(self.quoted.terms.price)
            }
            CalledBy::Anyone => self.quoted.terms.price,
            CalledBy::Owner => MicroUsd::ZERO,
        }
    }

    /// Builds the data of the call's last commit, or of a settlement before the run.
    pub(super) fn closing(&self, request_hash: String, ran: Option<&HandlerResult>, at: Timestamp, fee: FeeBps) -> ReceiptContext {
        let endpoint = &self.live.endpoint;
        let receipt = receipt::ReceiptDraft {
            receipt_id: self.receipt.clone(),
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            version: endpoint.version.clone(),
            price_usd: self.price(),
            quote_id: self.quoted.id.clone(),
            max_price_usd: self.quoted.terms.metered.then_some(self.quoted.terms.price),
            owner: self.by == CalledBy::Owner,
            resource_url: self.quoted.terms.resource(self.entry_method).into_owned(),
            request_hash,
            result_hash: ran.map(|ran| ran.result_hash.clone()).unwrap_or_default(),
            streamed: false,
            settle: if ran.is_some() { SettleTime::After } else { SettleTime::Before },
            started_at: self.started,
            issued_at: at,
        };
        let fee = fee.of(self.price(), &endpoint.owner);
        ReceiptContext { receipt, call: self.call.clone(), owner: endpoint.owner.clone(), fee, registered: None }
    }

    /// Builds the failure report for the owner.
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
            paid: None,
            schedule: None,
        }
    }

    /// Builds its record, as failed if `reason` is set.
    pub(super) fn record(&self, reason: Option<FailureReason>, charged: Charge, at: Timestamp) -> CallRecord {
        let outcome = if reason.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded };
        let (code, error, thrown_at) = match reason {
            Some(FailureReason { code, message, thrown_at }) => (Some(code.to_owned()), message, thrown_at),
            None => (None, None, vec![]),
        };
        let elapsed = self.elapsed.get();
        CallRecord {
            call_id: self.call.clone(),
            at,
            kind: CallKind::Request,
            schedule: None,
            outcome,
            code,
            error,
            thrown_at,
            charged,
            price_usd: self.price(),
            owner: self.by == CalledBy::Owner,
            payment: self.payment,
            duration_ms: millis(self.clock_start.elapsed().as_micros()),
            cpu_ms: elapsed.map(|elapsed| millis(elapsed.spent.cpu_us.into())),
            tier: elapsed.map(|_| self.live.endpoint.tier),
            cold: elapsed.map(|elapsed| elapsed.cold),
            input_bytes: self.input_bytes as u64,
            receipt_id: (outcome == CallOutcome::Succeeded).then(|| self.receipt.clone()),
            version: self.live.endpoint.version.clone(),
            method: Some(self.head.method.to_owned()),
            status: self.status.get().copied(),
        }
    }
}

#[derive(Debug)]
pub(super) struct FailureReason {
    /// The code that its caller got.
    pub(super) code: &'static str,
    /// The shortened message. `None` if the handler reported the failure itself.
    pub(super) message: Option<String>,
    /// The stack, if the handler threw.
    pub(super) thrown_at: Vec<String>,
}

/// Maximum length of the message, in characters.
const MAX_MESSAGE: usize = 300;
/// Maximum number of stack frames, and maximum length of each in bytes.
const MAX_PLACES: usize = 8;
const MAX_PLACE_BYTES: usize = 120;

impl FailureReason {
    /// Constructs a failure that the handler reported in its answer.
    pub(super) fn answered() -> Self {
        Self { code: ERROR_STATUS, message: None, thrown_at: vec![] }
    }

    /// Constructs a failure from an error with this code.
    pub(super) fn of(code: &'static str, error: &CallError) -> Self {
        let mut message = sentence_case(error.to_string());
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        let thrown_at = if let CallError::Threw(thrown) = error { places(&thrown.stack) } else { vec![] };
        Self { code, message: Some(message), thrown_at }
    }
}

/// Returns the positions in handlers' sources from a stack, innermost first.
fn places(stack: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let position = line.get(line.find(SPECIFIER)?..)?;
        let position = position.split(|c: char| c == ')' || c.is_whitespace()).next()?;
        (position.len() <= MAX_PLACE_BYTES).then(|| position.to_owned())
    };
    stack.lines().filter_map(of_line).take(MAX_PLACES).collect()
}

#[expect(clippy::cast_precision_loss, reason = "of a call, at most minutes")]
pub(super) fn millis(micros: u128) -> f64 {
    micros as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use tollhouse_protocol::Thrown;

    use super::*;

    #[test]
    fn the_reason_of_a_failure_is_shortened() {
        let reason = |words: &str| FailureReason::of("code", &CallError::Misbehaved(words.to_owned())).message.unwrap();
        assert_eq!(reason("at all"), "Handler failed: at all");
        let long = reason(&"é".repeat(5_000));
        assert!(long.chars().count() == MAX_MESSAGE + 1 && long.ends_with("é…"), "{long}");
        assert!(FailureReason::answered().message.is_none());
    }

    #[test]
    fn only_positions_of_handlers_are_kept_of_a_stack() {
        let stack = "Error: boom at no place\n    at deep (tool:/shout/3f9a1c0b22aa:7:27)\n    at Array.map (<anonymous>)\n    at async tool:/shout/3f9a1c0b22aa:2:1";
        let reason =
            |stack: String| FailureReason::of("handler_failed", &CallError::Threw(Thrown { message: "boom".to_owned(), stack })).thrown_at;
        assert_eq!(reason(stack.to_owned()), ["tool:/shout/3f9a1c0b22aa:7:27", "tool:/shout/3f9a1c0b22aa:2:1"]);
        assert_eq!(reason("    at f (tool:/a/b:1:1)\n".repeat(99)).len(), MAX_PLACES);
        assert!(reason(format!("tool:/{}:1:1", "é".repeat(999))).is_empty() && reason(String::new()).is_empty());
        assert!(FailureReason::of("stopped", &CallError::Misbehaved("tool:/a/b:1:1".to_owned())).thrown_at.is_empty());
    }

    #[test]
    fn durations_are_reported_in_milliseconds_with_their_fractions() {
        assert_eq!([0, 1, 1_500, 2_000_000].map(millis), [0.0, 0.001, 1.5, 2_000.0]);
    }
}
