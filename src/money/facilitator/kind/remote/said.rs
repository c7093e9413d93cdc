//! What an answer to `/verify` or `/settle` says, and does not say.

use reqwest::StatusCode;

use crate::money::{
    Verdict,
    facilitator::{
        post::Answer,
        reason::{Told, logged},
    },
};

/// Longest transaction that is taken, in characters.
const MAX_TRANSACTION: usize = 128;

/// Reasons that are about what is asked for: that a payment repeats it was checked before.
const ASKED_FOR: &[&str] = &[
    "invalid_payment_requirements",
    "invalid_network",
    "invalid_scheme",
    "unsupported_scheme",
    "invalid_x402_version",
    "invalid_exact_evm_scheme",
    "invalid_exact_evm_network_mismatch",
    "invalid_exact_evm_missing_eip712_domain",
    "invalid_exact_evm_token_name_mismatch",
    "invalid_exact_evm_token_version_mismatch",
    "invalid_exact_evm_eip3009_not_supported",
];

/// What one question to `/settle` says.
#[derive(Debug)]
pub(super) enum Said {
    /// By this transaction.
    Settled(String),
    /// It sent nothing, for this reason.
    Refused(String),
    /// It sent nothing, and has nothing against the payment.
    NotServed(String),
    /// It was not asked, or had no time for it.
    Unsent(String),
    /// The nonce is spent, by this payment or by whatever else was signed under it. To ask again is of no use.
    Spent(String),
    /// It may have sent something, now or before. It may say more when it is asked again.
    Doubtful(String),
}

/// An answer, unless its status and its body contradict each other.
pub(super) fn plain(answer: Answer) -> Answer {
    match answer {
        // A body that claims success under another status is no success.
        Answer::Json(status, body) if !status.is_success() && (body["success"] == true || body["isValid"] == true) => {
            Answer::Nothing(format!("answered {status} and success at once"))
        }
        // It failed itself: a "no" to `/settle` says nothing then.
        Answer::Json(status, body) if status.is_server_error() && body["success"] == false => Answer::Nothing(format!("answered {status}")),
        answer => answer,
    }
}

/// What an answer to `/verify` says.
pub(super) fn verdict(answer: Answer) -> Verdict {
    let (status, body) = match answer {
        Answer::Json(status, body) => (status, body),
        Answer::Unsent(why) | Answer::Nothing(why) | Answer::TooLarge(why) => return Verdict::Unavailable(why),
    };
    let reason = body["invalidReason"].as_str().unwrap_or("unexpected_verify_error");
    match body["isValid"].as_bool() {
        Some(true) => Verdict::Valid,
        Some(false) if refuses_host(status, reason) => Verdict::Unavailable(format!("it answered {status}: {}", logged(reason))),
        Some(false) => {
            let message = body["invalidMessage"].as_str().unwrap_or_default();
            tracing::debug!(reason = logged(reason), message = logged(message), "the facilitator refused a payment");
            let told = Told::of(reason);
            Verdict::Invalid { reason: told.code.to_owned(), message: told.sentence.to_owned() }
        }
        None => Verdict::Unavailable("the answer does not say `isValid`".to_owned()),
    }
}

/// What an answer to `/settle` says.
pub(super) fn settle_said(answer: Answer) -> Said {
    let (status, body) = match answer {
        Answer::Json(status, body) => (status, body),
        Answer::Unsent(why) => return Said::Unsent(why),
        Answer::Nothing(why) | Answer::TooLarge(why) => return Said::Doubtful(why),
    };
    let transaction = body["transaction"].as_str().unwrap_or_default();
    let reason = body["errorReason"].as_str().unwrap_or_default();
    match body["success"].as_bool() {
        Some(true) if (1..=MAX_TRANSACTION).contains(&transaction.len()) => Said::Settled(transaction.to_owned()),
        Some(false) if transaction.is_empty() && is_spent(reason) => Said::Spent(reason.to_owned()),
        Some(false) if transaction.is_empty() && before_sending(reason) => {
            let why = format!("it answered {status}: {}", logged(reason));
            match status {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Said::Unsent(why),
                _ if refuses_host(status, reason) => Said::NotServed(why),
                _ => Said::Refused(reason.to_owned()),
            }
        }
        Some(false) => Said::Doubtful(format!("`{}` with transaction `{}`", logged(reason), logged(transaction))),
        _ => Said::Doubtful("the answer does not say `success` with a transaction".to_owned()),
    }
}

/// Whether a facilitator that says no has nothing against the payment: it does not serve this host, it failed
/// itself, or what it does not take is what the host asks for, which every payment repeats.
fn refuses_host(status: StatusCode, reason: &str) -> bool {
    let turned_away = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    );
    turned_away || reason.starts_with("unexpected") || ASKED_FOR.contains(&reason)
}

/// A used nonce may be used by this payment.
fn is_spent(reason: &str) -> bool {
    ["nonce_already_used", "authorization_used", "duplicate_settlement"].into_iter().any(|part| reason.contains(part))
}

/// Whether a facilitator that gives this reason, and no transaction, found it before it sent anything: a code,
/// and none of those for what went wrong on the way to the chain.
fn before_sending(reason: &str) -> bool {
    let code = (1..=100).contains(&reason.len()) && reason.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let sent = ["unexpected", "pending", "transaction_failed", "transaction_state", "event_mismatch", "timeout", "timed_out"];
    code && !sent.iter().any(|part| reason.contains(part))
}
