//! An x402 payment from a client: decoded, and compared with the server's requirements.

use std::sync::OnceLock;

use alloy_primitives::Address;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;
use url::Url;

use super::{
    extensions::{self, PAYMENT_IDENTIFIER, REPLAY_TOKEN},
    permit2::{Permit, PermitAuthorization, UPTO_PROXY},
    signed::{Order, SignedPayload, malformed},
    svm::Transaction,
};
use crate::{Asset, CallTerms, EntryMethod, Network, OfferedPayment, PaymentId, Refusal, WireVersion};

/// Maximum size of a payment header, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// The message for a v1 client that pays for a tool with settlement before the run.
pub(crate) const UPFRONT_BY_V2: &str =
    "this tool is paid before it runs, which x402 v1 cannot express; pay with x402 v2 (`PAYMENT-SIGNATURE`) or developer credit";

/// The gas that a settlement needs according to a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TriedGas {
    pub(crate) limit: u64,
    pub(crate) by_contract: bool,
}

/// A payment that matches the server's terms. Its signature is not verified yet.
#[derive(Debug, Clone)]
pub struct OfferedX402 {
    /// The x402 version of the payment and of its answer.
    pub version: WireVersion,
    /// The whole payment object, as received.
    pub payload: Value,
    /// The server's requirements, in the format of `version`.
    pub requirements: Value,
    /// The signed part.
    pub signed: SignedPayload,
    /// The token to move.
    pub asset: &'static Asset,
    /// The client's id, from the payment-identifier extension.
    pub client_id: Option<String>,
    /// Set if it was spent before this host asked anybody to settle it.
    spent_before: OnceLock<()>,
    /// Whether the payer's key signed it. Cached, because settling needs what verifying found.
    by_key: OnceLock<bool>,
    /// The gas limit of its transaction, after a simulation.
    tried_gas: OnceLock<u64>,
    /// Whether the payer's address had code when the payment was verified, and when its settlement was prepared. Unset
    /// if it was not checked.
    has_code: [OnceLock<bool>; 2],
}

/// A received payment that was not compared with any terms yet.
pub(crate) struct ShownPayment {
    version: WireVersion,
    payload: Value,
    client_id: Option<String>,
    /// The signed part, if it is valid.
    exact: Result<Exact, Refusal>,
}

/// The signed part of a payment, and its token.
struct Exact {
    signed: SignedPayload,
    asset: &'static Asset,
}

impl ShownPayment {
    pub(crate) fn decode(version: WireVersion, header: &str) -> Result<Self, Refusal> {
        if header.len() > MAX_HEADER_BYTES {
            return Err(malformed(format!("the payment header has {} bytes, and the maximum is {MAX_HEADER_BYTES}", header.len())));
        }
        let payload: Value = if header.trim_start().starts_with('{') {
            serde_json::from_str(header).map_err(|error| malformed(format!("the payment is not JSON: {error}")))?
        } else {
            let bytes = decode(header.trim()).ok_or_else(|| malformed("the payment header is not base64"))?;
            // Some clients write a byte order mark.
            let json = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
            serde_json::from_slice(json).map_err(|error| malformed(format!("the payment is not JSON: {error}")))?
        };
        let requested = match version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        if payload["x402Version"] != requested {
            return Err(Refusal::invalid("invalid_x402_version", format!("this header requires x402Version {requested}")));
        }
        let client_id = client_id(&payload)?;
        let mut payload = payload;
        let mut exact = match version {
            WireVersion::V1 => Exact::read(&payload, &payload["network"], None),
            WireVersion::V2 => Exact::read(&payload, &payload["accepted"]["network"], Some(&payload["accepted"]["asset"])),
        };
        if let Ok(exact) = &mut exact
            && let Some(signature) = exact.signed.normalize_v(exact.asset)
        {
            payload["payload"]["signature"] = json!(signature);
        }
        Ok(Self { version, payload, client_id, exact })
    }

    /// Returns the payment's id and a digest that proves possession, or `None` if it cannot be a payment. Once the
    /// payment is settled, everyone can read the signed data on the chain, but neither the payment's name nor the token
    /// of its challenge. So the digest includes both, and only a sender who knows them can use the payment again.
    pub(crate) fn known(&self) -> Option<(PaymentId, String)> {
        let exact = self.exact.as_ref().ok()?;
        let digest = exact.signed.digest();
        let digest = match (&self.client_id, extensions::token_of(&self.payload)) {
            (Some(name), _) => named_digest(&digest, name),
            // Names cannot contain a colon.
            (None, Some(token)) => named_digest(&digest, &format!("{REPLAY_TOKEN}:{token}")),
            (None, None) => digest,
        };
        Some((exact.signed.id(exact.asset), digest))
    }

    /// Returns whether the payment contains data that is not on the chain.
    pub(crate) fn is_private(&self) -> bool {
        self.client_id.is_some() || extensions::token_of(&self.payload).is_some()
    }

    /// Returns its payer, as [`OfferedX402::payer`] does.
    pub(crate) fn payer(&self) -> Option<String> {
        self.exact.as_ref().ok().map(|exact| exact.signed.payer())
    }

    /// Returns its payer, and the name that its client chose.
    pub(crate) fn named(&self) -> Option<(String, &str)> {
        Some((self.payer()?, self.client_id.as_deref()?))
    }

    /// Returns its token and recipient if the payer's key signed it and it has not expired. Also returns `None` if the
    /// signature alone cannot show this.
    pub(crate) fn signed_recipient(&self, now: Timestamp) -> Option<(&'static Asset, Address)> {
        let Exact { signed, asset } = self.exact.as_ref().ok()?;
        signed.valid_before_secs().filter(|until| *until > now.as_secs())?;
        Some((*asset, signed.recipient_by_key(asset)?))
    }

    /// Matches the payment with `accepts`, the entries of the challenge for `terms` in its x402 version.
    pub(crate) fn matching(self, terms: &CallTerms, accepts: Vec<Value>) -> Result<OfferedX402, Refusal> {
        let Self { version, mut payload, client_id, exact } = self;
        let asset = exact.as_ref().ok().map(|exact| exact.asset.address);
        if terms.is_upfront() && version == WireVersion::V1 {
            return Err(Refusal::invalid("invalid_x402_version", UPFRONT_BY_V2));
        }
        let requirements = nearest(accepts, &payload, version, asset).ok_or_else(|| {
            let message = "this host does not accept x402 payments for this tool at the moment; pay with developer credit";
            Refusal::invalid("invalid_payment_requirements", message)
        })?;
        match version {
            WireVersion::V2 => {
                match_v2(&payload, &requirements, terms)?;
                // Facilitators may compare addresses case-sensitively.
                for field in ["asset", "payTo"] {
                    payload["accepted"][field] = requirements[field].clone();
                }
                if let Some(echoed) = payload.get_mut("extensions") {
                    extensions::renew_echo(echoed, terms);
                }
            }
            WireVersion::V1 => match_v1(&payload, &requirements)?,
        }
        let exact = exact?;
        exact.is_asked_for(&requirements)?;
        Ok(OfferedX402::of(version, payload, requirements, client_id, exact))
    }
}

/// Decodes base64 in either alphabet, with or without padding. Several clients send the URL-safe one.
fn decode(text: &str) -> Option<Vec<u8>> {
    let engine = if text.contains(['-', '_']) { URL_SAFE_PAD_INDIFFERENT } else { STANDARD_PAD_INDIFFERENT };
    engine.decode(text).ok()
}

/// Returns whether two values are equal. EVM addresses are compared case-insensitively.
fn is_same(given: &Value, requested: &Value) -> bool {
    let is_address = |text: &str| text.len() == 42 && text.starts_with("0x");
    match (given, requested) {
        (Value::String(given), Value::String(requested)) if is_address(requested) => given.eq_ignore_ascii_case(requested),
        (given, requested) => given == requested,
    }
}

impl OfferedPayment {
    /// Returns whether it contains data that only its payer knows. All signed data is on the chain once it has settled.
    pub fn is_private(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::X402 { version, header } => ShownPayment::decode(*version, header).is_ok_and(|shown| shown.is_private()),
            Self::Credit(_) => true,
        }
    }
}

fn named_digest(digest: &str, name: &str) -> String {
    hex::encode(Sha256::new().chain_update(digest).chain_update(name).finalize())
}

/// Returns the entry that the payment names by scheme, network and token, or the closest one, so that the error
/// describes the difference.
fn nearest(accepts: Vec<Value>, payload: &Value, version: WireVersion, asset: Option<&str>) -> Option<Value> {
    let (named, asset) = match version {
        WireVersion::V1 => (payload, asset),
        WireVersion::V2 => (&payload["accepted"], payload["accepted"]["asset"].as_str()),
    };
    let likeness = |entry: &Value| {
        let network = entry["network"] == named["network"];
        let asset = network && asset.is_some_and(|asset| is_same(&json!(asset), &entry["asset"]));
        (network, asset, entry["scheme"] == named["scheme"])
    };
    let max = accepts.iter().map(likeness).max()?;
    accepts.into_iter().find(|entry| likeness(entry) == max)
}

impl Exact {
    /// Parses the signed part of a payment for this network, in the given token if it is named.
    fn read(payload: &Value, network: &Value, asset: Option<&Value>) -> Result<Self, Refusal> {
        let network = Network::named(network.as_str().unwrap_or_default());
        let network = network.ok_or_else(|| Refusal::invalid("invalid_network", "unknown network"))?;
        let signed = SignedPayload::read(&payload["payload"], network)?;
        let asset = match asset {
            Some(named) => named.as_str().and_then(|named| Asset::named(network, named)),
            None => signed.asset(network),
        };
        let asset = asset.ok_or_else(|| Refusal::invalid("invalid_payment_requirements", "unknown asset"))?;
        Ok(Self { signed, asset })
    }

    /// Compares the signed part with the requirements, as far as that needs no requests.
    fn is_asked_for(&self, requirements: &Value) -> Result<(), Refusal> {
        if requirements["asset"] != self.asset.address {
            return Err(Refusal::invalid("invalid_payment_requirements", "the payment moves a token that this tool does not accept"));
        }
        let requested = match &self.signed {
            SignedPayload::Transfer { .. } | SignedPayload::Transaction(_) => "exact",
            SignedPayload::Permit { .. } => "upto",
        };
        if requirements["scheme"] != requested {
            return Err(Refusal::invalid(
                "invalid_payload",
                format!("the signed data is not a payment of the scheme {}", requirements["scheme"]),
            ));
        }
        match &self.signed {
            SignedPayload::Transfer { .. } => Ok(()),
            SignedPayload::Permit { authorization, .. } => permits(authorization, requirements),
            SignedPayload::Transaction(transaction) => self.moves(transaction, requirements),
        }
    }

    fn moves(&self, transaction: &Transaction, requirements: &Value) -> Result<(), Refusal> {
        if transaction.mint != self.asset.address {
            return Err(Refusal::invalid(
                "invalid_payment_requirements",
                "the transaction moves a token that the requirements do not name",
            ));
        }
        if amount_of(requirements) != Some(transaction.amount.to_string().as_str()) {
            let code = "invalid_exact_svm_payload_transaction_amount_mismatch";
            return Err(Refusal::invalid(code, "the transaction's amount does not equal the price"));
        }
        Ok(())
    }
}

/// Checks that a permit covers the requirements, and that nobody else can take it.
fn permits(authorization: &PermitAuthorization, requirements: &Value) -> Result<(), Refusal> {
    let permit = Permit::parse(authorization).ok_or_else(|| malformed("`payload.permit2Authorization` is malformed"))?;
    let is = |named: &Value, address| named.as_str().and_then(|text| text.parse::<Address>().ok()) == Some(address);
    let wrong = [
        ("invalid_permit2_spender", permit.spender != UPTO_PROXY),
        ("invalid_permit2_recipient_mismatch", !is(&requirements["payTo"], permit.to)),
        ("upto_facilitator_mismatch", !is(&requirements["extra"]["facilitatorAddress"], permit.facilitator)),
        ("permit2_token_mismatch", !is(&requirements["asset"], permit.token)),
        ("permit2_amount_mismatch", amount_of(requirements) != Some(authorization.permitted.amount.as_str())),
    ];
    match wrong.into_iter().find(|(_, wrong)| *wrong) {
        Some((code, _)) => Err(Refusal::invalid(code, "the permit does not match the terms of this tool")),
        None => Ok(()),
    }
}

/// Returns the required amount, in either version.
fn amount_of(requirements: &Value) -> Option<&str> {
    requirements["amount"].as_str().or(requirements["maxAmountRequired"].as_str())
}

impl OfferedX402 {
    /// Parses a payment from an intent, whose terms were matched before.
    pub(crate) fn from_parts(version: WireVersion, payload: Value, requirements: Value) -> Result<Self, Refusal> {
        let exact = Exact::read(&payload, &requirements["network"], Some(&requirements["asset"]))?;
        let client_id = client_id(&payload)?;
        Ok(Self::of(version, payload, requirements, client_id, exact))
    }

    fn of(version: WireVersion, payload: Value, requirements: Value, client_id: Option<String>, exact: Exact) -> Self {
        let Exact { signed, asset } = exact;
        Self {
            version,
            payload,
            requirements,
            signed,
            asset,
            client_id,
            spent_before: OnceLock::new(),
            by_key: OnceLock::new(),
            tried_gas: OnceLock::new(),
            has_code: Default::default(),
        }
    }

    /// Returns what the payer ordered on an EVM network, and the signature.
    pub(crate) fn order(&self) -> Option<(Order, &str)> {
        self.signed.order()
    }

    /// Returns whether the payer's key signed it, or `None` if that takes more than its signature to know.
    pub(crate) fn is_signed_by_key(&self) -> Option<bool> {
        let (order, signature) = self.order()?;
        Some(*self.by_key.get_or_init(|| order.signed_by_payer(signature, self.asset)))
    }

    /// Records that the payment was spent before this host asked anybody to settle it.
    pub(crate) fn note_spent_before(&self) {
        _ = self.spent_before.set(());
    }

    /// Returns whether a facilitator reported that the payment was spent before this host asked anybody to settle it.
    pub(crate) fn was_spent_before(&self) -> bool {
        self.spent_before.get().is_some()
    }

    /// Records the gas limit of the payment's transaction from a simulation. Returns that of the first simulation.
    pub(crate) fn note_tried_gas(&self, limit: u64) -> u64 {
        *self.tried_gas.get_or_init(|| limit)
    }

    /// Returns the gas that its transaction needs, or `None` if it was not simulated.
    pub(crate) fn tried_gas(&self) -> Option<TriedGas> {
        let limit = *self.tried_gas.get()?;
        let by_contract = self.by_key.get() == Some(&false) || self.has_code.iter().any(|seen| seen.get() == Some(&true));
        Some(TriedGas { limit, by_contract })
    }

    /// Records whether the payer's address has code: a contract, or a delegation by its key (EIP-7702). In both cases
    /// tokens ask it to verify the signature. An address can get code between the two checks.
    pub(crate) fn note_code(&self, has_code: bool) {
        let [verified, prepared] = &self.has_code;
        if verified.set(has_code).is_err() {
            _ = prepared.set(has_code);
        }
    }

    /// Returns the payer, in lower case if the network's addresses are case-insensitive.
    pub fn payer(&self) -> String {
        self.signed.payer()
    }

    /// Returns the payment's id.
    pub fn id(&self) -> PaymentId {
        self.signed.id(self.asset)
    }

    /// Returns the amount to move, in the token's smallest unit.
    pub fn amount(&self) -> String {
        match &self.signed {
            SignedPayload::Transfer { .. } | SignedPayload::Transaction(_) => self.signed.amount(),
            SignedPayload::Permit { .. } => self.asked().to_owned(),
        }
    }

    /// Reduces the required amount to the actual charge of a permit.
    pub(crate) fn charge(&mut self, amount: MicroUsd) {
        if matches!(self.signed, SignedPayload::Permit { .. }) {
            self.requirements["amount"] = json!(self.asset.atomic(amount).to_string());
        }
    }

    /// Returns the required amount, in the token's smallest unit.
    pub(crate) fn asked(&self) -> &str {
        amount_of(&self.requirements).unwrap_or_default()
    }

    /// Returns when the signed part expires, in seconds since 1970. `None` if it does not say.
    pub(crate) fn valid_before_secs(&self) -> Option<u64> {
        self.signed.valid_before_secs()
    }
}

/// Checks that the client's `accepted` contains every field of the requirements. Keys may be added inside `extra`.
fn match_v2(payload: &Value, requirements: &Value, terms: &CallTerms) -> Result<(), Refusal> {
    let accepted = &payload["accepted"];
    let mismatch =
        |field: &str| Refusal::invalid("invalid_payment_requirements", format!("`accepted.{field}` does not match the terms of this tool"));
    for (field, requested) in requirements.as_object().into_iter().flatten() {
        let given = &accepted[field];
        let same = match requested.as_object() {
            Some(entries) => entries.iter().all(|(name, value)| is_same(&given[name], value)),
            None => is_same(given, requested),
        };
        if !same {
            return Err(mismatch(field));
        }
    }
    let flow = &accepted["extra"]["paymentFlow"];
    if !terms.is_upfront() && !flow.is_null() && flow != "authorization" {
        return Err(Refusal::invalid("invalid_payment_requirements", "`accepted.extra.paymentFlow`: this tool is charged after its run"));
    }
    let resource = &payload["resource"]["url"];
    if !resource.is_null()
        && !resource.as_str().is_some_and(|url| EntryMethod::ALL.iter().any(|method| is_same_url(url, &terms.resource(*method))))
    {
        return Err(Refusal::invalid("invalid_payment_requirements", "the `resource.url` of the payment belongs to another tool"));
    }
    extensions::check_echo(&payload["extensions"], terms)
}

/// Returns whether two URLs name the same resource. A trailing slash and the case of scheme and host do not matter.
fn is_same_url(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Some(url)
    };
    one == other || plain(one).is_some_and(|one| Some(one) == plain(other))
}

fn match_v1(payload: &Value, requirements: &Value) -> Result<(), Refusal> {
    if payload["scheme"] != requirements["scheme"] {
        return Err(Refusal::invalid("invalid_scheme", "this tool requires the scheme `exact`"));
    }
    if payload["network"] != requirements["network"] {
        return Err(Refusal::invalid("invalid_network", format!("this tool accepts payments on {}", requirements["network"])));
    }
    Ok(())
}

fn client_id(payload: &Value) -> Result<Option<String>, Refusal> {
    match &payload["extensions"][PAYMENT_IDENTIFIER]["info"]["id"] {
        Value::Null => Ok(None),
        Value::String(id) if (16..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') => {
            Ok(Some(id.clone()))
        }
        _ => Err(Refusal::Misnamed),
    }
}

#[cfg(test)]
mod tests;
