//! Builder accounts: registration, records and keys.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json,
    extract::{ConnectInfo, FromRequest, Request, State},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_account::{
    builder::{BuilderDecision, BuilderError},
    registration,
};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, RequestId},
};
use tollhouse_call::{CallError, Registration};
use tollhouse_event::{Events, Kind};
use tollhouse_front::{AboutBody as _, ApiError, Caller, Code, body::SMALL_BODY_BYTES, network, offered, quote};
use tollhouse_money::{EntryMethod, OfferedPayment, sale::ReportDetail};
use tollhouse_store::Batch;
use tollhouse_tool::{EndpointState, Mismatch, Owner};

use super::{
    auth::{Admin, AdminOrBuilder, Everyone, ForBuilder},
    endpoints::{self, Body, ForBuilderQuery, ListFilter, Subject, resolve_owner},
    page::{PageLimit, PathParams, TimeParam, bad_cursor},
    reply,
    route::{Route, get, post},
    services::{AccountServices, CatalogServices, Http, MoneyServices},
    tools::{OF_PAYERS, OF_PAYMENTS},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Applicant {
    name: String,
    pub contact: Option<String>,
}

impl Subject for Applicant {
    const CODE: Code = Code::InvalidRegistration;
}

impl Subject for BuilderDecision {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/builders/register", "registerBuilder", "makes a builder; priced and paid like a tool", register)
            .reads_headers(OF_PAYERS)
            .takes("RegistrationRequest")
            .answers("RegistrationResponse")
            .fails(&[Code::InvalidRegistration])
            .fails(OF_PAYMENTS),
        get("/ai/builders/me", "getBuilder", "the builder's own record", me).answers("BuilderResponse"),
        post("/ai/builders/keys", "rotateBuilderKey", "a new key, shown once; the old one is worth nothing from now on", rotate)
            .answers("BuilderKeyResponse")
            .fails(&[Code::ChangedMeanwhile]),
        get("/ai/builders/endpoints", "listOwnEndpoints", "the builder's endpoints, in whatever state, by slug; for admins all", endpoints)
            .answers("EndpointSummaryPage"),
        get("/ai/admin/builders", "listBuilders", "all builders, the oldest first, with what they have and earn", list)
            .answers("BuilderPage"),
        post("/ai/admin/builders/{id}", "judgeBuilder", "suspends a builder, or restores them", judge)
            .takes("BuilderVerdict")
            .answers("BuilderResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownBuilder, Code::WrongState, Code::ChangedMeanwhile]),
    ]
}

/// `POST /ai/builders/register`: registers a builder and returns the key. The host stores only a hash of it. Until the
/// key is used, repeating the request returns a new key if it shows the payment and the paid request. Only the payer
/// knows that request; the rest of a payment can be read on its chain. Without it the caller gets neither key nor
/// record, and the attempt counts as a wrong credential.
async fn register(
    _: Everyone,
    State(http): State<Http>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, ApiError> {
    let accounts = &http.accounts;
    let limits = &accounts.shared.limits;
    let sender = limits.sender(peer.ip(), request.headers());
    let offered = limits.observed(sender, offered(request.headers()));
    let quote = quote(request.headers());
    let (is_private, shows_payment) = (offered.is_private(), matches!(offered, OfferedPayment::X402 { .. }));
    if matches!(offered, OfferedPayment::Nothing) {
        accounts.calls.check_unpaid(&accounts.registration, EntryMethod::Post, quote.as_deref())?;
    }
    let request_id = request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
    let query = request.uri().query().map(str::to_owned);
    let Body(Applicant { name, contact }) = Body::<_, SMALL_BODY_BYTES>::from_request(request, &http).await?;
    let registration = Registration {
        terms: Arc::clone(&accounts.registration),
        name,
        contact,
        query,
        offered,
        quote,
        request: request_id.clone(),
        from: network(peer.ip()),
    };
    // A payment that was spent on another request may be a guess at that request, which only its payer knows.
    let guess = if shows_payment { Some(limits.begin_check(sender).await?) } else { None };
    let done = match accounts.calls.register(registration).await {
        Ok(done) => done,
        Err(error) => {
            if let (CallError::PaymentReused(_), Some(guess)) = (&*error, guess) {
                guess.fail();
            }
            return Err(match &*error {
                CallError::Input(mismatch) => unfit(mismatch),
                other => other.into(),
            });
        }
    };
    drop(guess);
    let mut body: Value = serde_json::from_slice(&done.answer.body).unwrap_or_default();
    let key = match (done.first, is_private) {
        (true, _) => given(accounts, &body, |_| Batch::new()).await?,
        (false, true) => completed(accounts, &body, request_id).await?,
        (false, false) => {
            body.as_object_mut().and_then(|body| body.remove("builder"));
            None
        }
    };
    if let (Some(body), Some(key)) = (body.as_object_mut(), key) {
        body.insert("builderKey".to_owned(), json!(key));
    }
    let mut response = Json(body).into_response();
    reply::mark(&mut response, &done);
    Ok(response)
}

/// Issues the first key of a registration unless it was already used, and commits the batch of `told`.
async fn given(accounts: &AccountServices, registered: &Value, reported: impl Fn(Timestamp) -> Batch) -> Result<Option<String>, ApiError> {
    match registered["builderId"].as_str().and_then(|id| id.parse::<BuilderId>().ok()) {
        Some(id) => Ok(accounts.builders.complete(&id, reported).await?),
        None => Ok(None),
    }
}

/// Issues the key again for a repeated payment, because the first response may have been lost.
async fn completed(accounts: &AccountServices, registered: &Value, request: RequestId) -> Result<Option<String>, ApiError> {
    let Some(id) = registered["builderId"].as_str().and_then(|id| id.parse::<BuilderId>().ok()) else { return Ok(None) };
    let key = given(accounts, registered, |now| registration::completed(&id, request.clone(), now)).await?;
    if key.is_some() {
        tracing::info!(builder.id = %id, "a registration was completed by its payment");
    }
    Ok(key)
}

/// Returns the error for an invalid name or contact.
fn unfit(mismatch: &Mismatch) -> ApiError {
    let problem = mismatch.problems.first();
    let (message, pointer) = problem.map_or(("the registration cannot be", ""), |problem| (&problem.message, &problem.pointer));
    ApiError::invalid(Applicant::CODE, message, pointer)
}

async fn me(ForBuilder(builder, _): ForBuilder) -> Json<Value> {
    Json(json!({ "ok": true, "builder": builder.own() }))
}

async fn rotate(ForBuilder(builder, _): ForBuilder, State(accounts): State<Arc<AccountServices>>) -> Result<Json<Value>, ApiError> {
    let owner = Owner::Builder(builder.id.clone());
    let event = accounts.events.event(Kind::BuilderKeyRotated, None, json!({}));
    let (builder, key) = accounts.builders.rotate(&builder.id, Events::stored(&owner, &event)).await?;
    accounts.events.announce(&owner, event);
    tracing::info!(builder.id = %builder.id, "a builder has a new key");
    Ok(Json(json!({ "ok": true, "builderId": builder.id, "builderKey": key, "builder": builder.own() })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    builder_id: Option<BuilderId>,
    state: Option<EndpointState>,
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

/// Lists the builder's own tools in any state. Admins get all tools, or those of the builder that they name.
async fn endpoints(
    AdminOrBuilder(caller, request): AdminOrBuilder<Own>,
    State(publishing): State<Arc<CatalogServices>>,
) -> Result<Json<Value>, ApiError> {
    let Own { builder_id, state, limit, cursor } = request;
    let owner = match (&caller, &builder_id) {
        (Caller::Admin, None) => None,
        (Caller::Admin | Caller::Builder(_), _) => {
            Some(resolve_owner(&publishing, &caller, ForBuilderQuery { builder: builder_id }).await?)
        }
    };
    endpoints::list(&publishing, ListFilter { owner, state }, limit, cursor).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

/// The period of the earnings shown: 30 UTC days, including today.
const EARNED: TimeParam = TimeParam::days(29);

async fn list(
    Admin(page): Admin<Page>,
    State(accounts): State<Arc<AccountServices>>,
    State(earning): State<Arc<MoneyServices>>,
) -> Result<Json<Value>, ApiError> {
    let after = page.cursor.map(|cursor| cursor.parse::<BuilderId>()).transpose().map_err(|_| bad_cursor())?;
    let builders = accounts.builders.list(after.as_ref(), page.limit.0).await?;
    let owned = accounts.catalog.owned_by(builders.iter().map(|builder| &builder.id));
    let since = EARNED.at(earning.clock.now());
    let mut reported = Vec::with_capacity(builders.len());
    for builder in &builders {
        let mut record = builder.own();
        record["endpoints"] = json!(owned.get(&builder.id));
        record["last30Days"] = json!(earning.sales.report(&Owner::Builder(builder.id.clone()), since, ReportDetail::Sums).await?.totals);
        record["seenAt"] = json!(accounts.builders.seen(&builder.id).await?);
        reported.push(record);
    }
    let mut answer = json!({ "ok": true, "builders": reported });
    if let Some(last) = builders.last().filter(|_| builders.len() == page.limit.0) {
        answer["nextCursor"] = json!(last.id);
    }
    Ok(Json(answer))
}

async fn judge(
    _: Admin,
    State(accounts): State<Arc<AccountServices>>,
    PathParams(id): PathParams<String>,
    Body(verdict): Body<BuilderDecision>,
) -> Result<Json<Value>, ApiError> {
    let id: BuilderId = id.parse().map_err(|_| BuilderError::Unknown)?;
    let builder = accounts.catalog.load_standing(&id, &verdict).await.map_err(|error| error.about(BuilderDecision::CODE))?;
    tracing::info!(builder.id = %id, decision = ?verdict.decision, "a builder was decided on");
    Ok(Json(json!({ "ok": true, "builder": builder.own() })))
}
