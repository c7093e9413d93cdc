//! `/tools/{slug}`: inspect or call a hosted endpoint.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{address::network, auth::called, body, failures::witnessed, offered::offered, page::At, reply, stream};
use crate::{
    app::App,
    call::{Call, CallError, CalledBy, Input, MAX_QUERY_FIELDS, RequestHead, check_query},
    catalog::Live,
    front::Fault,
    money::Offered,
    tool::CatalogForm,
};

/// [`RequestHead::HEADERS`], parsed once.
static TOLD: LazyLock<Vec<HeaderName>> = LazyLock::new(|| RequestHead::HEADERS.iter().map(|name| HeaderName::from_static(name)).collect());

/// Calls a tool: the body of a POST or the query of a GET is its input.
pub(super) async fn call(
    State(app): State<Arc<App>>,
    At(slug): At<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let query = query_fields(&parts.uri);
    if parts.method == Method::GET && query.iter().any(|(name, value)| name == "inspect" && value.is_empty()) {
        return inspect(&app, &slug);
    }
    let (live, by) = called(&app, &parts.headers, &slug).await?;
    let offered = witnessed(&app, peer.ip(), offered(&parts.headers));
    let unpaid = matches!(offered, Offered::Nothing) && by == CalledBy::Anyone && !live.endpoint.price_usd.is_zero();
    if unpaid {
        return Err(app.calls.unpaid(&live.terms).into());
    }
    check_query(&query)?;
    let input = match parts.method {
        Method::GET => Input::Query(query.clone()),
        _ => body_input(&app, peer.ip(), &live, &parts.headers, body).await?,
    };
    let method = if parts.method == Method::GET { "GET" } else { "POST" };
    let head = request_head(&app, method, &parts.uri, query, &parts.headers);
    let call = Call { live, by, input, offered, head, from: network(peer.ip()), progress: None };
    if wants_events(&parts.headers) {
        return Ok(stream::events(app, call));
    }
    Ok(reply::bare(&app.calls.perform(call).await?))
}

/// HEAD: the challenge of a paid tool, whatever is offered; never a run, never a settlement.
pub(super) async fn head(State(app): State<Arc<App>>, At(slug): At<String>, headers: HeaderMap) -> Result<Response, Fault> {
    let (live, by) = called(&app, &headers, &slug).await?;
    if by == CalledBy::Owner || live.endpoint.price_usd.is_zero() {
        return Ok(StatusCode::OK.into_response());
    }
    Err(app.calls.unpaid(&live.terms).into())
}

fn inspect(app: &App, slug: &str) -> Result<Response, Fault> {
    let live = app.catalog.find_listed(slug).ok_or_else(|| Fault::unknown_endpoint(slug))?;
    let record = live.endpoint.public(&app.base_url, CatalogForm::Newer);
    Ok(axum::Json(json!({ "ok": true, "endpoint": record })).into_response())
}

/// True when the caller asks for Server-Sent Events.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.split(',').any(|part| part.trim().starts_with("text/event-stream")))
}

async fn body_input(app: &App, peer: IpAddr, live: &Live, headers: &HeaderMap, body: Body) -> Result<Input, Fault> {
    if let Some(value) = headers.get(header::CONTENT_TYPE) {
        let media = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" && !media.ends_with("+json") {
            return Err(CallError::UnsupportedMediaType(media).into());
        }
    }
    let limit = usize::try_from(live.endpoint.limits.input_bytes).unwrap_or(usize::MAX);
    Ok(Input::Body(body::read(app, peer, body, limit).await?))
}

/// The fields of a query, and of too many as many as tell that.
fn query_fields(uri: &Uri) -> Vec<(String, String)> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().take(MAX_QUERY_FIELDS + 1).collect()
}

/// What the handler may know of the request.
pub(super) fn request_head(app: &App, method: &'static str, uri: &Uri, query: Vec<(String, String)>, headers: &HeaderMap) -> RequestHead {
    let told = |(name, header): (&&'static str, &HeaderName)| Some((*name, headers.get(header)?.to_str().ok()?.to_owned()));
    let headers = RequestHead::HEADERS.iter().zip(&*TOLD).filter_map(told).collect();
    let query = query.into_iter().collect();
    RequestHead { method, url: format!("{}{uri}", app.base_url), path: uri.path().to_owned(), query, headers }
}
