//! `/ai/credits`: developer credits and their movements.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{HeaderMap, request::Parts},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::id::CreditId;
use tollhouse_front::{ApiError, Code, CredentialCheck, credit, header_names};
use tollhouse_money::{
    Budget, Credit, CreditError, CreditVerdict, IdempotencyKey, MintedCredit, MovementPosition, SetBy, receipt::json_hash,
};
use tollhouse_tool::MicroUsd;

use super::{
    auth::{Admin, only_admins},
    endpoints::{Body, Subject, if_match, with_etag},
    operation::Access,
    page::{PageLimit, PathParams, QueryParams, bad_cursor},
    route::{CallerExtractor, Route, get, post, put},
    services::{Http, MoneyServices},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mint {
    amount_usd: MicroUsd,
    label: Option<String>,
    /// The credit to add to. If absent, a new one is created.
    credit_id: Option<String>,
}

impl Subject for Mint {
    const CODE: Code = Code::InvalidCredit;
}

impl Subject for Budget {
    const CODE: Code = Code::InvalidCredit;
}

impl Subject for CreditVerdict {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/credits", "mintCredit", "mints a credit, whose token is shown this once, or adds to one", mint)
            .reads_headers(&["Idempotency-Key"])
            .takes("MintCreditRequest")
            .answers("MintCreditResponse")
            .fails(&[Code::InvalidCredit, Code::UnknownCredit, Code::CreditRevoked, Code::PaymentReused]),
        get("/ai/credits", "readCredits", "a credit with its movements, newest first; for admins all credits", read)
            .answers("CreditsResponse"),
        put("/ai/credits/budget", "setBudget", "sets the whole budget of a credit: its holder's own, or the admin's", set_budget)
            .reads_headers(&["If-Match"])
            .takes("Budget")
            .answers("CreditResponse")
            .fails(&[Code::InvalidCredit, Code::RevisionChanged]),
        post("/ai/admin/credits/{id}", "judgeCredit", "revokes a credit, or restores it", decide)
            .takes("CreditVerdict")
            .answers("CreditResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownCredit, Code::CreditRevoked, Code::WrongState]),
    ]
}

/// Creates a credit, or adds to one. With the same `Idempotency-Key`, a repeated request returns the same record
/// without the token.
async fn mint(
    _: Admin,
    State(earning): State<Arc<MoneyServices>>,
    headers: HeaderMap,
    Body(mint): Body<Mint>,
) -> Result<Json<Value>, ApiError> {
    let credits = earning.payments.credits();
    let request = json!({ "amountUsd": mint.amount_usd, "label": mint.label, "creditId": mint.credit_id });
    let key = headers.get(&header_names::IDEMPOTENCY_KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let once = key.map(|key| IdempotencyKey::new(key, json_hash(&request))).transpose()?;
    let Some(id) = mint.credit_id else {
        let label = mint.label.unwrap_or_default();
        let MintedCredit { token, credit } = credits.mint(mint.amount_usd, &label, once.as_ref()).await?;
        let mut answer = json!({ "ok": true, "creditId": credit.id, "balanceUsd": credit.balance, "label": credit.label });
        if let Some(token) = token {
            answer["credit"] = json!(token);
        }
        return Ok(Json(answer));
    };
    if mint.label.is_some() {
        return Err(ApiError::invalid(Mint::CODE, "`label` is said when a credit is made; leave it out to add to one", "/label"));
    }
    let credit = credits.top_up(&known(&id)?, mint.amount_usd, once.as_ref()).await?;
    Ok(Json(about(&credit)))
}

async fn decide(
    _: Admin,
    State(earning): State<Arc<MoneyServices>>,
    PathParams(id): PathParams<String>,
    Body(verdict): Body<CreditVerdict>,
) -> Result<Json<Value>, ApiError> {
    let credit = earning.payments.credits().decide(&known(&id)?, &verdict).await?;
    tracing::info!(credit.id = %credit.id, decision = ?verdict.decision, "a credit was decided on");
    Ok(Json(about(&credit)))
}

/// Sets a budget. The credential decides whose budget it is: the holder and the admin each have one, and cannot change
/// the other's.
async fn set_budget(
    CreditQuery(reader, request): CreditQuery,
    State(earning): State<Arc<MoneyServices>>,
    headers: HeaderMap,
    Body(budget): Body<Budget>,
) -> Result<Response, ApiError> {
    let (by, id) = match (reader, &request.credit_id) {
        (CreditReader::Admin, Some(id)) => (SetBy::Admin, known(id)?),
        (CreditReader::Admin, None) => return Err(ApiError::bad_request("name the credit: `?creditId=`")),
        (CreditReader::Holder(credit), Some(id)) if id != credit.id.as_str() => return Err(another()),
        (CreditReader::Holder(credit), _) => (SetBy::Holder, credit.id.clone()),
    };
    let credits = earning.payments.credits();
    let credit = credits.set_budget(&id, by, &budget, if_match(&headers)?).await?;
    tracing::info!(credit.id = %credit.id, ?by, "the budget of a credit was set");
    let mut answer = about(&credit);
    answer["today"] = credits.today(&credit).await?;
    Ok(with_etag(credit.budgets.revision, answer))
}

fn another() -> ApiError {
    ApiError::new(Code::NotOwner, "this is another's credit")
}

/// A caller of credit operations.
enum CreditReader {
    Admin,
    Holder(Box<Credit>),
}

/// A caller and its query.
struct CreditQuery(CreditReader, Query);

impl CallerExtractor for CreditQuery {
    const ACCESS: Access = Access::Holder;
    type Query = Query;
}

impl FromRequestParts<Http> for CreditQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let reader = CreditReader::of(parts, http).await?;
        let QueryParams(request) = QueryParams::from_request_parts(parts, http).await?;
        Ok(Self(reader, request))
    }
}

impl CreditReader {
    /// Authenticates by a management credential if there is one, otherwise by the credit's token. Every error about the
    /// token looks the same.
    async fn of(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        let unauthorized = || {
            ApiError::from(Code::Unauthorized)
                .hint("send the credit's token in `X-Developer-Credit` or `Authorization: Bearer`, or `X-Admin-Token`")
        };
        if header_names::shows_caller(&parts.headers) {
            return match only_admins(parts, http).await {
                Ok(()) => Ok(Self::Admin),
                Err(error) if error.code() == Code::Unauthorized => Err(unauthorized()),
                Err(error) => Err(error),
            };
        }
        let token = credit(&parts.headers).ok_or_else(unauthorized)?;
        let check = CredentialCheck::begin(&parts.extensions).await?;
        let credit = http.earning.payments.credits().find(&token).await?;
        credit.map(|credit| Self::Holder(Box::new(credit))).ok_or_else(|| {
            check.fail();
            unauthorized()
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    credit_id: Option<String>,
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

/// Returns one credit to its holder, or to admins with `?creditId=`. Without it, admins get all credits, oldest first.
async fn read(CreditQuery(reader, request): CreditQuery, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Value>, ApiError> {
    let credit = match (reader, &request.credit_id) {
        (CreditReader::Admin, None) => return list(&earning, &request).await,
        (CreditReader::Admin, Some(id)) => earning.payments.credits().get(&known(id)?).await?.ok_or(CreditError::Unknown)?,
        (CreditReader::Holder(credit), Some(id)) if id != credit.id.as_str() => return Err(another()),
        (CreditReader::Holder(credit), _) => *credit,
    };
    let before = request.cursor.map(|cursor| cursor.parse::<MovementPosition>()).transpose().map_err(|_| bad_cursor())?;
    let page = earning.payments.credits().movements(&credit.id, before, request.limit.0).await?;
    let mut answer = about(&credit);
    answer["movements"] = json!(page.movements);
    answer["today"] = earning.payments.credits().today(&credit).await?;
    if let Some(next) = page.next {
        answer["nextCursor"] = json!(next.to_string());
    }
    Ok(Json(answer))
}

async fn list(earning: &MoneyServices, request: &Query) -> Result<Json<Value>, ApiError> {
    let after = request.cursor.as_ref().map(|cursor| cursor.parse::<CreditId>()).transpose().map_err(|_| bad_cursor())?;
    let credits = earning.payments.credits().list(after.as_ref(), request.limit.0).await?;
    let mut answer = json!({ "ok": true, "credits": credits.iter().map(Credit::public).collect::<Vec<_>>() });
    if let Some(last) = credits.last().filter(|_| credits.len() == request.limit.0) {
        answer["nextCursor"] = json!(last.id);
    }
    Ok(Json(answer))
}

fn about(credit: &Credit) -> Value {
    let mut answer = credit.public();
    answer["ok"] = json!(true);
    answer
}

fn known(id: &str) -> Result<CreditId, ApiError> {
    id.parse().map_err(|_| CreditError::Unknown.into())
}
