//! Reads a 402 challenge of x402: version 2 in the `PAYMENT-REQUIRED` header, version 1 in the body.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::{ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, HeaderMap, HeaderName};
use serde_json::{Number, Value, json};
use tollhouse_base::plural::plural;
use tollhouse_capability::guard::Fetched;

use super::{
    notes::{Notes, short},
    request::same_host,
};

/// Returns the version 1 name of a CAIP-2 network.
pub(super) fn v1_name(network: &str) -> Option<&'static str> {
    let chain: u64 = network.strip_prefix("eip155:")?.parse().ok()?;
    V1_NETWORKS.iter().find(|(_, known)| *known == chain).map(|(name, _)| *name)
}

/// Maximum length of a header that all clients and proxies accept, in bytes.
const HEADER_BYTES: usize = 8 << 10;
/// Maximum number of entries of `accepts` that a report repeats.
const SHOWN: usize = 10;

/// Networks of version 1 by name, with their chain ids.
const V1_NETWORKS: &[(&str, u64)] = &[
    ("ethereum", 1),
    ("sepolia", 11_155_111),
    ("base", 8_453),
    ("base-sepolia", 84_532),
    ("avalanche", 43_114),
    ("avalanche-fuji", 43_113),
    ("polygon", 137),
    ("polygon-amoy", 80_002),
    ("iotex", 4_689),
    ("sei", 1_329),
    ("sei-testnet", 1_328),
    ("abstract", 2_741),
    ("abstract-testnet", 11_124),
    ("peaq", 3_338),
    ("story", 1_514),
    ("educhain", 41_923),
    ("skale-base-sepolia", 324_705_682),
    ("megaeth", 4_326),
    ("monad", 143),
    ("stable", 988),
    ("stable-testnet", 2_201),
    ("celo", 42_220),
    ("flare", 14),
];

/// Dollar tokens that clients pay in without configuration, all with 6 decimals.
const KNOWN_ASSETS: &[(u64, &str)] = &[
    (8_453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
    (84_532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
    (1, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
    (137, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"),
    (42_161, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831"),
    (43_114, "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"),
];
/// One dollar in these tokens. Clients refuse more unless their user raised the limit.
const ONE_DOLLAR: u128 = 1_000_000;

/// The challenge of a 402 response.
pub(super) struct Challenge {
    /// The x402 versions of its challenges.
    pub(super) versions: Vec<u8>,
    pub(super) terms: Vec<AcceptedTerms>,
}

impl Challenge {
    pub(super) fn shown(&self) -> Value {
        json!({ "versions": self.versions, "accepts": self.terms.iter().take(SHOWN).map(AcceptedTerms::shown).collect::<Vec<_>>() })
    }
}

pub(super) fn read(fetched: &Fetched, notes: &mut Notes) -> Challenge {
    let v2 = header(fetched, notes);
    let body: Option<Value> = serde_json::from_slice(&fetched.body).ok().filter(Value::is_object);
    let v1 = body.as_ref().filter(|body| body["x402Version"] == 1);
    if v2.is_none() && v1.is_none() {
        missing(body.as_ref(), notes);
    }
    // Clients do not look there, but it is useful for a report.
    let v2 = v2.or_else(|| body.clone().filter(|body| body["x402Version"] == 2));
    // A seller with only version 2, for example for the scheme `upto`, may offer version 1 clients no way to pay.
    let v1 = v1.filter(|body| v2.is_none() || body["accepts"].as_array().is_none_or(|options| !options.is_empty()));
    let mut terms = Vec::new();
    if let Some(challenge) = &v2 {
        version_2(challenge, fetched, &mut terms, notes);
    }
    match v1 {
        Some(challenge) => version_1(challenge, &mut terms, notes),
        None if v2.is_some() => notes.warning(
            "v1_absent",
            "the body is not a version 1 challenge: clients of version 1 cannot pay, and throw if it has no `accepts`",
        ),
        None => {}
    }
    compare(&terms, notes);
    answer_headers(&fetched.headers, notes);
    let versions: Vec<u8> = v1.map(|_| 1).into_iter().chain(v2.as_ref().map(|_| 2)).collect();
    Challenge { versions, terms }
}

/// Parses the version 2 challenge in the header, if there is one.
fn header(fetched: &Fetched, notes: &mut Notes) -> Option<Value> {
    let value = fetched.headers.get("payment-required")?;
    if value.len() > HEADER_BYTES {
        notes
            .warning("header_size", format!("PAYMENT-REQUIRED is {} bytes; above {HEADER_BYTES} proxies and clients drop it", value.len()));
    }
    let Ok(json) = STANDARD.decode(value.as_bytes()) else {
        notes.error("header_base64", "PAYMENT-REQUIRED is not standard base64 with padding");
        return None;
    };
    match serde_json::from_slice::<Value>(&json) {
        Ok(challenge) if challenge.is_object() => Some(challenge),
        Ok(_) | Err(_) => {
            notes.error("header_json", "PAYMENT-REQUIRED is not a JSON object");
            None
        }
    }
}

fn missing(body: Option<&Value>, notes: &mut Notes) {
    match body {
        Some(body) if body["x402Version"] == 2 => {
            notes.error("v2_in_body", "the version 2 challenge is only in the body; clients read it from the PAYMENT-REQUIRED header");
        }
        Some(body) if body["accepts"].is_array() => notes.error("version", "the body has `accepts` but no `x402Version` of 1"),
        Some(_) | None => notes.error("no_challenge", "the answer is 402 without a challenge in PAYMENT-REQUIRED or in the body"),
    }
}

fn version_2(challenge: &Value, fetched: &Fetched, terms: &mut Vec<AcceptedTerms>, notes: &mut Notes) {
    if challenge["x402Version"] != 2 {
        notes.error("version", "PAYMENT-REQUIRED: `x402Version` is not 2");
    }
    match challenge["resource"]["url"].as_str() {
        None | Some("") => notes.error("resource", "PAYMENT-REQUIRED: `resource.url` is missing"),
        Some(url) if !url.starts_with("mcp://") && !same_host(url, &fetched.url) => {
            notes.warning("resource", format!("PAYMENT-REQUIRED: `resource.url` names another host: {}", short(url)));
        }
        Some(_) => {}
    }
    resource_texts(&challenge["resource"], notes);
    let entries = accepts(challenge, "PAYMENT-REQUIRED", notes);
    for (index, entry) in entries.iter().enumerate() {
        let mut entry = Entry { at: format!("PAYMENT-REQUIRED /accepts/{index}"), value: entry, notes };
        let network = entry.text("network");
        if network.as_deref().is_some_and(|network| !network.contains(':')) {
            entry.error("network", "`network` is not a CAIP-2 id, for example `eip155:8453`");
        }
        let amount = entry.amount("amount");
        terms.push(entry.common(2, network, amount));
    }
    for (name, extension) in challenge["extensions"].as_object().into_iter().flatten() {
        if !extension.is_object() || extension.get("info").is_none() {
            notes.warning("extension", format!("PAYMENT-REQUIRED: extension `{}` has no `info`", short(name)));
        }
    }
    notes.ok("v2", format!("version 2 challenge with {} to pay", plural(entries.len(), "way")));
}

fn resource_texts(resource: &Value, notes: &mut Notes) {
    if resource["description"].as_str().is_some_and(|text| text.chars().count() > 500) {
        notes.warning("resource", "`resource.description` is above 500 characters, which some facilitators refuse");
    }
    let printable = |text: &str| (1..=32).contains(&text.len()) && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if resource["serviceName"].as_str().is_some_and(|name| !printable(name)) {
        notes.warning("resource", "`resource.serviceName` must have 1 to 32 printable ASCII characters");
    }
    if resource["tags"].as_array().is_some_and(|tags| tags.len() > 5 || tags.iter().any(|tag| !tag.as_str().is_some_and(printable))) {
        notes.warning("resource", "`resource.tags` must have at most 5 strings of 1 to 32 printable ASCII characters");
    }
}

fn version_1(challenge: &Value, terms: &mut Vec<AcceptedTerms>, notes: &mut Notes) {
    let entries = accepts(challenge, "body", notes);
    for (index, value) in entries.iter().enumerate() {
        let mut entry = Entry { at: format!("body /accepts/{index}"), value, notes };
        let network = entry.text("network");
        let known = |name: &str| V1_NETWORKS.iter().find(|(known, _)| *known == name);
        let network = match network.as_deref().map(|name| (name, known(name))) {
            Some((_, Some((_, chain)))) => Some(format!("eip155:{chain}")),
            Some((name, None)) => {
                entry.warning("network", &format!("clients of version 1 do not know the `network` {}", short(name)));
                network
            }
            None => None,
        };
        let amount = entry.amount("maxAmountRequired");
        for field in ["description", "mimeType"] {
            if !value[field].is_string() {
                entry.error("v1_strict", &format!("`{field}` is not a string: clients of version 1 throw"));
            }
        }
        if value.get("outputSchema").is_some_and(|schema| !schema.is_object()) {
            entry.error("v1_strict", "`outputSchema` is not an object: clients of version 1 throw");
        }
        if value["resource"].as_str().is_none_or(|resource| url::Url::parse(resource).is_err()) {
            entry.error("resource", "`resource` is not an absolute URL");
        }
        terms.push(entry.common(1, network, amount));
    }
    notes.ok("v1", format!("version 1 challenge with {} to pay", plural(entries.len(), "way")));
}

fn accepts<'a>(challenge: &'a Value, position: &str, notes: &mut Notes) -> &'a [Value] {
    match challenge["accepts"].as_array() {
        Some(entries) if !entries.is_empty() => entries,
        Some(_) | None => {
            notes.error("accepts", format!("{position}: `accepts` must be a list with at least one way to pay"));
            &[]
        }
    }
}

/// A way to pay, as far as it could be parsed.
pub(super) struct AcceptedTerms {
    pub(super) version: u8,
    pub(super) scheme: Option<String>,
    /// The CAIP-2 id, for both versions.
    pub(super) network: Option<String>,
    pub(super) amount: Option<u128>,
    pub(super) asset: Option<String>,
    pub(super) pay_to: Option<String>,
    /// The timeout as given, maybe fractional.
    pub(super) seconds: Option<Number>,
    /// The token's EIP-712 domain, if given.
    pub(super) domain: [Option<String>; 2],
}

impl AcceptedTerms {
    fn shown(&self) -> Value {
        let amount = self.amount.map(|amount| amount.to_string());
        json!({
            "x402Version": self.version, "scheme": self.scheme, "network": self.network, "amount": amount,
            "asset": self.asset, "payTo": self.pay_to, "maxTimeoutSeconds": self.seconds,
        })
    }
}

/// An entry of `accepts` that is being parsed.
struct Entry<'a> {
    at: String,
    value: &'a Value,
    notes: &'a mut Notes,
}

impl Entry<'_> {
    fn error(&mut self, code: &'static str, what: &str) {
        self.notes.error(code, format!("{}: {what}", self.at));
    }

    fn warning(&mut self, code: &'static str, what: &str) {
        self.notes.warning(code, format!("{}: {what}", self.at));
    }

    fn text(&mut self, field: &str) -> Option<String> {
        let text = self.value[field].as_str().filter(|text| !text.is_empty()).map(short);
        if text.is_none() {
            self.error("field", &format!("`{field}` is missing or not a string"));
        }
        text
    }

    fn amount(&mut self, field: &str) -> Option<u128> {
        let digits = self.value[field].as_str().filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
        let amount = digits.and_then(|digits| digits.parse().ok());
        if amount.is_none() {
            self.error("amount", &format!("`{field}` must be a string of digits, in the asset's smallest unit"));
        }
        amount
    }

    /// Parses the fields that both versions have.
    fn common(&mut self, version: u8, network: Option<String>, amount: Option<u128>) -> AcceptedTerms {
        let (scheme, asset, pay_to) = (self.text("scheme"), self.text("asset"), self.text("payTo"));
        let seconds =
            self.value["maxTimeoutSeconds"].as_number().filter(|seconds| seconds.as_f64().is_some_and(|seconds| seconds > 0.0)).cloned();
        if seconds.is_none() {
            self.error("timeout", "`maxTimeoutSeconds` must be a number above 0");
        }
        let chain = network.as_deref().and_then(|network| network.strip_prefix("eip155:")).and_then(|id| id.parse::<u64>().ok());
        if let Some(chain) = chain {
            self.evm(chain, scheme.as_deref(), asset.as_deref(), pay_to.as_deref(), amount);
        }
        let domain = ["name", "version"].map(|name| self.value["extra"][name].as_str().map(short));
        AcceptedTerms { version, scheme, network, amount, asset, pay_to, seconds, domain }
    }

    fn evm(&mut self, chain: u64, scheme: Option<&str>, asset: Option<&str>, pay_to: Option<&str>, amount: Option<u128>) {
        for (field, address) in [("asset", asset), ("payTo", pay_to)] {
            if let Some(address) = address {
                self.address(field, address);
            }
        }
        let extra = &self.value["extra"];
        let by_authorization = extra["assetTransferMethod"].as_str().is_none_or(|method| method == "eip3009");
        if scheme == Some("exact") && by_authorization && !(extra["name"].is_string() && extra["version"].is_string()) {
            self.error("extra", "`extra.name` and `extra.version`, the token's EIP-712 domain, are missing: nothing can be signed");
        }
        if extra["paymentFlow"].as_str().is_some_and(|flow| !matches!(flow, "authorization" | "upfront" | "escrow")) {
            self.warning("flow", "clients do not know this `extra.paymentFlow`, and skip the entry");
        }
        let known = asset.is_some_and(|asset| KNOWN_ASSETS.iter().any(|(on, known)| *on == chain && known.eq_ignore_ascii_case(asset)));
        if !known && asset.is_some() {
            self.warning("asset", "the asset is not a dollar token that clients pay in by default");
        }
        if known && amount.is_some_and(|amount| amount > ONE_DOLLAR) {
            self.warning("amount", "the price is above 1 USD, which clients refuse unless their user raised the limit");
        }
    }

    fn address(&mut self, field: &str, address: &str) {
        let Ok(parsed) = address.parse::<alloy_primitives::Address>() else {
            return self.error("address", &format!("`{field}` must be an address with 0x and 40 hex digits"));
        };
        let digits = address.trim_start_matches("0x");
        let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
        if mixed && parsed.to_checksum(None) != address {
            self.error("address", &format!("`{field}` has a wrong checksum, probably a typing error: money would be lost"));
        } else if parsed.is_zero() {
            self.error("address", &format!("`{field}` is the zero address"));
        }
    }
}

/// Checks that both versions have the same terms for the same network and token.
fn compare(terms: &[AcceptedTerms], notes: &mut Notes) {
    for old in terms.iter().filter(|terms| terms.version == 1) {
        let same_place = |new: &&AcceptedTerms| {
            new.version == 2 && new.scheme == old.scheme && new.network == old.network && lower(&new.asset) == lower(&old.asset)
        };
        let Some(new) = terms.iter().find(same_place) else { continue };
        if new.amount != old.amount || lower(&new.pay_to) != lower(&old.pay_to) {
            notes.error("versions_differ", "the two versions of the challenge differ in amount or payTo for the same network and asset");
        }
    }
}

fn lower(text: &Option<String>) -> Option<String> {
    text.as_ref().map(|text| text.to_ascii_lowercase())
}

fn answer_headers(headers: &HeaderMap, notes: &mut Notes) {
    if !lists(headers, &CACHE_CONTROL, "no-store") {
        notes.warning("cache", "the challenge lacks `Cache-Control: no-store`, so a cache can serve the 402 to clients that paid");
    }
    if headers.contains_key("payment-required") && !lists(headers, &ACCESS_CONTROL_EXPOSE_HEADERS, "payment-required") {
        notes.info("cors", "PAYMENT-REQUIRED is not in `Access-Control-Expose-Headers`: scripts in browsers cannot read it");
    }
}

fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(item) || listed.trim() == "*")
}

/// Returns whether a document is a challenge in a place where it has no effect.
pub(super) fn looks_like_one(document: &Value) -> bool {
    document.get("x402Version").is_some() && document.get("accepts").is_some()
}
