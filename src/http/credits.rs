//! `/ai/credits`: developer credits and their movements.

use axum::Extension;
use serde_json::{Value, json};
use tollhouse_api::{
    self as api, CreditHistory, CreditPage, CreditResponse, CreditVerdict, CreditsResponse, MintCreditRequest, MintCreditResponse, True,
};
use tollhouse_base::id::CreditId;
use tollhouse_front::{ApiError, Code, CredentialCheck, PathParams, QueryParams, credit, header_names};
use tollhouse_money::{Credit, CreditError, IdempotencyKey, MintedCredit, MovementPosition, SetBy, receipt::json_hash};

use crate::{
    Access, Admin, Answer, Body, CallerExtractor, FromRequestParts, HeaderMap, Http, Json, JsonResult, PageLimit, Parts, Route, Services,
    State, Subject as _,
    audit_subject::ChangedItem,
    auth::{missing, only_admins},
    convert, get, if_match, last_if_full, parse_cursor, post, put, query, with_etag,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/credits", "mintCredit", "mints a credit, whose token is shown only once, or tops one up", mint)
            .reads_headers(&["Idempotency-Key"])
            .takes("MintCreditRequest")
            .answers("MintCreditResponse")
            .fails(&[Code::InvalidCredit, Code::UnknownCredit, Code::CreditRevoked, Code::PaymentReused]),
        get("/ai/credits", "readCredits", "a credit with its movements, newest first; for admins all credits", read)
            .answers("CreditsResponse"),
        put("/ai/credits/budget", "setBudget", "replaces a budget of a credit: the holder's or the admin's", set_budget)
            .reads_headers(&["If-Match"])
            .takes("Budget")
            .answers("CreditResponse")
            .fails(&[Code::InvalidCredit, Code::RevisionChanged]),
        post("/ai/admin/credits/{id}", "judgeCredit", "revokes or restores a credit", decide)
            .takes("CreditVerdict")
            .answers("CreditResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownCredit, Code::CreditRevoked, Code::WrongState]),
    ]
}

/// Creates a credit, or adds to one. With the same `Idempotency-Key`, a repeated request returns the same record
/// without the token.
async fn mint(
    _: Admin,
    State(http): State<Http>,
    headers: HeaderMap,
    Body(request): Body<MintCreditRequest>,
) -> Result<(Extension<ChangedItem>, Json<MintCreditResponse>), ApiError> {
    let credits = http.payments.credits();
    let once = idempotency_key(&headers, &json!(request))?;
    let MintCreditRequest { amount_usd, label, credit_id } = request;
    let Some(id) = credit_id else {
        let MintedCredit { token, credit } = credits.mint(amount_usd, &label.unwrap_or_default(), once.as_ref()).await?;
        let api::Credit { credit_id, balance_usd, label, .. } = convert::credit(&credit);
        let changed = Extension(ChangedItem(credit_id.to_string()));
        return Ok((changed, Json(MintCreditResponse::New(api::MintedCredit { ok: True, credit_id, balance_usd, label, token }))));
    };
    if label.is_some() {
        let message = "`label` can only be set for a new credit; omit it to top up an existing one";
        return Err(ApiError::invalid(MintCreditRequest::CODE, message, "/label"));
    }
    let credit = credits.top_up(&known(&id)?, amount_usd, once.as_ref()).await?;
    Ok((Extension(ChangedItem(credit.id.to_string())), Json(MintCreditResponse::Existing(Box::new(without_today(&credit))))))
}

/// Returns the `Idempotency-Key` of a request.
pub(super) fn idempotency_key(headers: &HeaderMap, request: &Value) -> Result<Option<IdempotencyKey>, CreditError> {
    tollhouse_front::idempotency_key(headers).map(|key| IdempotencyKey::new(key, json_hash(request))).transpose()
}

async fn decide(
    _: Admin,
    State(http): State<Http>,
    PathParams(id): PathParams,
    Body(verdict): Body<CreditVerdict>,
) -> JsonResult<CreditResponse> {
    let credit = http.payments.credits().decide(&known(&id)?, &verdict).await?;
    tracing::info!(credit.id = %credit.id, decision = ?verdict.decision, "an admin decided on a credit");
    Ok(Json(without_today(&credit)))
}

/// Sets a budget. The credential decides whose budget it is: the holder and the admin each have one, and cannot change
/// the other's.
async fn set_budget(
    CreditQuery(reader, request): CreditQuery,
    State(http): State<Http>,
    headers: HeaderMap,
    Body(budget): Body<api::Budget>,
) -> Answer {
    let (by, id) = match (reader, &request.credit_id) {
        (CreditReader::Admin, Some(id)) => (SetBy::Admin, known(id)?),
        (CreditReader::Admin, None) => return Err(missing("credit", "creditId", "crd_…")),
        (CreditReader::Holder(credit), Some(id)) if id != credit.id.as_str() => return Err(another()),
        (CreditReader::Holder(credit), _) => (SetBy::Holder, credit.id.clone()),
    };
    let credits = http.payments.credits();
    let credit = credits.set_budget(&id, by, &budget, if_match(&headers)?).await?;
    tracing::info!(credit.id = %credit.id, ?by, "the budget of a credit was set");
    let today = Some(credits.today(&credit).await?);
    Ok(with_etag(credit.budgets.revision, CreditResponse { today, ..without_today(&credit) }))
}

fn without_today(credit: &Credit) -> CreditResponse {
    CreditResponse { credit: convert::credit(credit), ok: True, today: None }
}

fn another() -> ApiError {
    ApiError::new(Code::NotOwner, "this credit belongs to another holder")
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
                .hint("Send the credit's token in `X-Developer-Credit` or `Authorization: Bearer`, or `X-Admin-Token`")
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
        let credit = http.payments.credits().find(&token).await?;
        credit.map(|credit| Self::Holder(Box::new(credit))).ok_or_else(|| {
            check.fail();
            unauthorized()
        })
    }
}

query!(Query { credit_id: Option<String>, limit: PageLimit, cursor: Option<String> });

/// Returns one credit to its holder, or to admins with `?creditId=`. Without it, admins get all credits, oldest first.
async fn read(CreditQuery(reader, request): CreditQuery, State(http): State<Http>) -> JsonResult<CreditsResponse> {
    let credits = http.payments.credits();
    let credit = match (reader, &request.credit_id) {
        (CreditReader::Admin, None) => return list(&http, request).await,
        (CreditReader::Admin, Some(id)) => credits.get(&known(id)?).await?.ok_or(CreditError::Unknown)?,
        (CreditReader::Holder(credit), Some(id)) if id != credit.id.as_str() => return Err(another()),
        (CreditReader::Holder(credit), _) => *credit,
    };
    let page = credits.movements(&credit.id, parse_cursor::<MovementPosition>(request.cursor)?, request.limit.0).await?;
    Ok(Json(CreditsResponse::One(Box::new(CreditHistory {
        credit: convert::credit(&credit),
        ok: True,
        movements: page.movements,
        today: credits.today(&credit).await?,
        next_cursor: page.next.map(|next| next.to_string()),
    }))))
}

async fn list(http: &Services, request: Query) -> JsonResult<CreditsResponse> {
    let credits = http.payments.credits().list(parse_cursor(request.cursor)?.as_ref(), request.limit.0).await?;
    let next_cursor = last_if_full(&credits, request.limit).map(|last| last.id.clone());
    Ok(Json(CreditsResponse::All(CreditPage { ok: True, credits: credits.iter().map(convert::credit).collect(), next_cursor })))
}

fn known(id: &str) -> Result<CreditId, ApiError> {
    id.parse().map_err(|_| CreditError::Unknown.into())
}
