//! Builder accounts: registration, records and keys.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Extension,
    extract::{ConnectInfo, FromRequest as _},
};
use serde_json::json;
use tollhouse_account::{builder::BuilderError, registration};
use tollhouse_api::{
    BuilderKeyResponse, BuilderListEntry, BuilderPage, BuilderResponse, BuilderVerdict, EndpointSummaryPage, RegistrationRequest,
    RegistrationResponse, True,
};
use tollhouse_base::{
    id::{BuilderId, RequestId},
    time_param::TimeParam,
};
use tollhouse_call::{CallError, Registration};
use tollhouse_event::{Events, Kind};
use tollhouse_front::{AboutBody as _, ApiError, Caller, Code, PathParams, body::SMALL_BODY_BYTES, network, offered, quote};
use tollhouse_money::{EntryMethod, OfferedPayment, sale::ReportDetail};
use tollhouse_store::Batch;
use tollhouse_tool::{EndpointState, Mismatch, Owner};

use crate::{
    Admin, AdminOrBuilder, Answer, Body, Everyone, ForBuilder, Http, IntoResponse as _, Json, JsonResult, PageLimit, PageQuery, Request,
    Route, State, Subject as _,
    audit_subject::ChangedItem,
    endpoints::{self, ForBuilderQuery, resolve_owner},
    get, last_if_full, parse_cursor, post, query, reply,
    tools::{OF_PAYERS, OF_PAYMENTS},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/builders/register", "registerBuilder", "registers a builder; priced and paid like a tool", register)
            .reads_headers(OF_PAYERS)
            .takes("RegistrationRequest")
            .answers("RegistrationResponse")
            .fails(&[Code::InvalidRegistration])
            .fails(OF_PAYMENTS),
        get("/ai/builders/me", "getBuilder", "the builder's own record", me).answers("BuilderResponse"),
        post("/ai/builders/keys", "rotateBuilderKey", "a new key, shown only once; the old one stops working", rotate)
            .answers("BuilderKeyResponse")
            .fails(&[Code::ChangedMeanwhile]),
        get(
            "/ai/builders/endpoints",
            "listOwnEndpoints",
            "the builder's endpoints in all states, by slug; admins get all endpoints",
            endpoints,
        )
        .answers("EndpointSummaryPage"),
        get("/ai/admin/builders", "listBuilders", "all builders, oldest first, with their endpoints and revenue", list)
            .answers("BuilderPage"),
        post("/ai/admin/builders/{id}", "judgeBuilder", "suspends or restores a builder, or sets its tier or hosts", judge)
            .takes("BuilderVerdict")
            .answers("BuilderResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownBuilder, Code::WrongState, Code::ChangedMeanwhile]),
    ]
}

/// `POST /ai/builders/register`: registers a builder and returns the key. The host stores only a hash of it. Until the
/// key is used, repeating the request returns a new key if it shows the payment and the paid request. Only the payer
/// knows that request; the rest of a payment can be read on its chain. Without it the caller gets neither key nor
/// record, and the attempt counts as a wrong credential.
async fn register(_: Everyone, State(http): State<Http>, ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request) -> Answer {
    let limits = &http.shared.limits;
    let sender = limits.sender(peer.ip(), request.headers());
    let offered = limits.observed(sender, offered(request.headers()));
    let quote = quote(request.headers());
    let (is_private, shows_payment) = (offered.is_private(), matches!(offered, OfferedPayment::X402 { .. }));
    if matches!(offered, OfferedPayment::Nothing) {
        http.calls.check_unpaid(&http.registration, EntryMethod::Post, quote.as_deref())?;
    }
    let request_id = request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
    let query = request.uri().query().map(str::to_owned);
    let Body(RegistrationRequest { name, contact }) = Body::<_, SMALL_BODY_BYTES>::from_request(request, &http).await?;
    let registration = Registration {
        terms: Arc::clone(&http.registration),
        name,
        contact,
        query,
        offered,
        quote,
        request: request_id.clone(),
        from: network(peer.ip()),
    };
    // A payment that was spent on another request may be a guess at that request, which only its payer knows.
    let guess = if shows_payment { Some(limits.begin_registration(sender).await?) } else { None };
    let done = match http.calls.register(registration).await {
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
    let mut registered: RegistrationResponse = serde_json::from_slice(&done.answer.body).map_err(|error| {
        tracing::error!(%error, "the stored answer of a registration could not be read");
        Code::Internal
    })?;
    let id = &registered.builder_id;
    match (done.first, is_private) {
        (true, _) => registered.builder_key = http.builders.complete(id, |_| Batch::new()).await?,
        // The first response may have been lost.
        (false, true) => {
            registered.builder_key = http.builders.complete(id, |now| registration::completed(id, request_id.clone(), now)).await?;
            if registered.builder_key.is_some() {
                tracing::info!(builder.id = %registered.builder_id, "a registration was completed by its payment");
            }
        }
        (false, false) => registered.builder = None,
    }
    let changed = ChangedItem(registered.builder_id.to_string());
    let mut response = (Extension(changed), Json(registered)).into_response();
    reply::mark(&mut response, &done);
    Ok(response)
}

/// Returns the error for an invalid name or contact.
fn unfit(mismatch: &Mismatch) -> ApiError {
    let problem = mismatch.problems.first();
    let (message, pointer) = problem.map_or(("the registration is invalid", ""), |problem| (&problem.message, &problem.pointer));
    ApiError::invalid(RegistrationRequest::CODE, message, pointer)
}

async fn me(ForBuilder(builder, _): ForBuilder) -> Json<BuilderResponse> {
    Json(BuilderResponse { ok: True, builder: builder.own() })
}

async fn rotate(ForBuilder(builder, _): ForBuilder, State(http): State<Http>) -> JsonResult<BuilderKeyResponse> {
    let owner = Owner::Builder(builder.id.clone());
    let event = http.events.event(Kind::BuilderKeyRotated, None, json!({}));
    let (builder, builder_key) = http.builders.rotate(&builder.id, Events::stored(&owner, &event)).await?;
    http.events.announce(&owner, event);
    tracing::info!(builder.id = %builder.id, "a builder has a new key");
    let (builder_id, builder) = (builder.id.clone(), builder.own());
    Ok(Json(BuilderKeyResponse { ok: True, builder_id, builder_key, builder }))
}

query!(Own { builder_id: Option<BuilderId>, state: Option<EndpointState>, limit: PageLimit, cursor: Option<String> });

/// Lists the builder's own tools in any state. Admins get all tools, or those of the builder that they name.
async fn endpoints(
    AdminOrBuilder(caller, request): AdminOrBuilder<Own>,
    State(http): State<Http>,
) -> JsonResult<EndpointSummaryPage<serde_json::Value>> {
    let Own { builder_id, state, limit, cursor } = request;
    let owner = match (&caller, &builder_id) {
        (Caller::Admin, None) => None,
        (Caller::Admin | Caller::Builder(_), _) => Some(resolve_owner(&http, &caller, ForBuilderQuery { builder: builder_id }).await?),
    };
    endpoints::list(&http, owner, state, limit, cursor).await
}

/// The period of the earnings shown: 30 UTC days, including today.
const EARNED: TimeParam = TimeParam::days(29);

async fn list(Admin(page): Admin<PageQuery>, State(http): State<Http>) -> JsonResult<BuilderPage> {
    let found = http.builders.list(parse_cursor(page.cursor)?.as_ref(), page.limit.0).await?;
    let owned = http.catalog.owned_by(found.iter().map(|builder| &builder.id));
    let since = EARNED.at(http.clock.now());
    let mut builders = Vec::with_capacity(found.len());
    for builder in &found {
        let report = http.sales.report(&Owner::Builder(builder.id.clone()), since, ReportDetail::Sums).await?;
        builders.push(BuilderListEntry {
            builder: builder.own(),
            endpoints: owned.get(&builder.id).copied().unwrap_or_default(),
            last30_days: report.totals,
            seen_at: http.builders.seen(&builder.id).await?,
        });
    }
    let next_cursor = last_if_full(&found, page.limit).map(|last| last.id.clone());
    Ok(Json(BuilderPage { ok: True, builders, next_cursor }))
}

async fn judge(
    _: Admin,
    State(http): State<Http>,
    PathParams(id): PathParams,
    Body(verdict): Body<BuilderVerdict>,
) -> JsonResult<BuilderResponse> {
    let id: BuilderId = id.parse().map_err(|_| BuilderError::Unknown)?;
    let decided = http.catalog.decide_builder(&id, &verdict).await;
    let builder = decided.map_err(|error| error.about(BuilderVerdict::CODE))?;
    tracing::info!(builder.id = %id, decision = ?verdict.decision, "an admin decided on a builder");
    Ok(Json(BuilderResponse { ok: True, builder: builder.own() }))
}
