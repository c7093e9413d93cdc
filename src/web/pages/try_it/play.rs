//! Payments with play money, signed for the form that is shown.

use axum::http::HeaderValue;
use serde_json::Value;
use tollhouse_front::Code;

use super::{name::FormName, request::CallRequest, terms::CallTerms};
use crate::{
    play_wallet::{Payment, PaymentPurpose, PlayWallet, fund},
    visitor::{Visitor, segment},
};

/// The offer of the play wallet.
pub(super) enum PlayOption {
    /// A payment for these terms from a funded wallet, with its state if it was sent before.
    Signed { payment: Payment, accepted: Value, state: Option<String> },
    /// A payment of another call is open. Nothing is signed until it has ended.
    Open { id: String, state: String },
    /// The wallet cannot pay, for this reason.
    Away(String),
}

/// Returns the offer, and the cookie to set.
pub(super) async fn offered(
    request: &CallRequest<'_>,
    name: &FormName,
    terms: &CallTerms<'_>,
    alongside: &[&str],
) -> (PlayOption, Option<HeaderValue>) {
    let CallRequest { visitor, tool, input, headers, .. } = *request;
    for id in alongside {
        if let Some(state) = state(visitor, id).await.filter(|state| is_open(state)) {
            return (PlayOption::Open { id: (*id).to_owned(), state }, None);
        }
    }
    let cookie = visitor.services.cookie.companion("play");
    let Some(wallet) = cookie.read::<PlayWallet>(headers).or_else(PlayWallet::new) else {
        return (PlayOption::Away("the host could not make a key".to_owned()), None);
    };
    let purpose = PaymentPurpose { form: &name.name, made_secs: name.made_secs, slug: tool.slug(), input };
    let signed = terms.signable().and_then(|accepted| Some((wallet.pay(purpose, accepted, terms.resource())?, accepted)));
    let Some((payment, accepted)) = signed else {
        return (PlayOption::Away("what is asked for cannot be signed here".to_owned()), None);
    };
    let state = state(visitor, &payment.id).await;
    if state.is_none()
        && let Err(reason) = fund(visitor, &wallet, accepted, terms.price()).await
    {
        return (PlayOption::Away(reason), None);
    }
    (PlayOption::Signed { payment, accepted: accepted.clone(), state }, Some(cookie.keep(&wallet)))
}

/// Returns the state of a payment, or `None` if it was never sent. An unknown state may mean that
/// it is open.
async fn state(visitor: &Visitor, id: &str) -> Option<String> {
    match visitor.unsigned().get(&format!("/ai/payments/{}", segment(id))).await {
        Ok(answer) => answer["payment"]["state"].as_str().map(str::to_owned),
        Err(refused) if refused.is(Code::UnknownPayment) => None,
        Err(_) => Some("unknown".to_owned()),
    }
}

/// Returns whether the outcome of a payment can still be unknown. The money of an owed payment has moved, and only its
/// run is left.
pub(super) fn is_open(state: &str) -> bool {
    !matches!(state, "settled" | "owed" | "released" | "refused")
}
