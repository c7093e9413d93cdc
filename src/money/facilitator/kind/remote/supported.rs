//! The payments that a facilitator supports. It is polled in the background, so that no call waits for it.

use std::{
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use serde_json::Value;

use super::line::Line;
use crate::{
    Network,
    facilitator::{post::Answer, reason::logged},
};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer is used.
const KEPT: Duration = Duration::from_secs(600);

/// Pauses before a facilitator is asked again that did not answer.
const PAUSES: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_secs(1)).with_max_delay(Duration::from_secs(60)).without_max_times();

/// The newest answer to `/supported`.
#[derive(Default)]
pub(super) struct Supported(RwLock<Option<Said>>);

/// The addresses that it names for one network.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    fee_payer: Option<String>,
    meter: Option<String>,
}

impl Supported {
    /// Polls for `network` until the returned value is dropped.
    pub(super) fn watch(line: Arc<Line>, network: &'static Network) -> Arc<Self> {
        let supported = Arc::new(Self::default());
        tokio::spawn(ask(Arc::downgrade(&supported), line, network));
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
    fn shuts_out(&self, network: &Network) -> bool {
        network.chain_id().is_none() && self.fee_payer().is_none()
    }

    /// Stores an answer. An address that payers were asked to name stays as long as the facilitator still lists it,
    /// because payments in flight name it.
    fn hear(&self, body: &Value, network: &Network) {
        let stays = |earlier: Option<String>, (scheme, member): (&str, &str)| {
            let newest = named(body, network, scheme, member);
            let earlier = earlier.filter(|earlier| newest.into_iter().chain(signers(body, network)).any(|signer| signer == earlier));
            earlier.or_else(|| newest.map(str::to_owned))
        };
        let said = Said { fee_payer: stays(self.fee_payer(), FEE_PAYER), meter: stays(self.meter(), METER) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }
}

async fn ask(supported: Weak<Supported>, line: Arc<Line>, network: &'static Network) {
    let mut pauses = PAUSES.build();
    while supported.strong_count() > 0 {
        let pause = match read(line.get("/supported", PATIENCE).await) {
            Ok(body) => {
                let Some(supported) = supported.upgrade() else { return };
                supported.hear(&body, network);
                if supported.shuts_out(network) {
                    tracing::error!(network = network.caip2, "the facilitator does not settle there: no tool can be paid on that network");
                }
                pauses = PAUSES.build();
                KEPT
            }
            Err(why) => {
                let why = logged(&why);
                match network.chain_id() {
                    // There it matters only for metered tools.
                    Some(_) => tracing::debug!(network = network.caip2, why, "the facilitator does not say what it settles"),
                    None => {
                        tracing::warn!(network = network.caip2, why, "the facilitator does not say what it settles; it is asked again");
                    }
                }
                pauses.next().unwrap_or(KEPT)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns the body of a valid answer.
///
/// # Errors
///
/// Why the answer is not valid.
pub(in crate::facilitator::kind) fn read(answer: Answer) -> Result<Value, String> {
    match answer {
        Answer::Json(status, body) if status.is_success() && body["kinds"].is_array() => Ok(body),
        Answer::Json(status, _) => Err(format!("it answered {status}")),
        Answer::Unsent(why) | Answer::Nothing(why) | Answer::TooLarge(why) => Err(why),
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
