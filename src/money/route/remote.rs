//! Routes from a quote API like LI.FI's: `GET {url}/quote/toAmount`, which returns its best route.
//!
//! Answers are read within limits, and texts are our own. There is no fallback: estimates must not look like an offer.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_tool::MicroUsd;
use url::Url;

use super::{
    Cost, Due, Handoff, Holding, Route, RouteError, RouteProvider, Start, Step, Way,
    amount::{decimal, dollars},
    table::{self, PLACES},
};
use crate::{
    ConfigError, checked_address,
    facilitator::post::{Answer, Poster},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// LI.FI's header for the API key.
static KEY: HeaderName = HeaderName::from_static("x-lifi-api-key");

/// Placeholder for an unknown wallet. The API requires one, and the cost does not depend on it.
const NOBODY: &str = "0x000000000000000000000000000000000000dEaD";

/// Maximum length of an asset's or service's name, in characters.
const MAX_NAME: usize = 64;

/// Maximum length of transaction data that is passed on, in characters.
const MAX_DATA: usize = 64 << 10;

/// Routes from the API at a configured URL.
#[derive(Debug)]
pub struct RemoteRoutes {
    url: Url,
    key: HeaderMap,
    poster: Poster,
}

/// The fields of an answer that are used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offer {
    #[serde(default)]
    tool_details: Tool,
    action: Action,
    estimate: Estimate,
    transaction_request: Option<Value>,
}

#[derive(Deserialize, Default)]
struct Tool {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    from_token: Token,
    from_chain_id: u64,
    to_chain_id: u64,
}

#[derive(Deserialize)]
struct Token {
    symbol: String,
    decimals: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Estimate {
    from_amount: String,
    to_amount: String,
    to_amount_min: Option<String>,
    #[serde(rename = "fromAmountUSD")]
    from_amount_usd: String,
    #[serde(default)]
    fee_costs: Vec<Fee>,
    #[serde(default)]
    gas_costs: Vec<Fee>,
    #[serde(default)]
    execution_duration: f64,
}

#[derive(Deserialize)]
struct Fee {
    #[serde(rename = "amountUSD")]
    amount_usd: String,
    /// Whether it is already subtracted from the output.
    #[serde(default)]
    included: bool,
}

impl RemoteRoutes {
    /// Constructs a client for the API at `url`, with an optional `key`.
    ///
    /// # Errors
    ///
    /// An invalid URL, a key that is not a valid header value, or no HTTP client.
    pub fn new(url: &str, key: Option<&str>) -> Result<Self, ConfigError> {
        let mut base = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "https" | "http")).ok_or(ConfigError::RoutesUrl)?;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.trim()).map_err(|_| ConfigError::RoutesKey)?;
            value.set_sensitive(true);
            headers.insert(&KEY, value);
        }
        Ok(Self { url: base.join("quote/toAmount").map_err(|_| ConfigError::RoutesUrl)?, key: headers, poster: Poster::new()? })
    }

    async fn ask(&self, asked: &Asked<'_>, due: &Due) -> Result<Value, RouteError> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("fromChain", &asked.from_chain.to_string())
            .append_pair("toChain", &asked.to_chain.to_string())
            .append_pair("fromToken", &asked.asset)
            .append_pair("toToken", &due.asset)
            .append_pair("toAmount", &due.atomic.to_string())
            .append_pair("fromAddress", asked.address.as_deref().unwrap_or(NOBODY));
        match self.poster.get(url.as_str(), self.key.clone(), PATIENCE).await {
            Answer::Json(status, offer) if status.is_success() => Ok(offer),
            Answer::Json(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY, _) => {
                Err(RouteError::NoRoute(format!(
                    "no way is known from {} on {} to {} on {}",
                    asked.asset, asked.network, due.symbol, due.network
                )))
            }
            Answer::Json(status, _) => Err(RouteError::Unavailable(format!("it answered {status}"))),
            Answer::Unsent(why) | Answer::Nothing(why) | Answer::TooLarge(why) => Err(RouteError::Unavailable(why)),
        }
    }
}

struct Asked<'a> {
    network: &'a str,
    from_chain: u64,
    to_chain: u64,
    asset: String,
    address: Option<String>,
}

#[async_trait]
impl RouteProvider for RemoteRoutes {
    async fn route(&self, start: &Start, due: &Due) -> Result<Route, RouteError> {
        let asked = asked(start, due)?;
        let direct =
            asked.from_chain == asked.to_chain && [due.symbol, &due.asset].iter().any(|name| name.eq_ignore_ascii_case(&asked.asset));
        if direct || due.value.is_zero() {
            return Ok(nothing_to_convert(due, asked.network));
        }
        let offer = self.ask(&asked, due).await?;
        read(offer, &asked, due).ok_or_else(|| RouteError::Unavailable("its answer does not read, or delivers too little".to_owned()))
    }

    fn asks(&self) -> bool {
        true
    }
}

/// Returns the chain id of a network, by name or CAIP-2 id.
fn chain(called: &str) -> Option<u64> {
    let number = |id: &str| id.strip_prefix("eip155:")?.parse().ok();
    number(&called.trim().to_lowercase()).or_else(|| table::place(called)?.ids.iter().find_map(|id| number(id)))
}

fn asked<'a>(start: &'a Start, due: &'a Due) -> Result<Asked<'a>, RouteError> {
    let wrong = |pointer, message: String, known| RouteError::Start { pointer, message, known };
    let to_chain = chain(&due.network).ok_or_else(|| RouteError::NoRoute(format!("no way to {} is known", due.network)))?;
    let network = start.network.as_deref().unwrap_or(&due.network);
    let from_chain = chain(network).ok_or_else(|| {
        let known: Vec<_> = PLACES.iter().filter(|place| chain(place.ids[0]).is_some()).map(|place| place.ids[0].to_owned()).collect();
        wrong(
            "/startNetwork",
            format!("`startNetwork` is not known; use one of {}, or `eip155:` and a chain's number", known.join(", ")),
            known,
        )
    })?;
    let asset = start.asset.as_deref().unwrap_or(due.symbol).trim();
    if !(1..=MAX_NAME).contains(&asset.len()) || !asset.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
        return Err(wrong("/startAsset", "`startAsset` is a token's symbol or its address".to_owned(), vec![]));
    }
    let address = start.address.as_deref().map(|address| {
        let checked = checked_address(address);
        checked
            .ok_or_else(|| wrong("/fromAddress", "`fromAddress` has 0x and 40 hex digits, with their checksum if any".to_owned(), vec![]))
    });
    Ok(Asked { network, from_chain, to_chain, asset: asset.to_owned(), address: address.transpose()? })
}

fn nothing_to_convert(due: &Due, network: &str) -> Route {
    Route {
        provider: "http",
        indicative: false,
        rates_as_of: None,
        start: Holding::arrived(due, network),
        settlement: due.into(),
        route: Way { steps: vec![], seconds: 0 },
        estimated_cost: Cost { cost_usd: MicroUsd::ZERO, all_in_usd: due.value },
        handoff: Handoff { kind: "none", actions: vec![due.last_action().to_owned()], transaction_request: None },
        notes: vec!["Nothing to convert: pay directly.".to_owned()],
    }
}

/// Parses an answer. `None` if it is invalid, is for another request, or delivers less than the amount due.
fn read(offer: Value, asked: &Asked<'_>, due: &Due) -> Option<Route> {
    let Offer { tool_details, action, estimate, transaction_request } = Offer::deserialize(offer).ok()?;
    let least = estimate.to_amount_min.as_ref().unwrap_or(&estimate.to_amount).parse::<u128>().ok()?;
    if (action.from_chain_id, action.to_chain_id) != (asked.from_chain, asked.to_chain)
        || least < due.atomic
        || action.from_token.decimals > 36
    {
        return None;
    }
    let beside = estimate.gas_costs.iter().chain(estimate.fee_costs.iter().filter(|fee| !fee.included));
    let spent = dollars(&estimate.from_amount_usd)?;
    let all_in = beside.map(|fee| dollars(&fee.amount_usd)).try_fold(spent.0, |sum, fee| sum.checked_add(fee?.0))?.max(due.value.0);
    let cost = MicroUsd(all_in - due.value.0);
    let start = Holding {
        network: asked.network.chars().take(MAX_NAME).collect(),
        asset: printable(&action.from_token.symbol)?,
        amount: decimal(estimate.from_amount.parse().ok()?, action.from_token.decimals),
        usd: spent,
    };
    let seconds = Duration::try_from_secs_f64(estimate.execution_duration).ok()?.as_secs();
    let kind = if asked.from_chain == asked.to_chain { "swap" } else { "bridge" };
    let receive = Holding::arrived(due, &due.network);
    let action = format!(
        "{kind}: {} {} on {} becomes {} {} on {}.",
        start.amount, start.asset, start.network, receive.amount, receive.asset, receive.network
    );
    let by = tool_details.name.as_deref().and_then(printable);
    let step = Step { step: 1, kind, by, spend: start.clone(), receive, cost_usd: cost, seconds };
    let transaction_request = asked.address.as_ref().and_then(|from| transaction(&transaction_request?, from));
    Some(Route {
        provider: "http",
        indicative: false,
        rates_as_of: None,
        start,
        settlement: due.into(),
        route: Way { steps: vec![step], seconds },
        estimated_cost: Cost { cost_usd: cost, all_in_usd: MicroUsd(all_in) },
        handoff: Handoff { kind: "wallet", actions: vec![action, due.last_action().to_owned()], transaction_request },
        notes: vec![],
    })
}

/// Returns a foreign text if it is short and printable.
fn printable(text: &str) -> Option<String> {
    let fits = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    fits.then(|| text.to_owned())
}

/// Returns the valid fields of a transaction that `from` is to sign. `None` if a required field is missing or invalid.
fn transaction(request: &Value, from: &str) -> Option<Value> {
    let hex = |name: &str| {
        let text = request[name].as_str().filter(|text| text.len() <= MAX_DATA)?;
        text.strip_prefix("0x")?.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| json!(text))
    };
    let to = checked_address(request["to"].as_str()?)?;
    let mut transaction = json!({ "from": from, "to": to, "data": hex("data")?, "chainId": request["chainId"].as_u64()? });
    for name in ["value", "gasLimit", "gasPrice"] {
        if let Some(value) = hex(name) {
            transaction[name] = value;
        }
    }
    Some(transaction)
}
