//! The payments that a facilitator supports. It is polled in the background, so that no call waits for it.

use std::{
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use serde_json::Value;

use super::credentials::FacilitatorClient;
use crate::{
    Network,
    facilitator::{json_client::HttpAnswer, reason::logged},
};

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer is used.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// Pauses before a facilitator is asked again that did not answer.
const PAUSES: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_secs(1)).with_max_delay(Duration::from_secs(60)).without_max_times();

/// The newest answer to `/supported`.
#[derive(Default)]
pub(super) struct SupportedCache(RwLock<Option<NetworkSupport>>);

/// The addresses that it names for one network.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkSupport {
    fee_payer: Option<String>,
    meter: Option<String>,
}

impl SupportedCache {
    /// Polls for `network` until the returned value is dropped.
    pub(super) fn watch(line: Arc<FacilitatorClient>, network: &'static Network) -> Arc<Self> {
        let supported = Arc::new(Self::default());
        tokio::spawn(refresh(Arc::downgrade(&supported), line, network));
        supported
    }

    /// Returns the address that completes payers' transactions. `None` before the first answer.
    pub(super) fn fee_payer(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.fee_payer.clone()
    }

    /// Returns the address that settles metered charges.
    pub(super) fn meter(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.meter.clone()
    }

    /// Returns whether no tool can be paid on `network`, because nobody completes payers' transactions there.
    fn excludes(&self, network: &Network) -> bool {
        network.chain_id().is_none() && self.fee_payer().is_none()
    }

    /// Stores an answer. An address that payers were asked to name stays as long as the facilitator still lists it,
    /// because payments in flight name it.
    fn update(&self, body: &Value, network: &Network) {
        let keep_or_replace = |earlier: Option<String>, (scheme, member): (&str, &str)| {
            let newest = named(body, network, scheme, member);
            let earlier = earlier.filter(|earlier| newest.into_iter().chain(signers(body, network)).any(|signer| signer == earlier));
            earlier.or_else(|| newest.map(str::to_owned))
        };
        let message =
            NetworkSupport { fee_payer: keep_or_replace(self.fee_payer(), FEE_PAYER), meter: keep_or_replace(self.meter(), METER) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }
}

async fn refresh(supported: Weak<SupportedCache>, line: Arc<FacilitatorClient>, network: &'static Network) {
    let mut pauses = PAUSES.build();
    while supported.strong_count() > 0 {
        let pause = match read(line.get("/supported", TIMEOUT).await) {
            Ok(body) => {
                let Some(supported) = supported.upgrade() else { return };
                supported.update(&body, network);
                if supported.excludes(network) {
                    tracing::error!(
                        network = network.caip2,
                        "the facilitator does not settle on this network, so no tool can be paid there"
                    );
                }
                pauses = PAUSES.build();
                FRESH_FOR
            }
            Err(reason) => {
                let reason = logged(&reason);
                match network.chain_id() {
                    // There it matters only for metered tools.
                    Some(_) => tracing::debug!(network = network.caip2, reason, "the facilitator does not report what it settles"),
                    None => {
                        tracing::warn!(
                            network = network.caip2,
                            reason,
                            "the facilitator does not report what it settles; the host will try again"
                        );
                    }
                }
                pauses.next().unwrap_or(FRESH_FOR)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns the body of a valid answer.
pub(in crate::facilitator::kind) fn read(answer: HttpAnswer) -> Result<Value, String> {
    match answer {
        HttpAnswer::Json(status, body) if status.is_success() && body["kinds"].is_array() => Ok(body),
        HttpAnswer::Json(status, _) => Err(format!("it answered {status}")),
        HttpAnswer::Unsent(reason) | HttpAnswer::Nothing(reason) | HttpAnswer::TooLarge(reason) => Err(reason),
    }
}

/// The schemes whose payers must name an address, and the field for it.
const FEE_PAYER: (&str, &str) = ("exact", "feePayer");
const METER: (&str, &str) = ("upto", "facilitatorAddress");

/// Returns the address that payers of a scheme must name on the network.
fn named<'a>(body: &'a Value, network: &Network, scheme: &str, member: &str) -> Option<&'a str> {
    let kinds = body["kinds"].as_array().into_iter().flatten();
    let mut of = kinds.filter(|kind| kind["scheme"] == scheme && (kind["network"] == network.caip2 || kind["network"] == network.name));
    of.find_map(|kind| kind["extra"][member].as_str()).filter(|address| network.checked_address(address).is_some())
}

/// Returns all addresses that sign for the network or its family.
fn signers<'a>(body: &'a Value, network: &Network) -> impl Iterator<Item = &'a str> {
    let family = network.caip2.split(':').next().unwrap_or_default();
    let lists = [network.caip2.to_owned(), format!("{family}:*")].map(|key| &body["signers"][key]);
    lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests;
