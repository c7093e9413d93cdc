//! The HTTP front: the routes, and what every answer has.

mod account;
mod address;
mod admin;
mod audit;
mod auth;
mod body;
mod builders;
mod calls;
mod compress;
mod credits;
mod drafts;
mod endpoints;
mod error;
mod events;
mod failures;
mod follow;
mod intake;
mod invoke;
mod listing;
mod logs;
mod manifest;
mod names;
mod offered;
mod operations;
mod page;
mod payouts;
mod quota;
mod rate;
mod receipts;
mod reply;
mod revenue;
mod safety;
mod secrets;
mod serve;
mod stream;
mod tools;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{HeaderName, HeaderValue, Method, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, get, on, post},
};
use percent_encoding::percent_decode_str;
use tower::{Service, ServiceBuilder};
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

pub(crate) use self::{
    address::{network, peer},
    auth::called,
    body::read as read_body,
    error::code_of,
    failures::{limit_credit, wrong_credential},
    offered::offered,
    rate::{turn, wait},
};
pub use self::{failures::Failures, intake::Intake, serve::serve};
use crate::{
    app::App,
    base::id::RequestId,
    front::{Fault, REQUEST},
    mcp,
};

/// Largest body of a management request, in bytes: a handler's source at its ceiling, escaped as JSON.
pub const MANAGEMENT_BODY_BYTES: usize = 4 << 20;

/// How long browsers may keep a preflight's answer.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// Every route of the host, by who comes, and what stands around them.
fn service(
    app: Arc<App>,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static {
    let head_get_post = MethodFilter::GET.or(MethodFilter::POST);
    let agents = Router::new()
        .route("/tools/{slug}", on(head_get_post, tools::call).head(tools::head))
        .route("/ai/invoke", post(invoke::invoke))
        .route("/ai/endpoints", get(manifest::catalog))
        .route("/ai/manifest", get(manifest::manifest))
        .route("/ai/receipts/{id}", get(receipts::receipt))
        .route("/ai/payments/{id}", get(receipts::payment))
        .route("/ai/content-safety/policy", get(safety::policy))
        .route("/.well-known/jwks.json", get(receipts::jwks))
        .route("/dev/faucet", post(account::faucet).get(account::balance))
        .merge(mcp::route(&app));
    let management = Router::new()
        .route("/ai/endpoints/create", post(endpoints::create))
        .route("/ai/endpoints/check", post(drafts::check))
        .route("/ai/endpoints/{slug}/run", post(drafts::run))
        .route("/ai/endpoints/{slug}", get(endpoints::inspect).patch(endpoints::update).delete(endpoints::delete))
        .route("/ai/endpoints/{slug}/source", get(endpoints::source))
        .route("/ai/admin/policy", get(admin::policy).put(admin::set_policy))
        .route("/ai/admin/endpoints", get(admin::list))
        .route("/ai/admin/reviews", get(admin::reviews))
        .route("/ai/admin/reviews/{slug}", post(admin::decide))
        .route("/ai/admin/rescan", post(admin::rescan))
        .route("/ai/endpoints/{slug}/logs", get(logs::logs))
        .route("/ai/endpoints/{slug}/calls", get(calls::calls))
        .route("/ai/endpoints/{slug}/metrics", get(calls::metrics))
        .route("/ai/builders/register", post(builders::register))
        .route("/ai/builders/me", get(builders::me))
        .route("/ai/builders/keys", post(builders::rotate))
        .route("/ai/builders/endpoints", get(builders::endpoints))
        .route("/ai/admin/builders", get(builders::list))
        .route("/ai/admin/builders/{id}", post(builders::judge))
        .route("/ai/admin/audit", get(audit::list))
        .route("/ai/builders/revenue", get(revenue::revenue))
        .route("/ai/admin/revenue", get(revenue::platform))
        .route("/ai/builders/events", get(events::events))
        .route("/ai/builders/payout-settings", get(payouts::settings).post(payouts::set))
        .route("/ai/builders/payouts", get(payouts::list).post(payouts::pay_out))
        .route("/ai/builders/payouts/{id}", get(payouts::one))
        .route("/ai/admin/payouts", get(payouts::list_all))
        .route("/ai/admin/payouts/{id}", post(payouts::decide))
        .route("/ai/endpoints/{slug}/secrets", get(secrets::list).post(secrets::set).delete(secrets::remove))
        .route("/ai/credits", post(credits::mint).get(credits::read))
        .route("/ai/admin/credits/{id}", post(credits::decide))
        .route("/ai/admin/secrets/rotate", post(secrets::rotate))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), audit::enter));
    let operators = Router::new()
        .route("/health", get(operations::health))
        .route("/health/live", get(operations::live))
        .route("/health/ready", get(operations::ready));
    let routes = agents
        .merge(management)
        .merge(operators)
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(Arc::clone(&app));
    // Around the router, which is cheap to clone: a layer of its routes would clone all layers below it for each request.
    ServiceBuilder::new().layer(middleware::from_fn(frame)).layer(cors()).layer(middleware::from_fn_with_state(app, limit)).service(routes)
}

/// Preflights are answered before the gate; browsers may read what a payment needs.
fn cors() -> CorsLayer {
    let exposed = [
        &names::PAYMENT_REQUIRED,
        &names::PAYMENT_RESPONSE,
        &names::X_PAYMENT_RESPONSE,
        &names::RECEIPT_ID,
        &names::PAYMENT_ID,
        &names::REQUEST_ID,
        &mcp::SESSION,
        &names::RATE_LIMIT,
        &names::RATE_LIMIT_POLICY,
        &header::ETAG,
        &header::RETRY_AFTER,
    ];
    // Whatever header a page asks for: `*` would not take `Authorization`, and a list has no place for `Mcp-Param-…`. A browser
    // adds no credential of its own to such requests, so that a page sends nothing but what it knows.
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::PUT, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        // Nobody but the browser that asked keeps a preflight's answer; other answers do not differ.
        .vary([])
        .expose_headers(exposed.map(HeaderName::clone))
        .max_age(PREFLIGHT_AGE)
}

/// Refuses addresses that ask too often, or showed too many wrong credentials, and requests that show two credits.
async fn limit(State(app): State<Arc<App>>, ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    if let Some(refused) = rate::refusal(&app, peer.ip()) {
        return refused;
    }
    if let Some(refused) = unreadable(request.uri()) {
        return refused;
    }
    if let Err(refused) = offered::check_credit(request.headers()) {
        return refused.into_response();
    }
    failures::limit(&app, peer.ip(), request, next).await
}

/// What is wrong with a query whose percent-encoding is of no UTF-8: it would be read as something that was not sent.
fn unreadable(uri: &Uri) -> Option<Response> {
    let reads = percent_decode_str(uri.query()?).decode_utf8().is_ok();
    (!reads).then(|| Fault::bad_request("the percent-encoding of the query is not UTF-8").into_response())
}

/// Gives every request its id, and every answer the headers that keep it what it says it is.
async fn frame(mut request: Request, next: Next) -> Response {
    let id = RequestId::generate();
    request.extensions_mut().insert(id.clone());
    let over_mcp = request.uri().path() == mcp::PATH;
    let compress = compress::asked(&request);
    let mut response = REQUEST.scope(id.clone(), next.run(request)).await;
    if over_mcp {
        response = mcp::spoken(response).await;
    }
    if let Some(takes_gzip) = compress {
        response = compress::compressed(response, takes_gzip).await;
    }
    framed(&id, response)
}

fn framed(id: &RequestId, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        headers.insert(&names::REQUEST_ID, value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
