//! An x402 facilitator over HTTP, in both versions of the protocol. It fails closed: anything but an explicit success is not a success,
//! and an unreadable answer to `/settle` means that money may have moved.
//!
//! A refusal is final only if its code says why the facilitator did not send the first transaction of a payment. A refusal of a repeated
//! request, or after sending, says nothing about earlier transactions. Then the chain decides, according to the token, and without a node
//! the settlement stays open.

mod credentials;
mod response;
mod retry;
mod supported;
#[cfg(test)]
mod tests;
mod window;

use std::{fmt, iter, sync::Arc, time::Duration};

use async_trait::async_trait;
use backon::{BackoffBuilder as _, ExponentialBuilder};
use reqwest::Url;
use serde_json::json;
use tokio::time::Instant;
use tollhouse_base::clock::Clock;

pub use self::credentials::FacilitatorAccess;
pub(super) use self::{credentials::FacilitatorClient, supported::read as read_supported};
use self::{
    response::{SettleResponse, parse_settle, plain, verdict},
    retry::RetryPolicy,
    supported::SupportedCache,
    window::ConcurrencyWindow,
};
use crate::{
    ConfigError, Facilitator, Network, OfferedX402, SettleOutcome, Settlement, StartedSettlement, VerifyResult, WireVersion,
    facilitator::{
        NOT_SERVED,
        chain::node::Node,
        exact,
        json_client::HttpAnswer,
        reason::{MoneyEffect, RefusalText, logged},
        settlement,
    },
    x402::signed::{Order, SignedPayload},
};

/// Time limits for answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FacilitatorTimeouts {
    /// Default: 10 s.
    pub(crate) verify: Duration,
    /// More than the confirmation time of slow chains. Default: 60 s.
    pub(crate) settle: Duration,
    /// For retries after a temporary failure while the caller waits, not counting the wait for a free slot of the facilitator. Default:
    /// 10 s.
    pub(crate) again: Duration,
}

impl Default for FacilitatorTimeouts {
    fn default() -> Self {
        Self { verify: Duration::from_secs(10), settle: Duration::from_secs(60), again: Duration::from_secs(10) }
    }
}

/// Name of the facilitator in settings and intents.
const NAME: &str = "http";

/// Length of a key's signature, in bytes.
const KEY_SIGNATURE_BYTES: usize = 65;

/// Minimum pauses before the second and later retries. Jitter makes them up to twice as long.
const WAITS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(1))
    .without_max_times()
    .with_jitter();

/// A facilitator at a URL, and a node for settlements whose outcome it does not report.
pub(crate) struct HttpFacilitator {
    client: Arc<FacilitatorClient>,
    /// The facilitator's `/supported` answer, which names the addresses that payments must contain.
    supported: Option<Arc<SupportedCache>>,
    node: Option<Arc<Node>>,
    window: ConcurrencyWindow,
    clock: Clock,
    timeout: FacilitatorTimeouts,
}

/// Leaves out any secrets in the URL.
impl fmt::Debug for HttpFacilitator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpFacilitator").field(&self.identity()).finish()
    }
}

impl HttpFacilitator {
    /// Constructs a facilitator at `url`.
    pub(crate) fn new(url: &str, access: &FacilitatorAccess, node: Option<Arc<Node>>, clock: Clock) -> Result<Self, ConfigError> {
        let client = Arc::new(FacilitatorClient::new(url, access, clock.clone())?);
        Ok(Self { client, supported: None, node, window: ConcurrencyWindow::new(), clock, timeout: FacilitatorTimeouts::default() })
    }

    /// Polls in the background for the addresses that payers on `network` must name.
    pub(crate) fn watching(self, network: &'static Network) -> Self {
        let supported = Some(SupportedCache::watch(Arc::clone(&self.client), network));
        Self { supported, ..self }
    }

    async fn post(&self, path: &str, payment: &OfferedX402, timeout: Duration) -> HttpAnswer {
        let version = match payment.version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        let body = json!({ "x402Version": version, "paymentPayload": payment.payload, "paymentRequirements": payment.requirements });
        plain(self.client.post(path, &body, timeout).await)
    }

    async fn try_settle(&self, payment: &OfferedX402) -> SettleResponse {
        parse_settle(self.post("/settle", payment, self.timeout.settle).await, payment.asset.network)
    }

    /// Returns whether the payer's key signed a payment, or its contract may have. The facilitator is not asked about any
    /// other payment, because its requests are paid for or limited.
    async fn may_be_signed(&self, payment: &OfferedX402) -> bool {
        if payment.is_signed_by_key() != Some(false) {
            return true;
        }
        match payment.signed.signature_len() {
            None => false,
            // Contracts that are not deployed yet sign too (ERC-6492).
            Some(length) if length > KEY_SIGNATURE_BYTES => true,
            Some(length) => match (self.chain_node(payment), payment.signed.sender().parse()) {
                // If the node cannot tell, the facilitator decides.
                (Some(node), Ok(payer)) => node.had_code(payer).await.unwrap_or(true),
                _ => length == KEY_SIGNATURE_BYTES,
            },
        }
    }

    /// Decides on the chain how a settlement ended that the facilitator did not report clearly.
    async fn decide_on_chain(&self, payment: &OfferedX402, started: &StartedSettlement, reason: String) -> SettleOutcome {
        let Some(node) = self.chain_node(payment) else {
            return SettleOutcome::Unknown(format!("{reason}; only the chain has the result, and no node is set (TOLLHOUSE_RPC_URL)"));
        };
        match node.nonce_state(payment, started.at).await {
            SettleOutcome::Unknown(more) => SettleOutcome::Unknown(format!("{reason}; {more}")),
            known => known,
        }
    }

    /// Handles a reported success. If there is a node, the transaction must have made the transfer.
    async fn prove_settled(&self, payment: &OfferedX402, started: &StartedSettlement, transaction: String) -> SettleOutcome {
        let settlement = settlement(payment, transaction);
        let Some(node) = self.chain_node(payment) else { return SettleOutcome::Settled(settlement) };
        let Ok(hash) = settlement.transaction.parse() else {
            return SettleOutcome::Unknown(format!("`{}` is not a transaction", logged(&settlement.transaction)));
        };
        match node.proof(payment, hash, self.timeout.settle).await {
            Ok(evidence) => SettleOutcome::Settled(Settlement { evidence: Some(evidence), ..settlement }),
            Err(reason) => {
                tracing::warn!(payment.id = %payment.id(), reason, "the chain does not confirm a settlement that the facilitator reported");
                self.decide_on_chain(payment, started, format!("the facilitator reported success; {reason}")).await
            }
        }
    }

    /// Handles a refusal of the first request. With a node, it counts only while the nonce is unspent. Without one, a refusal that
    /// follows from a simulation of the transfer is not trusted, because the simulation also fails if somebody else already sent the
    /// authorization to the token.
    async fn refused(&self, payment: &OfferedX402, started: &StartedSettlement, reason: &str, refused: SettleOutcome) -> SettleOutcome {
        tracing::info!(payment.id = %payment.id(), reason = logged(reason), "the facilitator refused a settlement");
        let Some(node) = self.chain_node(payment) else {
            // Only an EIP-3009 transfer can be sent by anybody. Other payments name their facilitator.
            let bound = !matches!(payment.signed, SignedPayload::Transfer { .. });
            return match RefusalText::found(reason) {
                Some(MoneyEffect::Trial) if !bound => self.decide_on_chain(payment, started, logged(reason).to_owned()).await,
                _ => refused,
            };
        };
        match node.is_recently_spent(payment).await {
            Ok(false) => refused,
            Ok(true) => {
                payment.note_spent_before();
                tracing::warn!(payment.id = %payment.id(), reason = logged(reason), "the facilitator refused a payment that is spent");
                self.decide_on_chain(payment, started, logged(reason).to_owned()).await
            }
            Err(cause) => SettleOutcome::Unknown(format!("{}; {cause}", logged(reason))),
        }
    }
}

#[async_trait]
impl Facilitator for HttpFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        // The host bears the loss if a facilitator does not check the authorization, so it checks this itself.
        if let Some((Order::Transfer(transfer), _)) = payment.order()
            && let Err(refusal) = exact::pays(&transfer, payment).and_then(|()| exact::has_begun(&transfer, self.clock.now()))
        {
            return refusal.invalid();
        }
        if !self.may_be_signed(payment).await {
            let code = if matches!(payment.signed, SignedPayload::Permit { .. }) {
                "invalid_permit2_signature"
            } else {
                "invalid_exact_evm_signature"
            };
            return RefusalText::of(code).invalid();
        }
        verdict(self.post("/verify", payment, self.timeout.verify).await)
    }

    async fn settle(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        if let Some(node) = self.chain_node(payment) {
            node.forget_balance(payment);
        }
        let mut tries = RetryPolicy::beginning(Instant::now(), self.timeout.again, self.timeout.settle);
        let (mut waits, mut received) = (iter::once(Duration::ZERO).chain(WAITS.build()), false);
        loop {
            let (response, queued) = self.window.run(tries.last, self.try_settle(payment)).await;
            tries.queued(queued);
            let cause = match response {
                SettleResponse::Settled(transaction) => {
                    self.window.succeeded();
                    return self.prove_settled(payment, started, transaction).await;
                }
                SettleResponse::NotServed(cause) if !received => {
                    tracing::error!(cause, "the facilitator does not settle for this host");
                    let message = "the facilitator does not settle for this host".to_owned();
                    let refused = SettleOutcome::Refused { reason: NOT_SERVED.to_owned(), message };
                    return self.refused(payment, started, &cause, refused).await;
                }
                SettleResponse::Refused(reason) if !received => {
                    return self.refused(payment, started, &reason, RefusalText::of(&reason).refused()).await;
                }
                SettleResponse::Unsent(cause) => cause,
                SettleResponse::Doubtful(cause) => {
                    received = true;
                    cause
                }
                SettleResponse::NotServed(cause) | SettleResponse::Refused(cause) | SettleResponse::Spent(cause) if received => {
                    return self.decide_on_chain(payment, started, cause).await;
                }
                SettleResponse::NotServed(cause) | SettleResponse::Refused(cause) | SettleResponse::Spent(cause) => {
                    payment.note_spent_before();
                    return self.decide_on_chain(payment, started, cause).await;
                }
            };
            if tries.fails_first() {
                self.window.failed();
            }
            let Some(again) = waits.next().map(|wait| Instant::now() + wait).filter(|again| *again <= tries.until) else {
                return if received { self.decide_on_chain(payment, started, cause).await } else { SettleOutcome::Unsent(cause) };
            };
            tokio::time::sleep_until(again).await;
        }
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        let open = match self.chain_node(payment) {
            Some(node) => node.nonce_state(payment, started.at).await,
            None => SettleOutcome::Unknown(String::new()),
        };
        if !matches!(open, SettleOutcome::Unknown(_)) {
            return open;
        }
        // The payment has the same nonce, so the token moves money at most once.
        match self.try_settle(payment).await {
            SettleResponse::Settled(transaction) => self.prove_settled(payment, started, transaction).await,
            SettleResponse::Refused(reason)
            | SettleResponse::NotServed(reason)
            | SettleResponse::Spent(reason)
            | SettleResponse::Unsent(reason)
            | SettleResponse::Doubtful(reason) => self.decide_on_chain(payment, started, reason).await,
        }
    }

    async fn find_again(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        match self.chain_node(payment) {
            Some(node) => node.judge_again(payment, started.at, self.clock.now()).await,
            None => self.look_up(payment, started).await,
        }
    }

    fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn fee_payer(&self, _network: &Network) -> Option<String> {
        self.supported.as_ref()?.fee_payer()
    }

    fn meter(&self, _network: &Network) -> Option<String> {
        self.supported.as_ref()?.meter()
    }

    fn identity(&self) -> String {
        identity_of(self.client.base.clone())
    }
}

/// Returns the identity of a facilitator at a URL, without the URL's secrets.
pub(super) fn identity_of(mut at: Url) -> String {
    at.set_query(None);
    at.set_fragment(None);
    _ = at.set_username("");
    _ = at.set_password(None);
    format!("{NAME} {}", at.as_str().trim_end_matches('/'))
}
