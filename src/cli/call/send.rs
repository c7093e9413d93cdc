//! Sends a payment whose record was stored, and reports the outcome.

use reqwest::{StatusCode, Url, header::HeaderMap};
use serde_json::Value;
use tokio::time::Instant;
use tollhouse_api::PaymentState;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    sentence::sentence_case,
};

use super::thrown;
use crate::{
    base::{Error, Exit, Result, Session, refusal, same_place},
    pay::{Arrival, LockedRecord, PaymentEnd, Reply, Seller, SentPayment, SpendLog, credit, perform, prove, reason, seller::headers, show},
};

/// A payment to be sent.
pub(super) struct Sending<'a> {
    pub(super) session: &'a Session,
    pub(super) seller: Seller,
    /// The host to query for payments and receipts.
    pub(super) host: Url,
    pub(super) record: LockedRecord,
    /// Whether another process may have sent it before.
    pub(super) was_sent: bool,
    pub(super) spend_log: SpendLog,
    pub(super) include: bool,
    pub(super) started_at: Instant,
}

impl Sending<'_> {
    /// Sends it, with retries, and reports the outcome.
    pub(super) async fn send(mut self) -> Result {
        let headers = paying(self.session, &self.record.sent)?;
        let ended = {
            let sent = &self.record.sent;
            let mut printer = show::Printer::new(self.include);
            let mut report = |arrival: Arrival<'_>| printer.print(arrival);
            let performing = perform(&self.seller, sent, &headers, &self.host, self.was_sent, &mut report);
            tokio::select! {
                ended = performing => ended,
                // The payment has been sent. Not waiting for the answer does not cancel it.
                _ = tokio::signal::ctrl_c() => PaymentEnd::Unknown { message: None, settled: false },
            }
        };
        // Report what was paid for, even if the record cannot be updated.
        let noted = self.note(&ended);
        let answer = self.print(ended).await;
        let Err(unnoted) = noted else { return answer };
        let id = &self.record.sent.payment_id;
        match answer {
            Ok(()) => Err(unnoted.more([format!("the answer was printed, but its payment {id} still counts as open")])),
            Err(error) => Err(error.more([format!("the outcome of {id} could not be stored: {}", unnoted.message)])),
        }
    }

    /// Reports the outcome.
    async fn print(&self, ended: PaymentEnd) -> Result {
        match ended {
            PaymentEnd::Answered { reply, settlement } => {
                let elapsed = self.started_at.elapsed();
                let written = show::answer(&reply, self.include);
                let proof = tokio::select! {
                    proof = prove(&self.seller, &self.host, Some(&self.record.sent), &reply) => proof,
                    _ = tokio::signal::ctrl_c() => return Err(Error::interrupted()),
                };
                show::paid(&self.record.sent, settlement.as_ref(), &proof, elapsed);
                written
            }
            PaymentEnd::TooLarge { .. } => {
                let sent = &self.record.sent;
                Err(Error::refused(format!(
                    "the answer of {} is larger than 64 MiB and was discarded; it was paid with {}",
                    sent.name, sent.payment_id
                )))
            }
            PaymentEnd::NotCharged { reply } => {
                let (error, sent) = (self.not_charged(reply), &self.record.sent);
                Err(thrown::placed(self.session, &sent.name, sent.own, error).await)
            }
            PaymentEnd::Unsent(reason) => {
                let position = self.seller.request.url.origin().ascii_serialization();
                Err(Error::new(Exit::Unavailable, format!("{position} does not answer: {reason}.  Nothing was sent")))
            }
            PaymentEnd::BrokenOff { settled } => Err(self.broken_off(settled)),
            PaymentEnd::Unknown { message, settled } => Err(self.unknown(message, settled)),
        }
    }

    /// Records the outcome in the book and in the payment's record.
    fn note(&mut self, ended: &PaymentEnd) -> Result {
        let now = Clock::default().now();
        let taken = ended.taken(&self.record.sent);
        let state = match ended {
            PaymentEnd::Answered { .. }
            | PaymentEnd::TooLarge { .. }
            | PaymentEnd::BrokenOff { settled: true }
            | PaymentEnd::Unknown { settled: true, .. } => Some(PaymentState::Settled),
            PaymentEnd::NotCharged { .. } | PaymentEnd::Unsent(_) => Some(PaymentState::Released),
            PaymentEnd::BrokenOff { settled: false } | PaymentEnd::Unknown { settled: false, .. } => None,
        };
        if let Some(state) = state {
            self.record.note(state, now);
        }
        match taken {
            // Charged, but the answer is missing: a further payment must be preceded by asking for it.
            Some(_) if matches!(ended, PaymentEnd::BrokenOff { .. } | PaymentEnd::Unknown { .. }) => Ok(()),
            Some(taken) => self.spend_log.close(self.record.sent.payment_id.as_str(), taken, now),
            None => Ok(()),
        }
    }

    /// Returns the error for a payment that was not taken: the seller refused it, or the tool failed.
    fn not_charged(&self, reply: Option<Reply>) -> Error {
        let sent = &self.record.sent;
        let uncharged = no_charge(sent);
        let sentence = sentence_case(uncharged.clone());
        let Some(reply) = reply else {
            let of = if sent.own { format!(" for {}", sent.payment_id) } else { String::new() };
            return Error::refused(format!("`{}` ended without a result.  {sentence}{of}", sent.name));
        };
        let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
        if reply.status == 402 {
            return Error::new(Exit::Payment, format!("`{}` refused the payment: {}.  {sentence}", sent.name, reason(&reply)));
        }
        let mut body: Option<Value> = serde_json::from_slice(&reply.body).ok();
        if body.as_ref().is_some_and(|body| body["error"]["code"].is_string()) {
            // An early refusal does not know of earlier requests, but this command does.
            if let Some(charged) = body.as_mut().and_then(|body| body.pointer_mut("/error/charged")) {
                *charged = false.into();
            }
            return refusal(status, &reply.headers, body).more([uncharged]);
        }
        // The tool's own response, with the status that it chose.
        match show::answer(&reply, self.include) {
            Ok(()) => Error::refused(format!("`{}` answered {}.  {sentence}", sent.name, reply.status)),
            Err(error) => error,
        }
    }

    fn broken_off(&self, settled: bool) -> Error {
        let sent = &self.record.sent;
        let id = &sent.payment_id;
        let charged = if settled { "the host reports that it was charged once" } else { "it was charged at most once" };
        let error = Error::new(Exit::Unknown, format!("the answer broke off, so it is incomplete.  Payment {id} was sent; {charged}."));
        error.hint(format!("get the whole answer with the same payment: tollhouse call --resume {id}"))
    }

    fn unknown(&self, message: Option<String>, settled: bool) -> Error {
        let sent = &self.record.sent;
        let id = &sent.payment_id;
        let charged = if settled { "the host reports that it was charged once" } else { "it was charged at most once" };
        let error = Error::new(Exit::Unknown, format!("payment {id} was sent, but no answer arrived; {charged}."));
        let error = error.more(message);
        let error = match &sent.token {
            Some(token) if !sent.own => error.more([format!("it can be charged until {}", until(token.until_secs))]),
            Some(_) | None => error,
        };
        error.hint(format!("repeat the call with the same payment: tollhouse call --resume {id}"))
    }
}

/// Describes a payment that its seller reports as not charged. Only the profile's own host is trusted with that: another
/// seller keeps the signature, and can use it until it expires.
fn no_charge(sent: &SentPayment) -> String {
    match &sent.token {
        Some(token) if !sent.own => {
            format!("the seller reports no charge, but can still charge {} until {}", sent.payment_id, until(token.until_secs))
        }
        None if !sent.own => "the seller reports no charge".to_owned(),
        Some(_) | None => "nothing was charged".to_owned(),
    }
}

/// Formats a time for people.
fn until(secs: u64) -> String {
    Timestamp(secs.saturating_mul(1_000)).to_string()
}

/// Returns the payment headers from the record, or the token of a credit.
///
/// # Errors
///
/// The credit is missing or for another host.
fn paying(session: &Session, sent: &SentPayment) -> Result<HeaderMap> {
    let mut pairs = sent.headers.clone();
    if sent.by_credit {
        let host = Url::parse(&sent.host).ok();
        if !host.is_some_and(|host| same_place(&host, session.client.base())) {
            return Err(Error::usage(format!("`{}` was paid with a credit at {}: select that host with --url", sent.name, sent.host)));
        }
        pairs.push(credit::token(session)?);
    }
    headers(&pairs)
}
