//! Finds out an external seller's price without paying, and returns it in one format for both x402 versions.
//!
//! It sends one unpaid request, or two if GET is refused and no method was given. Nothing is paid or signed. Redirects
//! are not followed, because a payment is bound to the URL that requests it.

use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::Number;
use tollhouse_api::Method;
use tollhouse_base::{clock::Timestamp, cpu_share::CpuTurn, offload::run_blocking};
use tollhouse_capability::guard::{Fetch, FetchError, Fetched};
use tollhouse_money::AmountDue;
use tollhouse_tool::MicroUsd;

use super::{
    ReadinessClient,
    challenge::{self, AcceptedTerms, Challenge, v1_name},
    notes::{Note, Notes, Severity, short},
    request::{post_json, with_agent},
};

/// Time limit per request.
const WALL: Duration = Duration::from_millis(4_500);

/// Maximum size of an answer. A challenge is a few KiB.
const BODY_BYTES: usize = 256 << 10;

/// Maximum number of ways to pay in the result.
const MAX: usize = 20;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SellerQuote {
    url: String,
    /// The method for which it requested payment.
    method: Method,
    /// The x402 versions of its challenges.
    x402_versions: Vec<u8>,
    /// The distinct ways to pay.
    accepts: Vec<Requirement>,
    asked_at: Timestamp,
    /// Problems for clients.
    notes: Vec<Note>,
    /// The amounts due in known tokens.
    #[serde(skip)]
    pub(crate) dues: Vec<AmountDue>,
}

/// A way to pay, for any x402 version.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Requirement {
    x402_versions: Vec<u8>,
    scheme: String,
    /// The network's CAIP-2 id.
    network: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_v1: Option<&'static str>,
    asset: String,
    /// Symbol, if the token is known. The next two fields too are set only for known tokens.
    symbol: Option<&'static str>,
    decimals: Option<u32>,
    amount_usd: Option<MicroUsd>,
    /// The amount in the token's smallest units.
    amount: String,
    pay_to: String,
    max_timeout_seconds: Option<Number>,
    /// The time until which an authorization signed now is valid.
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eip712: Option<Domain>,
}

/// The EIP-712 domain of the payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Domain {
    name: String,
    version: String,
}

/// Why a seller's terms are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SellerError {
    #[error("{0}")]
    Url(FetchError),
    #[error("the seller cannot be reached: {0}")]
    Unreachable(FetchError),
    #[error("the seller redirects to `{to}`; request that URL instead, because a payment is bound to it")]
    Redirected { to: String },
    #[error("the URL does not require payment: it answers {status}")]
    NotPaid { status: u16 },
    #[error("the seller's payment challenge cannot be parsed: {0}")]
    Unreadable(String),
}

impl SellerError {
    fn of(error: FetchError) -> Self {
        match error {
            FetchError::InvalidUrl(_) | FetchError::Forbidden(_) | FetchError::HostNotAllowed(_) => Self::Url(error),
            FetchError::InsecureCredential
            | FetchError::Secret(_)
            | FetchError::TooManyRedirects
            | FetchError::Redirected
            | FetchError::BadRedirect(_)
            | FetchError::Timeout(_)
            | FetchError::Unreachable(_)
            | FetchError::TooLarge(_)
            | FetchError::Flooded(_)
            | FetchError::Encoded(_)
            | FetchError::Undecodable(_) => Self::Unreachable(error),
        }
    }
}

/// Requests the terms of the seller at `url`.
pub(crate) async fn ask(
    client: &ReadinessClient,
    (url, method): (&str, Option<Method>),
    now: Timestamp,
    turn: &CpuTurn,
) -> Result<SellerQuote, SellerError> {
    let first = method.unwrap_or(Method::Get);
    let (method, answered) = match answer(client, url, first).await? {
        answered if method.is_none() && refuses_get(answered.status) => (Method::Post, answer(client, url, Method::Post).await?),
        answered => (first, answered),
    };
    if answered.status != StatusCode::PAYMENT_REQUIRED {
        return Err(SellerError::NotPaid { status: answered.status.as_u16() });
    }
    let mut notes = Notes::default();
    let request = turn.during(run_blocking(answered.body.len(), || challenge::read(&answered, &mut notes))).await;
    quoted(url, method, request, notes, now)
}

/// Sends a request to the URL, and returns the answer of the URL itself.
async fn answer(client: &ReadinessClient, url: &str, method: Method) -> Result<Fetched, SellerError> {
    let query = client.check(url).map_err(SellerError::of)?;
    let request = match method {
        Method::Get => with_agent(Fetch::get(url, WALL, BODY_BYTES)),
        Method::Post => Fetch { wall: WALL, body_bytes: BODY_BYTES, ..post_json(url, Bytes::new()) },
    };
    let answered = client.fetch(request).await.map_err(SellerError::of)?;
    if answered.url != query {
        return Err(SellerError::Redirected { to: short(answered.url.as_str()) });
    }
    if answered.status.is_redirection() {
        let to = answered.headers.get(reqwest::header::LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        return Err(SellerError::Redirected { to: short(&to.unwrap_or_default()) });
    }
    Ok(answered)
}

fn refuses_get(status: StatusCode) -> bool {
    matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE)
}

fn quoted(url: &str, method: Method, request: Challenge, notes: Notes, now: Timestamp) -> Result<SellerQuote, SellerError> {
    let (mut accepts, mut dues): (Vec<Requirement>, Vec<AmountDue>) = (vec![], vec![]);
    for (requirement, due) in request.terms.into_iter().filter_map(|terms| requirement(terms, now)) {
        match accepts.iter().position(|other| other.is_for_the_same(&requirement)) {
            Some(position) => accepts[position].x402_versions.splice(..0, requirement.x402_versions).for_each(drop),
            None if accepts.len() < MAX => {
                accepts.push(requirement);
                dues.extend(due);
            }
            None => {}
        }
    }
    let notes: Vec<_> = notes.into_vec().into_iter().filter(|note| matches!(note.severity, Severity::Warning | Severity::Error)).collect();
    if accepts.is_empty() {
        let first = notes.iter().find(|note| note.severity == Severity::Error);
        return Err(SellerError::Unreadable(first.map_or_else(|| "it does not list a way to pay".to_owned(), |note| note.message.clone())));
    }
    Ok(SellerQuote { url: url.to_owned(), method, x402_versions: request.versions, accepts, asked_at: now, notes, dues })
}

impl Requirement {
    fn is_for_the_same(&self, other: &Self) -> bool {
        let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        (&self.scheme, &self.network, &self.amount) == (&other.scheme, &other.network, &other.amount)
            && same(&self.asset, &other.asset)
            && same(&self.pay_to, &other.pay_to)
            && self.x402_versions != other.x402_versions
    }
}

/// Converts a way to pay, if it is complete.
fn requirement(terms: AcceptedTerms, now: Timestamp) -> Option<(Requirement, Option<AmountDue>)> {
    let AcceptedTerms { version, scheme, network, amount, asset, pay_to, seconds, domain } = terms;
    let (network, asset, amount) = (network.filter(|network| network.contains(':'))?, asset?, amount?);
    let due = AmountDue::of(&network, &asset, amount);
    let until = seconds.as_ref().and_then(Number::as_f64).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let [name, domain_version] = domain;
    let requirement = Requirement {
        x402_versions: vec![version],
        scheme: scheme?,
        network_v1: v1_name(&network),
        symbol: due.as_ref().map(|due| due.asset.symbol),
        decimals: due.as_ref().map(|due| due.asset.decimals),
        amount_usd: due.as_ref().map(|due| due.value),
        amount: amount.to_string(),
        pay_to: pay_to?,
        max_timeout_seconds: seconds,
        expires_at: until.map(|until| now.plus(until)),
        eip712: name.zip(domain_version).map(|(name, version)| Domain { name, version }),
        network,
        asset,
    };
    Some((requirement, due))
}

#[cfg(test)]
#[path = "tests/seller.rs"]
mod tests;
