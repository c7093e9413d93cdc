//! Interprets the response to a payment: whether it is final, whether to try again, and how much was charged.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use super::{Challenge, Reply, SentPayment};

/// The next step after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the result that was paid for.
    Answered,
    /// It is a refusal or a failure. The host must still be asked how much was charged.
    Refused,
    /// The outcome is not known yet: the same payment is sent again.
    Open,
    /// The host was too busy to start.
    Busy,
}

/// Judges a response by its status and envelope alone. The charged amount is queried separately.
pub(super) fn verdict_of(reply: &Reply) -> Verdict {
    if reply.is_success() {
        return Verdict::Answered;
    }
    let reported: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = &reported["error"];
    let code = error["code"].as_str().unwrap_or_default();
    match code {
        "payment_in_progress" => Verdict::Open,
        // Refused before the payment was looked up, so this request did not charge it.
        "rate_limited" | "not_ready" | "store_unavailable" => Verdict::Busy,
        _ if error["charged"] == "unknown" => Verdict::Open,
        "busy" | "facilitator_unavailable" => Verdict::Busy,
        // A proxy in between lost the response.
        "" if reply.status >= 500 => Verdict::Open,
        _ => Verdict::Refused,
    }
}

/// Returns the reason of a refusal in the seller's words.
pub(crate) fn reason(reply: &Reply) -> String {
    let reported: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let challenge = Challenge::read(&reply.headers, &reply.body).map(|challenge| challenge.error);
    let words = reported["error"]["message"].as_str().or(reported["message"].as_str()).map(str::to_owned).or(challenge);
    match words.filter(|words| !words.is_empty()) {
        Some(words) => format!("the answer was {}: {words}", reply.status),
        None if (300..400).contains(&reply.status) => {
            format!(
                "the answer was {}, a redirect to {}; payments do not follow redirects",
                reply.status,
                reply.header("location").unwrap_or("nowhere")
            )
        }
        None => format!("the answer was {}", reply.status),
    }
}

/// The settlement as reported by the seller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) success: bool,
    /// The transaction that moved the money.
    pub(crate) transaction: String,
    /// The amount that was charged, if it is reported.
    pub(crate) taken: Option<MicroUsd>,
}

impl Settlement {
    /// A successful settlement without further details.
    pub(super) const UNREPORTED: Self = Self { success: true, transaction: String::new(), taken: None };

    /// Reads the settlement from a response. Returns `None` if there is none that can be parsed.
    pub(crate) fn of(reply: &Reply, sent: &SentPayment) -> Option<Self> {
        let header = || {
            let header = reply.headers.get("payment-response").or_else(|| reply.headers.get("x-payment-response"))?;
            serde_json::from_slice(&STANDARD.decode(header.as_bytes()).ok()?).ok()
        };
        let reported: Value = reply.extras.settlement.clone().filter(Value::is_object).or_else(header)?;
        let transaction = reported["transaction"].as_str().unwrap_or_default().to_owned();
        let taken = reported["amount"].as_str().and_then(|amount| part(amount, sent));
        Some(Self { success: reported["success"] == true, transaction, taken })
    }
}

/// Returns the dollar value of `amount` units of the token, as a share of the signed payment: rounded up, and never
/// more than was signed.
fn part(amount: &str, sent: &SentPayment) -> Option<MicroUsd> {
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
    fn response_is_judged_by_status_and_error() {
        for (status, body, verdict) in [
            (200, "", Verdict::Answered),
            (204, "", Verdict::Answered),
            (402, "{}", Verdict::Refused),
            (422, r#"{"error":{"code":"invalid_input","charged":false}}"#, Verdict::Refused),
            (502, r#"{"error":{"code":"handler_failed","charged":false}}"#, Verdict::Refused),
            (502, r#"{"error":{"code":"settlement_unknown","charged":"unknown"}}"#, Verdict::Open),
            (409, r#"{"error":{"code":"payment_in_progress","charged":false}}"#, Verdict::Open),
            (503, r#"{"error":{"code":"busy","charged":false}}"#, Verdict::Busy),
            (429, r#"{"error":{"code":"rate_limited","charged":"unknown"}}"#, Verdict::Busy),
            (503, r#"{"error":{"code":"not_ready","charged":"unknown"}}"#, Verdict::Busy),
            (502, "<html>", Verdict::Open),
            (301, "", Verdict::Refused),
        ] {
            assert_eq!(verdict_of(&reply(status, body)), verdict, "{status} {body}");
        }
    }
}
