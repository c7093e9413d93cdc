//! Creates a payment of the chosen option: first its ID, so that it can be counted, then the signature, so that it can
//! be recorded.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use tollhouse_base::clock::Timestamp;
use tollhouse_money::{
    PaymentId, WireVersion,
    payer::{PayKey, PaymentBounds, Scheme},
};

use super::{Challenge, ChosenTerms, PaymentTarget, SentPayment, Token};
use crate::base::{Error, Exit, Result};

/// Longest validity of a signature, whatever the seller demands: no call runs for longer.
const MAX_SECS: u64 = 60 * 60;

/// Largest payment that sellers read.
const MAX_BYTES: usize = 16 << 10;

/// A payment that is not signed yet.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) payment_id: PaymentId,
    bounds: PaymentBounds,
    secs: u64,
    made_at: Timestamp,
}

impl Draft {
    /// Creates a draft with a random nonce.
    pub(crate) fn new(chosen: &ChosenTerms, key: &PayKey, now: Timestamp) -> Result<Self> {
        let secs = chosen.ask.timeout_secs.clamp(1, MAX_SECS);
        let bounds = PaymentBounds { nonce: random::<32>()?.into(), until_secs: now.as_secs() + secs };
        Ok(Self { payment_id: chosen.ask.id(key.address(), &bounds), bounds, secs, made_at: now })
    }

    /// Signs the payment.
    ///
    /// # Errors
    ///
    /// The terms are so large that no seller would read them in the payment.
    pub(crate) fn signed(self, target: &PaymentTarget, challenge: &Challenge, chosen: &ChosenTerms, key: &PayKey) -> Result<SentPayment> {
        let ChosenTerms { ask, token, usd } = chosen;
        let mut payment = ask.signed(key, &self.bounds, &challenge.resource);
        if let Some(naming) = &challenge.naming {
            let mut naming = naming.clone();
            naming["info"]["id"] = json!(hex::encode(random::<16>()?));
            payment["extensions"]["payment-identifier"] = naming;
        }
        if let Some(token) = &challenge.replay_token {
            payment["extensions"]["replay-token"] = token.clone();
        }
        let encoded = STANDARD.encode(payment.to_string());
        if encoded.len() > MAX_BYTES {
            return Err(Error::new(Exit::Payment, format!("the challenge of {} is too large to answer.  Nothing was sent", target.name)));
        }
        let header = match ask.version {
            WireVersion::V1 => "X-PAYMENT",
            WireVersion::V2 => "PAYMENT-SIGNATURE",
        };
        let token = Token {
            network: token.network.caip2.to_owned(),
            asset: token.address.to_owned(),
            amount: ask.amount.to_string(),
            payer: key.address().to_string(),
            until_secs: self.bounds.until_secs,
        };
        let sent = SentPayment::new(target, self.payment_id, self.made_at, vec![(header.to_owned(), encoded)]);
        Ok(SentPayment { usd: *usd, max: ask.scheme == Scheme::Upto, token: Some(token), timeout_secs: self.secs, ..sent })
    }
}

/// Returns `N` random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Error::refused("the system does not provide random numbers"))?;
    Ok(bytes)
}
