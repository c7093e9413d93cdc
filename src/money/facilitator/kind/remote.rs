//! Any x402 facilitator over HTTP, in both versions of the wire. Fails closed: no explicit success
//! is no success, and an answer that cannot be read after `/settle` means that money may have moved.
//!
//! A facilitator's "no" is the end only if it says, in a code, why it did not send the first transaction
//! of a payment. A "no" to a repeated question, or one after sending, says nothing of what was sent before:
//! then the chain decides, by the token's own events, and without a node the settlement stays open.

use std::time::Duration;

use alloy_primitives::U256;
use async_trait::async_trait;
use reqwest::{Client, StatusCode, Url, redirect};
use serde_json::{Value, json};

use crate::money::{
    ConfigError, Facilitator, Payment, SettleOutcome, Verdict, WireVersion,
    facilitator::{NOT_SERVED, settlement},
    x402::eip3009::Transfer,
};

/// How long answers are waited for.
#[derive(Debug, Clone, Copy)]
pub(in crate::money) struct Patience {
    /// Default: 10 s.
    pub(in crate::money) verify: Duration,
    /// Above the confirmation time of slow chains. Default: 60 s.
    pub(in crate::money) settle: Duration,
    /// For one question to the node. Default: 10 s.
    pub(in crate::money) rpc: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { verify: Duration::from_secs(10), settle: Duration::from_secs(60), rpc: Duration::from_secs(10) }
    }
}

/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// Longest reason that is passed on, and longest transaction, in characters.
const MAX_REASON: usize = 100;
const MAX_TRANSACTION: usize = 128;

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
];

/// `AuthorizationUsed(address,bytes32)` and `AuthorizationCanceled(address,bytes32)` of EIP-3009: topic 0.
const AUTHORIZATION_USED: &str = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const AUTHORIZATION_CANCELED: &str = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";
/// `Transfer(address,address,uint256)` of ERC-20: topic 0.
const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// A facilitator at a URL, and a node to ask when it does not say what it did.
#[derive(Debug)]
pub(in crate::money) struct HttpFacilitator {
    client: Client,
    base: String,
    rpc: Option<Url>,
    patience: Patience,
}

/// An answer of the facilitator, whatever its status.
enum Answer {
    Json(StatusCode, Value),
    Nothing(String),
}

/// What one question to `/settle` says.
enum Said {
    Settled(String),
    /// It sent nothing, and says why.
    Refused {
        reason: String,
        message: String,
    },
    /// It may have sent something, now or before.
    Doubtful(String),
}

impl HttpFacilitator {
    /// A facilitator at `url`.
    ///
    /// # Errors
    ///
    /// An address that is no URL.
    pub(in crate::money) fn new(url: &str, rpc: Option<&str>) -> Result<Self, ConfigError> {
        let parse = |text: &str| Url::parse(text).map_err(|_| ConfigError::FacilitatorUrl(text.to_owned()));
        let base = parse(url)?.as_str().trim_end_matches('/').to_owned();
        let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).build();
        let client = client.map_err(|error| ConfigError::Client(error.to_string()))?;
        Ok(Self { client, base, rpc: rpc.map(parse).transpose()?, patience: Patience::default() })
    }

    /// Waits otherwise. For tests.
    #[cfg(test)]
    pub(in crate::money) fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    async fn ask(&self, path: &str, payment: &Payment, patience: Duration) -> Answer {
        let version = match payment.version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        let body = json!({ "x402Version": version, "paymentPayload": payment.payload, "paymentRequirements": payment.requirements });
        self.post(&format!("{}{path}", self.base), &body, patience).await
    }

    async fn post(&self, url: &str, body: &Value, patience: Duration) -> Answer {
        let answer = async {
            let mut response = self.client.post(url).json(body).send().await.map_err(|error| error.without_url().to_string())?;
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
                if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                    return Err(format!("answer is larger than {MAX_ANSWER_BYTES} bytes"));
                }
                bytes.extend_from_slice(&chunk);
            }
            let status = response.status();
            let body: Value = serde_json::from_slice(&bytes).map_err(|_| format!("answered {status} without JSON"))?;
            // A body that claims success under another status is no success.
            if !status.is_success() && (body["success"] == true || body["isValid"] == true) {
                return Err(format!("answered {status} and success at once"));
            }
            // It failed itself: a "no" to `/settle` says nothing then.
            if status.is_server_error() && body["success"] == false {
                return Err(format!("answered {status}"));
            }
            Ok((status, body))
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok((status, body))) => Answer::Json(status, body),
            Ok(Err(why)) => Answer::Nothing(why),
            Err(_) => Answer::Nothing(format!("no answer within {} s", patience.as_secs())),
        }
    }

    async fn settle_once(&self, payment: &Payment) -> Said {
        let (status, body) = match self.ask("/settle", payment, self.patience.settle).await {
            Answer::Json(status, body) => (status, body),
            Answer::Nothing(why) => return Said::Doubtful(why),
        };
        let transaction = body["transaction"].as_str().unwrap_or_default();
        let reason = cut(body["errorReason"].as_str().unwrap_or_default(), MAX_REASON);
        match body["success"].as_bool() {
            Some(true) if (1..=MAX_TRANSACTION).contains(&transaction.len()) => Said::Settled(transaction.to_owned()),
            Some(false) if transaction.is_empty() && before_sending(&reason) && refuses_host(status, &reason) => {
                Said::Refused { reason: NOT_SERVED.to_owned(), message: format!("it answered {status}: {reason}") }
            }
            Some(false) if transaction.is_empty() && before_sending(&reason) => {
                let message = cut(body["errorMessage"].as_str().unwrap_or(&reason), 500);
                Said::Refused { reason, message }
            }
            Some(false) => Said::Doubtful(format!("`{reason}` with transaction `{}`", cut(transaction, MAX_TRANSACTION))),
            _ => Said::Doubtful("the answer does not say `success` with a transaction".to_owned()),
        }
    }

    /// What the token itself says became of the nonce.
    async fn on_chain(&self, payment: &Payment) -> SettleOutcome {
        let Some(rpc) = &self.rpc else {
            return SettleOutcome::Unknown("only the chain knows; set TOLLHOUSE_RPC_URL to ask it".to_owned());
        };
        self.ask_chain(rpc, payment).await.unwrap_or_else(|why| SettleOutcome::Unknown(format!("node: {why}")))
    }

    /// What the chain knows of a settlement that the facilitator does not speak clearly of.
    async fn doubt(&self, payment: &Payment, why: String) -> SettleOutcome {
        match self.on_chain(payment).await {
            SettleOutcome::Unknown(more) => SettleOutcome::Unknown(format!("{why}; {more}")),
            known => known,
        }
    }

    async fn ask_chain(&self, rpc: &Url, payment: &Payment) -> Result<SettleOutcome, String> {
        let transfer = Transfer::parse(&payment.authorization).ok_or("the authorization does not read")?;
        // Before the events, so that these are as new at least.
        let block = self.rpc(rpc, "eth_getBlockByNumber", json!(["latest", false])).await?;
        let now = block["timestamp"].as_str().and_then(|hex| hex.strip_prefix("0x")).and_then(|hex| U256::from_str_radix(hex, 16).ok());
        let from = format!("{:#x}", transfer.from.into_word());
        let nonce = format!("{:#x}", transfer.nonce);
        let topics = json!([[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], from, nonce]);
        let filter = json!({ "address": payment.network.asset, "topics": topics, "fromBlock": "0x0", "toBlock": "latest" });
        let logs = self.rpc(rpc, "eth_getLogs", json!([filter])).await?;
        let Some(event) = logs.as_array().ok_or("the events are no list")?.first() else {
            return Ok(match now {
                Some(now) if now >= transfer.valid_before => {
                    refused("invalid_exact_evm_payload_authorization_valid_before", "the authorization expired unused")
                }
                _ => SettleOutcome::Unknown("the nonce is not used yet".to_owned()),
            });
        };
        if event["topics"][0] == AUTHORIZATION_CANCELED {
            return Ok(refused("authorization_canceled", "the payer cancelled the authorization"));
        }
        let transaction =
            event["transactionHash"].as_str().filter(|hash| hash.len() <= MAX_TRANSACTION).ok_or("the event has no transaction")?;
        let receipt = self.rpc(rpc, "eth_getTransactionReceipt", json!([transaction])).await?;
        let logs = receipt["logs"].as_array().ok_or("the transaction has no receipt")?;
        // The token moves the money right after it marks the nonce. A payer can sign another transfer
        // under the same nonce, and send that one: it uses the nonce and pays somebody else.
        let next = logs.iter().skip_while(|log| log["logIndex"] != event["logIndex"]).nth(1).unwrap_or(&Value::Null);
        let moved = json!({
            "topics": [TRANSFER, from, format!("{:#x}", transfer.to.into_word())],
            "data": format!("{:#066x}", transfer.value),
        });
        let same_token = next["address"].as_str().is_some_and(|address| address.eq_ignore_ascii_case(payment.network.asset));
        Ok(if same_token && next["topics"] == moved["topics"] && next["data"] == moved["data"] {
            SettleOutcome::Settled(settlement(payment, transaction.to_owned()))
        } else {
            refused("invalid_exact_evm_nonce_already_used", "the nonce was used for another transfer")
        })
    }

    async fn rpc(&self, rpc: &Url, method: &str, params: Value) -> Result<Value, String> {
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        match self.post(rpc.as_str(), &question, self.patience.rpc).await {
            Answer::Json(_, body) => match &body["result"] {
                Value::Null => Err(format!("{method} has no result: {}", cut(&body["error"].to_string(), 200))),
                result => Ok(result.clone()),
            },
            Answer::Nothing(why) => Err(why),
        }
    }
}

#[async_trait]
impl Facilitator for HttpFacilitator {
    async fn verify(&self, payment: &Payment) -> Verdict {
        let (status, body) = match self.ask("/verify", payment, self.patience.verify).await {
            Answer::Json(status, body) => (status, body),
            Answer::Nothing(why) => return Verdict::Unavailable(why),
        };
        match body["isValid"].as_bool() {
            Some(true) => Verdict::Valid,
            Some(false) if refuses_host(status, body["invalidReason"].as_str().unwrap_or_default()) => {
                Verdict::Unavailable(format!("it answered {status}: {}", cut(&body["invalidReason"].to_string(), MAX_REASON)))
            }
            Some(false) => {
                let reason = cut(body["invalidReason"].as_str().unwrap_or("unexpected_verify_error"), MAX_REASON);
                let message = cut(body["invalidMessage"].as_str().unwrap_or(&reason), 500);
                Verdict::Invalid { reason, message }
            }
            None => Verdict::Unavailable("the answer does not say `isValid`".to_owned()),
        }
    }

    async fn settle(&self, payment: &Payment) -> SettleOutcome {
        match self.settle_once(payment).await {
            Said::Settled(transaction) => SettleOutcome::Settled(settlement(payment, transaction)),
            Said::Refused { reason, message } => SettleOutcome::Refused { reason, message },
            Said::Doubtful(why) => self.doubt(payment, why).await,
        }
    }

    async fn resolve(&self, payment: &Payment) -> SettleOutcome {
        match self.on_chain(payment).await {
            SettleOutcome::Unknown(_) => {}
            known => return known,
        }
        // The same nonce: the token moves money for it once at most.
        match self.settle_once(payment).await {
            Said::Settled(transaction) => SettleOutcome::Settled(settlement(payment, transaction)),
            Said::Refused { reason: why, .. } | Said::Doubtful(why) => self.doubt(payment, why).await,
        }
    }

    fn name(&self) -> &'static str {
        "http"
    }
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

/// Whether a facilitator that gives this reason, and no transaction, found it before it sent anything: a code,
/// and none of those for what went wrong on the way to the chain.
fn before_sending(reason: &str) -> bool {
    let code = !reason.is_empty() && reason.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    // A used nonce may be used by this payment.
    let sent = ["unexpected", "pending", "transaction_failed", "transaction_state", "event_mismatch", "timeout", "timed_out"];
    let used = ["nonce_already_used", "authorization_used", "duplicate_settlement"];
    code && !sent.iter().chain(&used).any(|part| reason.contains(part))
}

fn refused(reason: &str, message: &str) -> SettleOutcome {
    SettleOutcome::Refused { reason: reason.to_owned(), message: message.to_owned() }
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_are_those_of_eip_3009() {
        let topic = |signature: &str| alloy_primitives::keccak256(signature).to_string();
        assert_eq!(topic("AuthorizationUsed(address,bytes32)"), AUTHORIZATION_USED);
        assert_eq!(topic("AuthorizationCanceled(address,bytes32)"), AUTHORIZATION_CANCELED);
        assert_eq!(topic("Transfer(address,address,uint256)"), TRANSFER);
    }
}
