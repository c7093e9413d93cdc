//! An x402 payment as a client sent it: decoded, and held against what the server asked for.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    eip3009::{Authorization, Transfer},
    wire,
};
use crate::money::{Network, PaymentConfig, PaymentId, Refusal, Terms, WireVersion, network::NETWORKS};

/// Largest payment header, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// A payment that names the terms the server set. Its signature is not checked yet.
#[derive(Debug, Clone)]
pub struct Payment {
    /// How it came, and how its answer is written.
    pub version: WireVersion,
    /// The whole payment object, as received.
    pub payload: Value,
    /// What the server asks for, in the form of `version`.
    pub requirements: Value,
    /// What was signed.
    pub authorization: Authorization,
    /// 65 bytes as hex, or longer for contract wallets.
    pub signature: String,
    /// Where it is to settle.
    pub network: &'static Network,
    /// The id that the client gave, by the payment-identifier extension.
    pub client_id: Option<String>,
}

/// A payment as it was shown: not held against any terms yet.
pub(in crate::money) struct Shown {
    version: WireVersion,
    payload: Value,
    /// What was signed, where that reads.
    exact: Result<Exact, Refusal>,
}

/// The part of a payment that is signed, or stands beside that.
struct Exact {
    authorization: Authorization,
    signature: String,
    network: &'static Network,
    client_id: Option<String>,
}

impl Shown {
    /// Decodes a payment header.
    pub(in crate::money) fn decode(version: WireVersion, header: &str) -> Result<Self, Refusal> {
        if header.len() > MAX_HEADER_BYTES {
            return Err(malformed(format!("payment header is {} bytes, limit {MAX_HEADER_BYTES}", header.len())));
        }
        let payload: Value = if header.trim_start().starts_with('{') {
            serde_json::from_str(header).map_err(|error| malformed(format!("payment is not JSON: {error}")))?
        } else {
            let bytes = STANDARD.decode(header.trim()).map_err(|_| malformed("payment header is not base64"))?;
            serde_json::from_slice(&bytes).map_err(|error| malformed(format!("payment is not JSON: {error}")))?
        };
        let wanted = match version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        if payload["x402Version"] != wanted {
            return Err(Refusal::invalid("invalid_x402_version", format!("this header takes x402Version {wanted}")));
        }
        let network = match version {
            WireVersion::V1 => &payload["network"],
            WireVersion::V2 => &payload["accepted"]["network"],
        };
        let exact = Exact::read(&payload, network);
        Ok(Self { version, payload, exact })
    }

    /// What the payment is known by, and that it is held by who signed it; `None` where it cannot be one.
    pub(in crate::money) fn known(&self) -> Option<(PaymentId, String)> {
        let exact = self.exact.as_ref().ok()?;
        Some((id(exact.network, &exact.authorization), digest(&exact.authorization, &exact.signature)))
    }

    /// The payment, if it is what `terms` ask for.
    pub(in crate::money) fn matching(self, terms: &Terms, config: &PaymentConfig) -> Result<Payment, Refusal> {
        let Self { version, payload, exact } = self;
        let requirements = config.requirements(terms, version);
        match version {
            WireVersion::V2 => match_v2(&payload, &requirements, terms)?,
            WireVersion::V1 => match_v1(&payload, &requirements)?,
        }
        Ok(Payment::of(version, payload, requirements, exact?))
    }
}

impl Exact {
    /// Reads it out of a payment, which is to settle on the network of this name.
    fn read(payload: &Value, network: &Value) -> Result<Self, Refusal> {
        let exact = &payload["payload"];
        let authorization =
            Authorization::deserialize(&exact["authorization"]).map_err(|error| malformed(format!("payload.authorization: {error}")))?;
        let signature = exact["signature"].as_str().ok_or_else(|| malformed("payload.signature is missing"))?.to_owned();
        let is_hex = |text: &str, digits: usize| {
            text.strip_prefix("0x").is_some_and(|hex| hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if !is_hex(&authorization.from, 40) || !is_hex(&authorization.to, 40) || !is_hex(&authorization.nonce, 64) {
            return Err(malformed("payload.authorization: `from` and `to` are addresses, `nonce` is 32 bytes in hex"));
        }
        if Transfer::parse(&authorization).is_none() {
            return Err(malformed("payload.authorization: `value`, `validAfter` and `validBefore` are decimal numbers"));
        }
        let name = network.as_str().unwrap_or_default();
        let network = NETWORKS.iter().find(|known| known.caip2 == name || known.v1_name == name);
        let network = network.ok_or_else(|| Refusal::invalid("invalid_network", "unknown network"))?;
        let client_id = client_id(payload)?;
        Ok(Self { authorization, signature, network, client_id })
    }
}

impl Payment {
    /// A payment whose terms were matched before: out of an intent.
    pub(in crate::money) fn from_parts(version: WireVersion, payload: Value, requirements: Value) -> Result<Self, Refusal> {
        let exact = Exact::read(&payload, &requirements["network"])?;
        Ok(Self::of(version, payload, requirements, exact))
    }

    fn of(version: WireVersion, payload: Value, requirements: Value, exact: Exact) -> Self {
        let Exact { authorization, signature, network, client_id } = exact;
        Self { version, payload, requirements, authorization, signature, network, client_id }
    }

    /// Who pays, in lower case.
    #[must_use]
    pub fn payer(&self) -> String {
        self.authorization.from.to_ascii_lowercase()
    }

    /// The payment's identity.
    #[must_use]
    pub fn id(&self) -> PaymentId {
        id(self.network, &self.authorization)
    }

    /// When the authorisation ends, in seconds since 1970; the last moment there is where it says later.
    pub(in crate::money) fn valid_before_secs(&self) -> u64 {
        Transfer::parse(&self.authorization).map_or(0, |transfer| transfer.valid_before_secs())
    }
}

fn id(network: &Network, authorization: &Authorization) -> PaymentId {
    let lower = |text: &str| text.to_ascii_lowercase();
    PaymentId::of(&[network.caip2, &lower(network.asset), &lower(&authorization.from), &lower(&authorization.nonce)])
}

/// SHA-256 over authorisation and signature: only who holds the signed payment can show it again.
fn digest(authorization: &Authorization, signature: &str) -> String {
    let authorization = serde_json::to_string(authorization).unwrap_or_default().to_ascii_lowercase();
    hex::encode(Sha256::new().chain_update(authorization).chain_update(signature.to_ascii_lowercase()).finalize())
}

fn malformed(message: impl Into<String>) -> Refusal {
    Refusal::invalid("invalid_payload", message)
}

/// Every field that the server declared must stand in the client's `accepted`; keys may be added inside `extra`.
fn match_v2(payload: &Value, requirements: &Value, terms: &Terms) -> Result<(), Refusal> {
    let accepted = &payload["accepted"];
    let mismatch =
        |field: &str| Refusal::invalid("invalid_payment_requirements", format!("`accepted.{field}` is not what this tool asks for"));
    for (field, wanted) in requirements.as_object().into_iter().flatten() {
        let given = &accepted[field];
        let same = match wanted.as_object() {
            Some(entries) => entries.iter().all(|(name, value)| &given[name] == value),
            None => given == wanted,
        };
        if !same {
            return Err(mismatch(field));
        }
    }
    let resource = &payload["resource"]["url"];
    if !resource.is_null() && resource != &terms.resource_url {
        return Err(Refusal::invalid("invalid_payment_requirements", "the payment names the `resource.url` of another tool"));
    }
    let advertised = wire::extensions(terms);
    for (name, extension) in advertised.as_object().into_iter().flatten() {
        let echoed = &payload["extensions"][name];
        if echoed.is_null() {
            continue;
        }
        let kept = extension["info"].as_object().is_none_or(|info| info.iter().all(|(key, value)| &echoed["info"][key] == value));
        if !kept {
            return Err(Refusal::invalid("extension_echo_mismatch", format!("extension `{name}` came back changed")));
        }
    }
    Ok(())
}

fn match_v1(payload: &Value, requirements: &Value) -> Result<(), Refusal> {
    if payload["scheme"] != requirements["scheme"] {
        return Err(Refusal::invalid("invalid_scheme", "this tool takes the scheme `exact`"));
    }
    if payload["network"] != requirements["network"] {
        return Err(Refusal::invalid("invalid_network", format!("this tool takes payments on {}", requirements["network"])));
    }
    Ok(())
}

fn client_id(payload: &Value) -> Result<Option<String>, Refusal> {
    match &payload["extensions"][wire::PAYMENT_IDENTIFIER]["info"]["id"] {
        Value::Null => Ok(None),
        Value::String(id) if (16..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') => {
            Ok(Some(id.clone()))
        }
        _ => Err(malformed("payment-identifier: `id` is 16 to 128 of A-Z, a-z, 0-9, `_` and `-`")),
    }
}
