//! What an answer to a payment means: whether it is one, whether to ask again, and what was taken.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use super::{challenge::Challenge, record::Sent, reply::Reply};

/// What to do with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is what was paid for.
    Answered,
    /// It is a refusal, or a failure: what was taken is still to be asked for.
    Refused,
    /// It is not known yet: the same payment is to be shown again.
    Open,
    /// Nothing was begun for want of room.
    Busy,
}

/// Judges by status and envelope alone: what was taken, the host is asked for.
pub(super) fn judge(reply: &Reply) -> Verdict {
    if reply.is_success() {
        return Verdict::Answered;
    }
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = &told["error"];
    let code = error["code"].as_str().unwrap_or_default();
    match code {
        "payment_in_progress" => Verdict::Open,
        _ if error["charged"] == "unknown" => Verdict::Open,
        "busy" | "rate_limited" | "store_unavailable" | "not_ready" | "facilitator_unavailable" => Verdict::Busy,
        // Whatever stands between has lost the answer.
        "" if reply.status >= 500 => Verdict::Open,
        _ => Verdict::Refused,
    }
}

/// A refusal in the seller's words.
pub(crate) fn why(reply: &Reply) -> String {
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let challenge = Challenge::read(&reply.headers, &reply.body).map(|challenge| challenge.error);
    let words = told["error"]["message"].as_str().or(told["message"].as_str()).map(str::to_owned).or(challenge);
    match words.filter(|words| !words.is_empty()) {
        Some(words) => format!("the answer was {}: {words}", reply.status),
        None if (300..400).contains(&reply.status) => {
            format!(
                "the answer was {}, to {}: a payment is not taken elsewhere",
                reply.status,
                reply.header("location").unwrap_or("nowhere")
            )
        }
        None => format!("the answer was {}", reply.status),
    }
}

/// What a seller says of the settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) success: bool,
    /// What moved it.
    pub(crate) transaction: String,
    /// What moved, where it says.
    pub(crate) taken: Option<MicroUsd>,
}

impl Settlement {
    /// The money moved, and no more was said.
    pub(super) const UNSAID: Self = Self { success: true, transaction: String::new(), taken: None };

    /// Reads it; `None` where nothing is said that reads.
    pub(crate) fn of(reply: &Reply, sent: &Sent) -> Option<Self> {
        let header = || {
            let header = reply.headers.get("payment-response").or_else(|| reply.headers.get("x-payment-response"))?;
            serde_json::from_slice(&STANDARD.decode(header.as_bytes()).ok()?).ok()
        };
        let told: Value = reply.beside.settlement.clone().filter(Value::is_object).or_else(header)?;
        let transaction = told["transaction"].as_str().unwrap_or_default().to_owned();
        let taken = told["amount"].as_str().and_then(|amount| part(amount, sent));
        Some(Self { success: told["success"] == true, transaction, taken })
    }
}

/// So much of the token, in dollars, of a payment of so much: never more than that, and rounded up.
fn part(amount: &str, sent: &Sent) -> Option<MicroUsd> {
    let whole: u128 = sent.token.as_ref()?.amount.parse().ok()?;
    let amount: u128 = amount.parse().ok()?;
    if whole == 0 {
        return Some(MicroUsd::ZERO);
    }
    let micros = u128::from(sent.usd.0).checked_mul(amount.min(whole))?.div_ceil(whole);
    u64::try_from(micros).ok().map(MicroUsd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.as_bytes().to_vec(), ..Reply::default() }
    }

    #[test]
    fn an_answer_is_judged_by_status_and_envelope() {
        for (status, body, verdict) in [
            (200, "", Verdict::Answered),
            (204, "", Verdict::Answered),
            (402, "{}", Verdict::Refused),
            (422, r#"{"error":{"code":"invalid_input","charged":false}}"#, Verdict::Refused),
            (502, r#"{"error":{"code":"handler_failed","charged":false}}"#, Verdict::Refused),
            (502, r#"{"error":{"code":"settlement_unknown","charged":"unknown"}}"#, Verdict::Open),
            (409, r#"{"error":{"code":"payment_in_progress","charged":false}}"#, Verdict::Open),
            (503, r#"{"error":{"code":"busy","charged":false}}"#, Verdict::Busy),
            (502, "<html>", Verdict::Open),
            (301, "", Verdict::Refused),
        ] {
            assert_eq!(judge(&reply(status, body)), verdict, "{status} {body}");
        }
    }
}
