//! Any x402 facilitator over HTTP, in both versions of the wire. Fails closed: no explicit success
//! is no success, and an answer that cannot be read after `/settle` means that money may have moved.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Url, redirect};
use serde_json::{Value, json};

use super::{ConfigError, Facilitator, Outcome, Payment, Verdict, WireVersion, facilitator::settlement};

/// Time for `/verify`.
const VERIFY: Duration = Duration::from_secs(10);
/// Time for `/settle`: above the confirmation time of slow chains.
const SETTLE: Duration = Duration::from_secs(60);
/// Time for one question to the node.
const RPC: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 10;

/// `AuthorizationUsed(address,bytes32)` and `AuthorizationCanceled(address,bytes32)` of EIP-3009: topic 0.
const AUTHORIZATION_USED: &str = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const AUTHORIZATION_CANCELED: &str = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";

/// A facilitator at a URL, and a node to ask when it does not say what it did.
#[derive(Debug)]
pub struct HttpFacilitator {
    client: Client,
    base: String,
    rpc: Option<Url>,
}

/// An answer of the facilitator, whatever its status.
enum Answer {
    Json(Value),
    Nothing(String),
}

impl HttpFacilitator {
    /// A facilitator at `url`.
    ///
    /// # Errors
    ///
    /// An address that is no URL.
    pub fn new(url: &str, rpc: Option<&str>) -> Result<Self, ConfigError> {
        let parse = |text: &str| Url::parse(text).map_err(|_| ConfigError::FacilitatorUrl(text.to_owned()));
        let base = parse(url)?.as_str().trim_end_matches('/').to_owned();
        let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).build();
        let client = client.map_err(|error| ConfigError::Client(error.to_string()))?;
        Ok(Self { client, base, rpc: rpc.map(parse).transpose()? })
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
            // A body that claims success under a status of failure is no success.
            if status.is_server_error() && (body["success"] == true || body["isValid"] == true) {
                return Err(format!("answered {status} and success at once"));
            }
            Ok(body)
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(body)) => Answer::Json(body),
            Ok(Err(why)) => Answer::Nothing(why),
            Err(_) => Answer::Nothing(format!("no answer within {} s", patience.as_secs())),
        }
    }

    async fn settle_once(&self, payment: &Payment) -> Outcome {
        let body = match self.ask("/settle", payment, SETTLE).await {
            Answer::Json(body) => body,
            Answer::Nothing(why) => return Outcome::Unknown(why),
        };
        let transaction = body["transaction"].as_str().unwrap_or_default();
        let reason = body["errorReason"].as_str().unwrap_or_default();
        match body["success"].as_bool() {
            Some(true) if !transaction.is_empty() => Outcome::Settled(settlement(payment, transaction.to_owned())),
            Some(false) if pending(reason) => Outcome::Unknown(format!("pending in transaction {transaction}")),
            // It names a transaction that failed or does not answer why: the chain has the last word.
            Some(false) if reason.is_empty() => Outcome::Unknown("refused without a reason".to_owned()),
            Some(false) => Outcome::Refused {
                reason: reason.to_owned(),
                message: body["errorMessage"].as_str().unwrap_or(reason).chars().take(500).collect(),
            },
            _ => Outcome::Unknown("the answer does not say `success` with a transaction".to_owned()),
        }
    }

    /// Which transaction used the nonce, by the token's own events.
    async fn on_chain(&self, payment: &Payment) -> Outcome {
        let Some(rpc) = &self.rpc else {
            return Outcome::Unknown("the nonce is used; set TOLLHOUSE_RPC_URL to find out by what".to_owned());
        };
        let from = payment.payer();
        let topics = json!([
            [AUTHORIZATION_USED, AUTHORIZATION_CANCELED],
            format!("0x{:0>64}", from.trim_start_matches("0x")),
            payment.authorization.nonce,
        ]);
        let filter = json!({ "address": payment.network.asset, "topics": topics, "fromBlock": "0x0", "toBlock": "latest" });
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [filter] });
        let body = match self.post(rpc.as_str(), &question, RPC).await {
            Answer::Json(body) => body,
            Answer::Nothing(why) => return Outcome::Unknown(format!("node: {why}")),
        };
        let event = &body["result"][0];
        match (event["topics"][0].as_str(), event["transactionHash"].as_str()) {
            (Some(AUTHORIZATION_USED), Some(transaction)) => Outcome::Settled(settlement(payment, transaction.to_owned())),
            (Some(AUTHORIZATION_CANCELED), _) => Outcome::Refused {
                reason: "authorization_canceled".to_owned(),
                message: "the payer cancelled the authorization".to_owned(),
            },
            _ => Outcome::Unknown("the node knows no event of the nonce".to_owned()),
        }
    }
}

#[async_trait]
impl Facilitator for HttpFacilitator {
    async fn verify(&self, payment: &Payment) -> Verdict {
        let body = match self.ask("/verify", payment, VERIFY).await {
            Answer::Json(body) => body,
            Answer::Nothing(why) => return Verdict::Unavailable(why),
        };
        match body["isValid"].as_bool() {
            Some(true) => Verdict::Valid,
            Some(false) => {
                let reason = body["invalidReason"].as_str().unwrap_or("unexpected_verify_error");
                let message = body["invalidMessage"].as_str().unwrap_or(reason);
                Verdict::Invalid { reason: reason.to_owned(), message: message.chars().take(500).collect() }
            }
            None => Verdict::Unavailable("the answer does not say `isValid`".to_owned()),
        }
    }

    async fn settle(&self, payment: &Payment) -> Outcome {
        match self.settle_once(payment).await {
            Outcome::Refused { reason, .. } if nonce_used(&reason) => self.on_chain(payment).await,
            outcome => outcome,
        }
    }

    async fn resolve(&self, payment: &Payment) -> Outcome {
        // The same nonce: the token moves money for it once at most.
        self.settle(payment).await
    }

    fn name(&self) -> &'static str {
        "http"
    }
}

fn pending(reason: &str) -> bool {
    matches!(reason, "settlement_pending" | "unexpected_settle_error")
}

/// The ways in which facilitators say that a nonce is spent.
fn nonce_used(reason: &str) -> bool {
    reason.contains("nonce_already_used") || reason.contains("authorization_used") || reason == "duplicate_settlement"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_are_those_of_eip_3009() {
        let topic = |signature: &str| alloy_primitives::keccak256(signature).to_string();
        assert_eq!(topic("AuthorizationUsed(address,bytes32)"), AUTHORIZATION_USED);
        assert_eq!(topic("AuthorizationCanceled(address,bytes32)"), AUTHORIZATION_CANCELED);
    }
}
