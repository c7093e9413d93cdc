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
    AmountDue, Handoff, Holding, Route, RouteCost, RouteError, RouteProvider, RouteStart, RouteStep, RouteSteps,
    amount::{decimal, dollars},
    table::{self, PLACES},
};
use crate::{
    ConfigError, checked_address,
    facilitator::json_client::{HttpAnswer, JsonClient, web_url},
};

const TIMEOUT: Duration = Duration::from_secs(10);

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
    poster: JsonClient,
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
        let (url, key) = Self::parse(url, key)?;
        Ok(Self { url, key, poster: JsonClient::new()? })
    }

    /// Checks the form of the URL and the key, with the errors of [`RemoteRoutes::new`].
    pub fn check(url: &str, key: Option<&str>) -> Result<(), ConfigError> {
        Self::parse(url, key).map(drop)
    }

    fn parse(url: &str, key: Option<&str>) -> Result<(Url, HeaderMap), ConfigError> {
        let mut base = web_url(url).ok_or(ConfigError::RoutesUrl)?;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.trim()).map_err(|_| ConfigError::RoutesKey)?;
            value.set_sensitive(true);
            headers.insert(&KEY, value);
        }
        Ok((base.join("quote/toAmount").map_err(|_| ConfigError::RoutesUrl)?, headers))
    }

    async fn ask(&self, request: &QuoteQuery<'_>, due: &AmountDue) -> Result<Value, RouteError> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("fromChain", &request.from_chain.to_string())
            .append_pair("toChain", &request.to_chain.to_string())
            .append_pair("fromToken", &request.asset)
            .append_pair("toToken", due.asset.address)
            .append_pair("toAmount", &due.atomic.to_string())
            .append_pair("fromAddress", request.address.as_deref().unwrap_or(NOBODY));
        match self.poster.get(url.as_str(), self.key.clone(), TIMEOUT).await {
            HttpAnswer::Json(status, offer) if status.is_success() => Ok(offer),
            HttpAnswer::Json(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY, _) => {
                Err(RouteError::NoRoute(format!(
                    "no route is known from {} on {} to {} on {}",
                    request.asset, request.network, due.asset.symbol, due.asset.network.caip2
                )))
            }
            HttpAnswer::Json(status, _) => Err(RouteError::Unavailable(format!("it answered {status}"))),
            HttpAnswer::Unsent(reason) | HttpAnswer::Nothing(reason) | HttpAnswer::TooLarge(reason) => Err(RouteError::Unavailable(reason)),
        }
    }
}

struct QuoteQuery<'a> {
    network: &'a str,
    from_chain: u64,
    to_chain: u64,
    asset: String,
    address: Option<String>,
}

#[async_trait]
impl RouteProvider for RemoteRoutes {
    async fn route(&self, start: &RouteStart, due: &AmountDue) -> Result<Route, RouteError> {
        let request = quote_query(start, due)?;
        let direct = request.from_chain == request.to_chain
            && [due.asset.symbol, due.asset.address].iter().any(|name| name.eq_ignore_ascii_case(&request.asset));
        if direct || due.value.is_zero() {
            return Ok(nothing_to_convert(due, request.network));
        }
        let offer = self.ask(&request, due).await?;
        read(offer, &request, due).ok_or_else(|| RouteError::Unavailable("its answer is malformed, or delivers too little".to_owned()))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Returns the chain id of a network, by name or CAIP-2 id.
fn chain(called: &str) -> Option<u64> {
    let number = |id: &str| id.strip_prefix("eip155:")?.parse().ok();
    number(&called.trim().to_lowercase()).or_else(|| table::place(called)?.ids.iter().find_map(|id| number(id)))
}

fn quote_query<'a>(start: &'a RouteStart, due: &'a AmountDue) -> Result<QuoteQuery<'a>, RouteError> {
    let wrong = |pointer, message: String, known| RouteError::Start { pointer, message, known };
    let target = due.asset.network.caip2;
    let to_chain = chain(target).ok_or_else(|| RouteError::NoRoute(format!("no route to {target} is known")))?;
    let network = start.network.as_deref().unwrap_or(target);
    let from_chain = chain(network).ok_or_else(|| {
        let known: Vec<_> =
            PLACES.iter().filter(|position| chain(position.ids[0]).is_some()).map(|position| position.ids[0].to_owned()).collect();
        wrong(
            "/startNetwork",
            format!("`startNetwork` is unknown; use one of {}, or `eip155:` and the number of a chain", known.join(", ")),
            known,
        )
    })?;
    let asset = start.asset.as_deref().unwrap_or(due.asset.symbol).trim();
    if !(1..=MAX_NAME).contains(&asset.len()) || !asset.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
        return Err(wrong("/startAsset", "`startAsset` must be the symbol or the address of a token".to_owned(), vec![]));
    }
    let address = start.address.as_deref().map(|address| {
        let checked = checked_address(address);
        checked.ok_or_else(|| {
            wrong(
                "/fromAddress",
                "`fromAddress` must have `0x` and 40 hex digits; if it has a checksum, it must be right".to_owned(),
                vec![],
            )
        })
    });
    Ok(QuoteQuery { network, from_chain, to_chain, asset: asset.to_owned(), address: address.transpose()? })
}

fn nothing_to_convert(due: &AmountDue, network: &str) -> Route {
    Route {
        provider: "http",
        indicative: false,
        rates_as_of: None,
        start: Holding::arrived(due, network),
        settlement: due.into(),
        route: RouteSteps { steps: vec![], seconds: 0 },
        estimated_cost: RouteCost { cost_usd: MicroUsd::ZERO, all_in_usd: due.value },
        handoff: Handoff { kind: "none", actions: vec![due.last_action().to_owned()], transaction_request: None },
        notes: vec!["Nothing to convert: pay directly.".to_owned()],
    }
}

/// Parses an answer. `None` if it is invalid, is for another request, or delivers less than the amount due.
fn read(offer: Value, request: &QuoteQuery<'_>, due: &AmountDue) -> Option<Route> {
    let Offer { tool_details, action, estimate, transaction_request } = Offer::deserialize(offer).ok()?;
    let least = estimate.to_amount_min.as_ref().unwrap_or(&estimate.to_amount).parse::<u128>().ok()?;
    if (action.from_chain_id, action.to_chain_id) != (request.from_chain, request.to_chain)
        || least < due.atomic
        || action.from_token.decimals > 36
    {
        return None;
    }
    let alongside = estimate.gas_costs.iter().chain(estimate.fee_costs.iter().filter(|fee| !fee.included));
    let spent = dollars(&estimate.from_amount_usd)?;
    let all_in = alongside.map(|fee| dollars(&fee.amount_usd)).try_fold(spent.0, |sum, fee| sum.checked_add(fee?.0))?.max(due.value.0);
    let cost = MicroUsd(all_in - due.value.0);
    let start = Holding {
        network: request.network.chars().take(MAX_NAME).collect(),
        asset: printable(&action.from_token.symbol)?,
        amount: decimal(estimate.from_amount.parse().ok()?, action.from_token.decimals),
        usd: spent,
    };
    let seconds = Duration::try_from_secs_f64(estimate.execution_duration).ok()?.as_secs();
    let kind = if request.from_chain == request.to_chain { "swap" } else { "bridge" };
    let receive = Holding::arrived(due, due.asset.network.caip2);
    let action = format!(
        "{kind}: {} {} on {} becomes {} {} on {}.",
        start.amount, start.asset, start.network, receive.amount, receive.asset, receive.network
    );
    let by = tool_details.name.as_deref().and_then(printable);
    let step = RouteStep { step: 1, kind, by, spend: start.clone(), receive, cost_usd: cost, seconds };
    let transaction_request = request.address.as_ref().and_then(|from| transaction(&transaction_request?, from));
    Some(Route {
        provider: "http",
        indicative: false,
        rates_as_of: None,
        start,
        settlement: due.into(),
        route: RouteSteps { steps: vec![step], seconds },
        estimated_cost: RouteCost { cost_usd: cost, all_in_usd: MicroUsd(all_in) },
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
