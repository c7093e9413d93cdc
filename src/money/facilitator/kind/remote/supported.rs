//! What a facilitator says that it settles: asked in the background, so that no call waits for it.

use std::{
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use serde_json::Value;

use super::line::Line;
use crate::money::{
    Network,
    facilitator::{post::Answer, reason::logged},
};

/// How long the answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer is good for.
const KEPT: Duration = Duration::from_secs(600);

/// The first and the longest pause before a facilitator is asked again that did not answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The newest answer to `/supported`.
#[derive(Default)]
pub(super) struct Supported(RwLock<Option<Said>>);

/// What it says of one network.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    fee_payer: Option<String>,
    meter: Option<String>,
}

impl Supported {
    /// Asks about `network` from now on, for as long as somebody has what this answers.
    pub(super) fn watch(line: Arc<Line>, network: &'static Network) -> Arc<Self> {
        let supported = Arc::new(Self::default());
        tokio::spawn(ask(Arc::downgrade(&supported), line, network));
        supported
    }

    /// Who completes the transactions of payers; `None` while nothing was heard.
    pub(super) fn fee_payer(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.fee_payer.clone()
    }

    /// Who takes what was charged of a permit.
    pub(super) fn meter(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.meter.clone()
    }

    /// Takes an answer over. Who was asked to pay the fees stays it for as long as it is one of them: payments are under way that name it.
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
    let mut pause = FIRST_PAUSE;
    while supported.strong_count() > 0 {
        let why = match line.get("/supported", PATIENCE).await {
            Answer::Json(status, body) if status.is_success() && body["kinds"].is_array() => {
                let Some(supported) = supported.upgrade() else { return };
                supported.hear(&body, network);
                if network.chain_id().is_none() && supported.fee_payer().is_none() {
                    tracing::error!(network = network.caip2, "the facilitator does not settle there: no tool can be paid on that network");
                }
                (pause, _) = (FIRST_PAUSE, tokio::time::sleep(KEPT).await);
                continue;
            }
            Answer::Json(status, _) => format!("it answered {status}"),
            Answer::Unsent(why) | Answer::Nothing(why) => why,
        };
        match network.chain_id() {
            // Nothing but metered tools hangs on it there.
            Some(_) => tracing::debug!(network = network.caip2, why = logged(&why), "the facilitator does not say what it settles"),
            None => tracing::warn!(
                network = network.caip2,
                why = logged(&why),
                "the facilitator does not say what it settles; it is asked again"
            ),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The schemes whose payers have to name somebody, and how.
const FEE_PAYER: (&str, &str) = ("exact", "feePayer");
const METER: (&str, &str) = ("upto", "facilitatorAddress");

/// Whom payers of a scheme have to name on the network.
fn named<'a>(body: &'a Value, network: &Network, scheme: &str, member: &str) -> Option<&'a str> {
    let kinds = body["kinds"].as_array().into_iter().flatten();
    let mut of = kinds.filter(|kind| kind["scheme"] == scheme && (kind["network"] == network.caip2 || kind["network"] == network.name));
    of.find_map(|kind| kind["extra"][member].as_str()).filter(|address| network.checked_address(address).is_some())
}

/// All who sign for the network, or for all of its family.
fn signers<'a>(body: &'a Value, network: &Network) -> impl Iterator<Item = &'a str> {
    let family = network.caip2.split(':').next().unwrap_or_default();
    let lists = [network.caip2.to_owned(), format!("{family}:*")].map(|key| &body["signers"][key]);
    lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::money::network::{BASE, SOLANA};

    const ONE: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
    const OTHER: &str = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU";

    fn says(payer: &str, signers: &[&str]) -> Value {
        json!({
            "kinds": [
                { "x402Version": 2, "scheme": "exact", "network": "eip155:8453", "extra": { "feePayer": "nobody" } },
                { "x402Version": 2, "scheme": "exact", "network": SOLANA.caip2, "extra": { "feePayer": payer } },
            ],
            "signers": { "solana:*": signers },
        })
    }

    #[test]
    fn the_fee_payer_is_that_of_the_network_and_an_address_on_it() {
        let heard = |body: &Value| {
            let supported = Supported::default();
            supported.hear(body, &SOLANA);
            supported.fee_payer()
        };
        assert_eq!(heard(&says(ONE, &[])).as_deref(), Some(ONE));
        assert_eq!(heard(&says("0x036CbD53842c5426634e7929541eC2318f3dCF7e", &[])), None);
        assert_eq!(heard(&json!({ "kinds": [] })), None);
        assert_eq!(
            heard(&json!({ "kinds": [{ "scheme": "exact", "network": "solana", "extra": { "feePayer": ONE } }] })).as_deref(),
            Some(ONE)
        );
    }

    #[test]
    fn who_takes_what_was_charged_is_that_of_the_network() {
        let supported = Supported::default();
        let address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
        let kinds = json!([{ "x402Version": 2, "scheme": "upto", "network": BASE.caip2, "extra": { "facilitatorAddress": address } }]);
        supported.hear(&json!({ "kinds": kinds }), &BASE);
        assert_eq!((supported.meter().as_deref(), supported.fee_payer()), (Some(address), None));
        supported.hear(&json!({ "kinds": kinds }), &SOLANA);
        assert_eq!(supported.meter(), None);
        supported
            .hear(&json!({ "kinds": [{ "scheme": "exact", "network": BASE.caip2, "extra": { "facilitatorAddress": address } }] }), &BASE);
        assert_eq!(supported.meter(), None);
    }

    #[test]
    fn who_pays_the_fees_stays_it_while_it_is_one_of_the_signers() {
        let supported = Supported::default();
        for (said, then) in [(says(ONE, &[]), ONE), (says(OTHER, &[OTHER, ONE]), ONE), (says(OTHER, &[OTHER]), OTHER)] {
            supported.hear(&said, &SOLANA);
            assert_eq!(supported.fee_payer().as_deref(), Some(then));
        }
    }
}
