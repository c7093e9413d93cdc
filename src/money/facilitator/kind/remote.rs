//! An x402 facilitator over HTTP, in both versions of the protocol. It fails closed: anything but an explicit success is not a success,
//! and an unreadable answer to `/settle` means that money may have moved.
//!
//! A refusal is final only if its code says why the facilitator did not send the first transaction of a payment. A refusal of a repeated
//! request, or after sending, says nothing about earlier transactions. Then the chain decides, according to the token, and without a node
//! the settlement stays open.

mod credentials;
mod line;
mod said;
mod supported;
#[cfg(test)]
mod tests;
mod tries;
mod window;

use std::{fmt, iter, sync::Arc, time::Duration};

use async_trait::async_trait;
use backon::{BackoffBuilder as _, ExponentialBuilder};
use serde_json::json;
use tokio::time::Instant;
use tollhouse_base::clock::Clock;

pub use self::credentials::FacilitatorAccess;
pub(super) use self::{line::Line, supported::read as read_supported};
use self::{
    said::{Said, plain, settle_said, verdict},
    supported::Supported,
    tries::Tries,
    window::Window,
};
use crate::{
    Begun, ConfigError, Facilitator, Network, Payment, SettleOutcome, Settlement, Verdict, WireVersion,
    facilitator::{
        NOT_SERVED,
        chain::node::Node,
        exact,
        post::Answer,
        reason::{Found, Told, logged},
        settlement,
        view::ChainView,
    },
};

/// Time limits for answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Default: 10 s.
    pub(crate) verify: Duration,
    /// More than the confirmation time of slow chains. Default: 60 s.
    pub(crate) settle: Duration,
    /// For retries after a temporary failure while the caller waits, not counting the wait for a free slot of the facilitator. Default:
    /// 10 s.
    pub(crate) again: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { verify: Duration::from_secs(10), settle: Duration::from_secs(60), again: Duration::from_secs(10) }
    }
}

/// Minimum pauses before the second and later retries. Jitter makes them up to twice as long.
const WAITS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(1))
    .without_max_times()
    .with_jitter();

/// A facilitator at a URL, and a node for settlements whose outcome it does not report.
pub(crate) struct HttpFacilitator {
    line: Arc<Line>,
    /// The facilitator's `/supported` answer, which names the addresses that payments must contain.
    supported: Option<Arc<Supported>>,
    node: Option<Arc<Node>>,
    window: Window,
    clock: Clock,
    patience: Patience,
}

/// Leaves out any secrets in the URL.
impl fmt::Debug for HttpFacilitator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpFacilitator").field(&self.identity()).finish()
    }
}

impl HttpFacilitator {
    /// Constructs a facilitator at `url`.
    ///
    /// # Errors
    ///
    /// An invalid URL, or credentials that cannot be sent.
    pub(crate) fn new(url: &str, access: &FacilitatorAccess, node: Option<Arc<Node>>, clock: Clock) -> Result<Self, ConfigError> {
        let line = Arc::new(Line::new(url, access, clock.clone())?);
        Ok(Self { line, supported: None, node, window: Window::new(), clock, patience: Patience::default() })
    }

    /// Polls in the background for the addresses that payers on `network` must name.
    pub(crate) fn asked_about(self, network: &'static Network) -> Self {
        let supported = Some(Supported::watch(Arc::clone(&self.line), network));
        Self { supported, ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    async fn ask(&self, path: &str, payment: &Payment, patience: Duration) -> Answer {
        let version = match payment.version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        let body = json!({ "x402Version": version, "paymentPayload": payment.payload, "paymentRequirements": payment.requirements });
        plain(self.line.post(path, &body, patience).await)
    }

    /// Returns the node that can decide how a payment ended, if a contract stores its nonce.
    fn judge_of(&self, payment: &Payment) -> Option<&Arc<Node>> {
        self.node.as_ref().filter(|_| payment.transfer().is_some() || payment.permit().is_some())
    }

    async fn settle_once(&self, payment: &Payment) -> Said {
        settle_said(self.ask("/settle", payment, self.patience.settle).await, payment.asset.network)
    }

    /// Decides on the chain how a settlement ended that the facilitator did not report clearly.
    async fn doubt(&self, payment: &Payment, begun: &Begun, why: String) -> SettleOutcome {
        let Some(node) = self.judge_of(payment) else {
            return SettleOutcome::Unknown(format!("{why}; only the chain knows, and no node can be asked (TOLLHOUSE_RPC_URL)"));
        };
        match node.judge(payment, begun.at).await {
            SettleOutcome::Unknown(more) => SettleOutcome::Unknown(format!("{why}; {more}")),
            known => known,
        }
    }

    /// Handles a reported success. If there is a node, the transaction must have made the transfer.
    async fn proven(&self, payment: &Payment, begun: &Begun, transaction: String) -> SettleOutcome {
        let settlement = settlement(payment, transaction);
        let Some(node) = self.judge_of(payment) else { return SettleOutcome::Settled(settlement) };
        let Ok(hash) = settlement.transaction.parse() else {
            return SettleOutcome::Unknown(format!("`{}` is not a transaction", logged(&settlement.transaction)));
        };
        match node.proof(payment, hash, self.patience.settle).await {
            Ok(evidence) => SettleOutcome::Settled(Settlement { evidence: Some(evidence), ..settlement }),
            Err(why) => {
                tracing::warn!(payment.id = %payment.id(), why, "the chain does not confirm what the facilitator said of a settlement");
                self.doubt(payment, begun, format!("the facilitator says that it settled; {why}")).await
            }
        }
    }

    /// Handles a refusal of the first request. With a node, it counts only while the nonce is unspent. Without one, a refusal that
    /// follows from a simulation of the transfer is not trusted, because the simulation also fails if somebody else already sent the
    /// authorization to the token.
    async fn refused(&self, payment: &Payment, begun: &Begun, reason: &str, refused: SettleOutcome) -> SettleOutcome {
        tracing::info!(payment.id = %payment.id(), reason = logged(reason), "the facilitator refused a settlement");
        let Some(node) = self.judge_of(payment) else {
            // Only an EIP-3009 transfer can be sent by anybody. Other payments name their facilitator.
            let bound = payment.transfer().is_none();
            return match Told::found(reason) {
                Some(Found::Trial) if !bound => self.doubt(payment, begun, logged(reason).to_owned()).await,
                _ => refused,
            };
        };
        match node.spent_lately(payment).await {
            Ok(false) => refused,
            Ok(true) => {
                payment.note_spent_before();
                tracing::warn!(payment.id = %payment.id(), reason = logged(reason), "the facilitator refused a payment that is spent");
                self.doubt(payment, begun, logged(reason).to_owned()).await
            }
            Err(why) => SettleOutcome::Unknown(format!("{}; {why}", logged(reason))),
        }
    }
}

#[async_trait]
impl Facilitator for HttpFacilitator {
    async fn verify(&self, payment: &Payment) -> Verdict {
        // The host bears the loss if a facilitator does not check the authorization, so it checks this itself.
        if let Some((transfer, _)) = payment.transfer()
            && let Err(told) = exact::pays(&transfer, payment).and_then(|()| exact::has_begun(&transfer, self.clock.now()))
        {
            return Verdict::Invalid { reason: told.code.to_owned(), message: told.sentence.to_owned() };
        }
        verdict(self.ask("/verify", payment, self.patience.verify).await)
    }

    async fn balance(&self, payment: &Payment) -> Option<u128> {
        self.judge_of(payment)?.balance(payment).await
    }

    async fn is_spent(&self, payment: &Payment) -> bool {
        match self.judge_of(payment) {
            Some(node) => node.spent_lately(payment).await == Ok(true),
            None => false,
        }
    }

    async fn settle(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        let mut tries = Tries::beginning(Instant::now(), self.patience.again, self.patience.settle);
        let (mut waits, mut heard) = (iter::once(Duration::ZERO).chain(WAITS.build()), false);
        loop {
            let (said, queued) = self.window.ask(tries.last, self.settle_once(payment)).await;
            tries.queued(queued);
            let why = match said {
                Said::Settled(transaction) => {
                    self.window.succeeded();
                    return self.proven(payment, begun, transaction).await;
                }
                Said::NotServed(why) if !heard => {
                    tracing::error!(why, "the facilitator does not settle for this host");
                    let message = "the facilitator does not settle for this host".to_owned();
                    let refused = SettleOutcome::Refused { reason: NOT_SERVED.to_owned(), message };
                    return self.refused(payment, begun, &why, refused).await;
                }
                Said::Refused(reason) if !heard => {
                    let told = Told::of(&reason);
                    let refused = SettleOutcome::Refused { reason: told.code.to_owned(), message: told.sentence.to_owned() };
                    return self.refused(payment, begun, &reason, refused).await;
                }
                Said::Unsent(why) => why,
                Said::Doubtful(why) => {
                    heard = true;
                    why
                }
                Said::NotServed(why) | Said::Refused(why) | Said::Spent(why) if heard => return self.doubt(payment, begun, why).await,
                Said::NotServed(why) | Said::Refused(why) | Said::Spent(why) => {
                    payment.note_spent_before();
                    return self.doubt(payment, begun, why).await;
                }
            };
            if tries.fails_first() {
                self.window.failed();
            }
            let Some(again) = waits.next().map(|wait| Instant::now() + wait).filter(|again| *again <= tries.until) else {
                return if heard { self.doubt(payment, begun, why).await } else { SettleOutcome::Unsent(why) };
            };
            tokio::time::sleep_until(again).await;
        }
    }

    async fn resolve(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        let open = match self.judge_of(payment) {
            Some(node) => node.judge(payment, begun.at).await,
            None => SettleOutcome::Unknown(String::new()),
        };
        if !matches!(open, SettleOutcome::Unknown(_)) {
            return open;
        }
        // It has the same nonce, so the token moves money at most once.
        match self.settle_once(payment).await {
            Said::Settled(transaction) => self.proven(payment, begun, transaction).await,
            Said::Refused(why) | Said::NotServed(why) | Said::Spent(why) | Said::Unsent(why) | Said::Doubtful(why) => {
                self.doubt(payment, begun, why).await
            }
        }
    }

    async fn look_up(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        match self.judge_of(payment) {
            Some(node) => node.look_up(payment, begun).await,
            None => SettleOutcome::Unknown("it was asked of a facilitator that is not in force, and there is no node".to_owned()),
        }
    }

    async fn find_again(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        match self.judge_of(payment) {
            Some(node) => node.judge_again(payment, begun.at, self.clock.now()).await,
            None => self.look_up(payment, begun).await,
        }
    }

    fn chain(&self) -> Option<Arc<dyn ChainView>> {
        self.node.clone().map(|node| node as _)
    }

    fn name(&self) -> &'static str {
        "http"
    }

    fn fee_payer(&self, _network: &Network) -> Option<String> {
        self.supported.as_ref()?.fee_payer()
    }

    fn meter(&self, _network: &Network) -> Option<String> {
        self.supported.as_ref()?.meter()
    }

    fn identity(&self) -> String {
        let mut at = self.line.base.clone();
        at.set_query(None);
        at.set_fragment(None);
        _ = at.set_username("");
        _ = at.set_password(None);
        format!("{} {}", self.name(), at.as_str().trim_end_matches('/'))
    }
}
