//! Interprets answers to `/verify` and `/settle`.

use reqwest::StatusCode;

use crate::{
    Network, VerifyResult,
    facilitator::{
        json_client::HttpAnswer,
        reason::{MoneyEffect, RefusalText, logged},
    },
};

/// Reasons that concern the host's requirements, not the payment. The host has already checked that the payment repeats
/// them.
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

/// The outcome of one request to `/settle`.
#[derive(Debug)]
pub(super) enum SettleResponse {
    /// It settled with this transaction.
    Settled(String),
    /// It sent nothing, for this reason.
    Refused(String),
    /// It sent nothing, for a reason that is not the payment's fault.
    NotServed(String),
    /// There was no connection, so it got no request.
    Unsent(String),
    /// The nonce is spent, by this payment or by another authorization with this nonce. A retry is useless.
    Spent(String),
    /// It may have sent something, now or before. A retry may clear it up.
    Doubtful(String),
}

/// Returns the answer, unless its status and its body contradict each other.
pub(super) fn plain(answer: HttpAnswer) -> HttpAnswer {
    match answer {
        // A body that claims success with an error status is not a success.
        HttpAnswer::Json(status, body) if !status.is_success() && (body["success"] == true || body["isValid"] == true) => {
            HttpAnswer::Nothing(format!("answered {status} and success at once"))
        }
        // A server error says nothing about whether it sent something.
        HttpAnswer::Json(status, body) if status.is_server_error() && body["success"] == false => {
            HttpAnswer::Nothing(format!("answered {status}"))
        }
        answer => answer,
    }
}

/// Interprets an answer to `/verify`.
pub(super) fn verdict(answer: HttpAnswer) -> VerifyResult {
    let (status, body) = match answer {
        HttpAnswer::Json(status, body) => (status, body),
        HttpAnswer::Unsent(cause) | HttpAnswer::Nothing(cause) | HttpAnswer::TooLarge(cause) => return VerifyResult::Unavailable(cause),
    };
    let reason = body["invalidReason"].as_str().unwrap_or("unexpected_verify_error");
    match body["isValid"].as_bool() {
        Some(true) => VerifyResult::Valid,
        Some(false) if rejects_host(status, reason) => VerifyResult::Unavailable(format!("it answered {status}: {}", logged(reason))),
        Some(false) => {
            let message = body["invalidMessage"].as_str().unwrap_or_default();
            tracing::debug!(reason = logged(reason), message = logged(message), "the facilitator refused a payment");
            RefusalText::of(reason).invalid()
        }
        None => VerifyResult::Unavailable("the answer has no `isValid`".to_owned()),
    }
}

/// Interprets an answer to `/settle` for a payment on `network`. A refusal counts only if its code is on the list of
/// those found before anything is sent.
pub(super) fn parse_settle(answer: HttpAnswer, network: &Network) -> SettleResponse {
    let (status, body) = match answer {
        HttpAnswer::Json(status, body) => (status, body),
        HttpAnswer::Unsent(cause) => return SettleResponse::Unsent(cause),
        HttpAnswer::Nothing(cause) | HttpAnswer::TooLarge(cause) => return SettleResponse::Doubtful(cause),
    };
    let transaction = body["transaction"].as_str().unwrap_or_default();
    let reason = body["errorReason"].as_str().unwrap_or_default();
    match body["success"].as_bool() {
        Some(true) => match network.checked_transaction(transaction) {
            Some(transaction) => SettleResponse::Settled(transaction),
            None => {
                SettleResponse::Doubtful(format!("success with `{}`, which is not a transaction of {}", logged(transaction), network.caip2))
            }
        },
        Some(false) if transaction.is_empty() && is_spent(reason) => SettleResponse::Spent(reason.to_owned()),
        Some(false) if transaction.is_empty() && (ASKED_FOR.contains(&reason) || was_rejected(status, reason)) => {
            SettleResponse::NotServed(format!("it answered {status}: {}", logged(reason)))
        }
        Some(false) if transaction.is_empty() && before_sending(reason) => SettleResponse::Refused(reason.to_owned()),
        Some(false) => SettleResponse::Doubtful(format!("`{}` with transaction `{}`", logged(reason), logged(transaction))),
        None => SettleResponse::Doubtful("the answer has no `success` with a transaction".to_owned()),
    }
}

/// Returns whether it rejects the host's credentials, which it checks before anything else.
fn was_rejected(status: StatusCode, reason: &str) -> bool {
    let by_status = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED);
    by_status && (before_sending(reason) || ["unauthorized", "forbidden", "invalid_api_key", "authentication_required"].contains(&reason))
}

/// Returns whether a refusal is not the payment's fault: the facilitator does not serve this host, failed itself, or
/// does not support the host's requirements, which every payment repeats.
fn rejects_host(status: StatusCode, reason: &str) -> bool {
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

/// Returns whether the nonce was already used, possibly by this payment.
fn is_spent(reason: &str) -> bool {
    ["nonce_already_used", "authorization_used", "duplicate_settlement"].into_iter().any(|part| reason.contains(part))
}

/// Returns whether a facilitator that gives this reason and no transaction found it before it sent anything.
fn before_sending(reason: &str) -> bool {
    matches!(RefusalText::found(reason), Some(MoneyEffect::Before | MoneyEffect::Trial))
}
