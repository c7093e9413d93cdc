//! Payments with play money, signed for the form that is shown.

use tollhouse_api::{PaymentRequirements, PaymentResponse, PaymentState};
use tollhouse_front::Code;

use super::{name::FormName, terms::CallTerms, tool::CallRequest};
use crate::{
    HeaderValue, Visitor,
    play_wallet::{Payment, PaymentPurpose, PlayWallet, fund},
    segment, word,
};

/// The offer of the play wallet.
pub(super) enum PlayOption {
    /// A payment for these terms from a funded wallet, with its state if it was sent before.
    Signed { payment: Payment, accepted: Box<PaymentRequirements>, state: Option<SentState> },
    /// A payment of another call is open. Nothing is signed until it has ended.
    Open { id: String, state: SentState },
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
    let CallRequest { visitor, headers, .. } = *request;
    for id in alongside {
        if let Some(state) = state(visitor, id).await.filter(|state| state.is_open()) {
            return (PlayOption::Open { id: (*id).to_owned(), state }, None);
        }
    }
    let cookie = visitor.services.cookie.companion("play");
    let Some(wallet) = cookie.read::<PlayWallet>(headers).or_else(PlayWallet::new) else {
        return (PlayOption::Away("the host could not create a key".to_owned()), None);
    };
    let Some((payment, accepted)) = sign(&wallet, request, name, terms) else {
        return (PlayOption::Away("the play wallet cannot sign this payment".to_owned()), None);
    };
    let state = state(visitor, &payment.id).await;
    if state.is_none()
        && let Err(reason) = fund(visitor, &wallet, accepted, terms.price()).await
    {
        return (PlayOption::Away(reason), None);
    }
    (PlayOption::Signed { payment, accepted: Box::new(accepted.clone()), state }, Some(cookie.set(&wallet)))
}

fn sign<'t>(
    wallet: &PlayWallet,
    request: &CallRequest,
    name: &FormName,
    terms: &'t CallTerms,
) -> Option<(Payment, &'t PaymentRequirements)> {
    let purpose = PaymentPurpose { form: &name.name, made_secs: name.made_secs, slug: request.tool.slug(), input: request.input };
    let accepted = terms.signable()?;
    Some((wallet.pay(purpose, accepted, &terms.resource)?, accepted))
}

/// Returns whether the host owes a run for this payment of a form. The form must still pay the same
/// terms with it.
pub(super) async fn is_owed(request: &CallRequest<'_>, name: &FormName, id: &str, terms: &CallTerms<'_>) -> bool {
    let Some(wallet) = request.visitor.services.cookie.companion("play").read::<PlayWallet>(request.headers) else { return false };
    sign(&wallet, request, name, terms).is_some_and(|(payment, _)| payment.id == id)
        && state(request.visitor, id).await == Some(SentState::Known(PaymentState::Owed))
}

/// The state of a payment that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentState {
    Known(PaymentState),
    /// The host did not answer. The payment may be open.
    Unknown,
}

impl SentState {
    /// Returns whether the outcome can still be unknown. The money of an owed payment has moved, and only its run is
    /// left.
    pub(super) fn is_open(self) -> bool {
        use PaymentState::{Owed, Refused, Released, Settled};
        !matches!(self, Self::Known(Settled | Owed | Released | Refused))
    }

    pub(super) fn word(self) -> String {
        match self {
            Self::Known(state) => word(state),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// Returns the state of an x402 payment, or `None` if it was never charged: those that moved tokens are never deleted.
async fn state(visitor: &Visitor, id: &str) -> Option<SentState> {
    match visitor.without_session().get::<PaymentResponse>(&format!("/ai/payments/{}", segment(id))).await {
        Ok(answer) => Some(SentState::Known(answer.payment.state)),
        Err(refused) if refused.is(Code::UnknownPayment) => None,
        Err(_) => Some(SentState::Unknown),
    }
}
