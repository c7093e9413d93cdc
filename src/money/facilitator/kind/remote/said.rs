//! What an answer to `/verify` or `/settle` says, and does not say.

use reqwest::StatusCode;

use crate::{
    Network, Verdict,
    facilitator::{
        post::Answer,
        reason::{Found, Told, logged},
    },
};

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
    "chain_id_mismatch",
    "asset_mismatch",
    "accepted_requirements_mismatch",
    "unsupported_chain",
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
    /// There was no connection: it was not asked.
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

/// What an answer to `/settle` says of a payment on `network`. A "no" counts only where its code is on the list of those that are found
/// before anything is sent.
pub(super) fn settle_said(answer: Answer, network: &Network) -> Said {
    let (status, body) = match answer {
        Answer::Json(status, body) => (status, body),
        Answer::Unsent(why) => return Said::Unsent(why),
        Answer::Nothing(why) | Answer::TooLarge(why) => return Said::Doubtful(why),
    };
    let transaction = body["transaction"].as_str().unwrap_or_default();
    let reason = body["errorReason"].as_str().unwrap_or_default();
    match body["success"].as_bool() {
        Some(true) => match network.checked_transaction(transaction) {
            Some(transaction) => Said::Settled(transaction),
            None => Said::Doubtful(format!("success with `{}`, which is not a transaction of {}", logged(transaction), network.caip2)),
        },
        Some(false) if transaction.is_empty() && is_spent(reason) => Said::Spent(reason.to_owned()),
        Some(false) if transaction.is_empty() && (ASKED_FOR.contains(&reason) || turned_away(status, reason)) => {
            Said::NotServed(format!("it answered {status}: {}", logged(reason)))
        }
        Some(false) if transaction.is_empty() && before_sending(reason) => Said::Refused(reason.to_owned()),
        Some(false) => Said::Doubtful(format!("`{}` with transaction `{}`", logged(reason), logged(transaction))),
        None => Said::Doubtful("the answer does not say `success` with a transaction".to_owned()),
    }
}

/// Whether it does not serve who asks, whatever is asked: it looks at credentials before anything else.
fn turned_away(status: StatusCode, reason: &str) -> bool {
    let by_status = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED);
    by_status && (before_sending(reason) || ["unauthorized", "forbidden", "invalid_api_key", "authentication_required"].contains(&reason))
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

/// Whether a facilitator that gives this reason, and no transaction, found it before it sent anything.
fn before_sending(reason: &str) -> bool {
    matches!(Told::found(reason), Some(Found::Before | Found::Trial))
}
