//! The audit trail: records every change by an admin or a builder, and lists the entries for admins.

use std::{fmt, panic::AssertUnwindSafe, str::FromStr};

use axum::{
    body::Body,
    extract::MatchedPath,
    http::{Method, Uri},
    middleware::Next,
};
use futures_util::FutureExt as _;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tollhouse_account::audit::{Action, Actor, Audit, AuditQuery, Entry};
use tollhouse_api::{AuditPage, True};
use tollhouse_base::{
    id::{CreditId, ReceiptId, RequestId},
    offload::{for_same_client, run_blocking},
    time_param::TimeParam,
};
use tollhouse_front::{ApiError, Caller, Code, KnownCaller, REQUEST, body, code_of, peer};
use tollhouse_tool::Slug;

use crate::{
    Admin, Http, IntoResponse as _, Json, JsonResult, PageLimit, Parts, Request, Response, Route, State, StatusCode,
    audit_subject::{self, NamedItems},
    convert, get, parse_cursor, query,
};

/// Maximum number of body field names that are recorded, and their maximum length in bytes.
const MAX_FIELDS: usize = 32;
const MAX_FIELD: usize = 32;

/// Middleware that records a change before it happens, runs it, and records its result.
///
/// A recorded change runs to its end even if the caller hangs up. Requests without a valid credential are not recorded;
/// a later check rejects them.
pub(super) async fn enter(State(http): State<Http>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(template) = audited(&parts) else { return next.run(Request::from_parts(parts, body)).await };
    let caller = match http.shared.callers.identify(&parts.headers, &parts.extensions).await {
        Ok(caller) => Some(caller),
        Err(error) if error.code() == Code::Unauthorized => None,
        Err(error) => return error.into_response(),
    };
    // Authenticate once, so that the recorded caller is the one that the handler checks.
    parts.extensions.insert(KnownCaller(caller.clone()));
    let Some(caller) = caller else { return next.run(Request::from_parts(parts, body)).await };
    let read = body::read(&http.shared.intake, peer(&parts.extensions), &parts.headers, body, body::MANAGEMENT_BODY_BYTES).await;
    let named = match &read {
        Ok(body) => run_blocking(body.len(), || AuditedBody::in_body(body)).await,
        Err(_) => AuditedBody::default(),
    };
    let action = action(&parts, &template, caller, named);
    let request = action.request_id.clone();
    let background = http.shared.background.clone();
    let act = async move {
        let mut entry = match http.audit.begin(action).await {
            Ok(entry) => entry,
            Err(error) => return ApiError::from(error).into_response(),
        };
        let response = match read {
            Ok(bytes) => run(next, Request::from_parts(parts, Body::from(bytes))).await,
            Err(unread) => unread.into_response(),
        };
        let code = code_of(&response).map(|code| code.row().name);
        if entry.action.subject.is_none() {
            entry.action.subject = audit_subject::of_response(&response);
        }
        end(&http.audit, entry, response.status(), code).await;
        response
    };
    // Spawn a task, so that a disconnect interrupts neither the change nor its entry. Shutdown waits for it.
    let acted = background.spawn(for_same_client(REQUEST.scope(request, act))).await;
    acted.unwrap_or_else(|error| ApiError::from(error).into_response())
}

/// POST routes that change nothing.
pub(super) const CHECKS: [&str; 2] = ["/ai/endpoints/check", "/ai/admin/policy/check"];

/// Returns the route's path if the request is a change to record.
fn audited(parts: &Parts) -> Option<String> {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let template = parts.extensions.get::<MatchedPath>()?.as_str();
    (!CHECKS.contains(&template)).then(|| template.to_owned())
}

async fn run(next: Next, request: Request) -> Response {
    let run = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    run.unwrap_or_else(|_| {
        tracing::error!("a management action panicked");
        ApiError::from(Code::Internal).into_response()
    })
}

async fn end(audit: &Audit, entry: Entry, status: StatusCode, code: Option<&str>) {
    let id = entry.id.clone();
    if let Err(error) = audit.end(entry, status.as_u16(), code).await {
        // The change has happened, even if it cannot be recorded.
        tracing::error!(audit.id = %id, %error, "could not record the result of a management action");
    }
}

fn action(parts: &Parts, template: &str, caller: Caller, named: AuditedBody) -> Action {
    let path = parts.uri.path();
    let in_path = |requested: &str| template.split('/').zip(path.split('/')).find(|(name, _)| *name == requested).map(|(_, value)| value);
    let actor = match caller {
        Caller::Admin => Actor::Admin,
        Caller::Builder(builder) => Actor::Builder { builder_id: builder.id },
    };
    let (builder, id) = (in_query(&parts.uri, "builderId"), in_path("{id}"));
    let slug = in_path("{slug}").and_then(|slug| slug.parse().ok()).or(named.slug);
    let credit = named.credit.or_else(|| in_query(&parts.uri, "creditId"));
    let items = NamedItems {
        actor: &actor,
        slug: slug.as_ref(),
        id,
        builder: builder.as_ref(),
        credit: credit.as_ref(),
        receipt: named.receipt.as_ref(),
    };
    let subject = audit_subject::of_request(parts.method.as_str(), template, items);
    Action {
        actor,
        method: parts.method.to_string(),
        path: path.to_owned(),
        slug,
        builder_id: id.and_then(|id| id.parse().ok()).or(builder),
        subject,
        request_id: parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate),
        fields: named.fields,
    }
}

/// Returns the id that an admin names in the query.
fn in_query<T: FromStr>(uri: &Uri, requested: &str) -> Option<T> {
    let (_, id) = form_urlencoded::parse(uri.query()?.as_bytes()).find(|(name, _)| name == requested)?;
    id.parse().ok()
}

/// The recorded parts of a body: the names of its fields, and what it is about. No other value is recorded.
#[derive(Debug, Default, PartialEq)]
struct AuditedBody {
    fields: Vec<String>,
    slug: Option<Slug>,
    credit: Option<CreditId>,
    receipt: Option<ReceiptId>,
}

impl AuditedBody {
    /// Reads the recorded parts. They are empty if the body is not a JSON object.
    fn in_body(body: &[u8]) -> Self {
        serde_json::Deserializer::from_slice(body).deserialize_map(Members).unwrap_or_default()
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = AuditedBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AuditedBody, A::Error> {
        let mut named = AuditedBody::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "slug" => named.slug = text(&map.next_value()?),
                "creditId" => named.credit = text(&map.next_value()?),
                "receiptId" => named.receipt = text(&map.next_value()?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
            // The API's field names consist of letters. Other names are not recorded, because they could contain a
            // credential.
            if named.fields.len() < MAX_FIELDS && name.len() <= MAX_FIELD && name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                named.fields.push(name);
            }
        }
        Ok(named)
    }
}

/// Parses a text of a body. Returns `None` for any other value.
fn text<T: FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

query!(Query { since: Option<TimeParam>, actor: Option<String>, slug: Option<Slug>, limit: PageLimit, cursor: Option<String> });

pub(super) fn routes() -> Vec<Route> {
    vec![get("/ai/admin/audit", "listAudit", "the audit trail, newest first", list).answers("AuditPage")]
}

async fn list(Admin(request): Admin<Query>, State(http): State<Http>) -> JsonResult<AuditPage> {
    let query = AuditQuery {
        since: request.since.map(|since| since.at(http.clock.now())),
        by: request.actor.map(|actor| actor.parse()).transpose().map_err(ApiError::bad_request)?,
        slug: request.slug,
        limit: request.limit.0,
        before: parse_cursor(request.cursor)?,
    };
    let page = http.audit.list(&query).await?;
    let entries = page.entries.into_iter().map(convert::audit_entry).collect();
    Ok(Json(AuditPage { ok: True, entries, next_cursor: page.next }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_field_names_and_the_slug_of_a_body_are_recorded() {
        let body = json!({ "slug": "a-tool", "priceUsd": 1, "handler": { "source": "secret" }, "bk_01_secret": 1, "a b": 2 });
        let named = AuditedBody::in_body(body.to_string().as_bytes());
        let mut fields = named.fields.clone();
        fields.sort();
        assert_eq!((fields, named.slug), (vec!["handler".to_owned(), "priceUsd".to_owned(), "slug".to_owned()], "a-tool".parse().ok()));
        for body in ["", "[]", "\"slug\"", "{", "{\"slug\":", "{\"a\":1,}"] {
            assert_eq!(AuditedBody::in_body(body.as_bytes()), AuditedBody::default(), "{body}");
        }
        let ids = json!({ "creditId": CreditId::generate(), "receiptId": ReceiptId::generate() });
        let named = AuditedBody::in_body(ids.to_string().as_bytes());
        assert_eq!(json!({ "creditId": named.credit, "receiptId": named.receipt }), ids);
        let secrets = AuditedBody::in_body(br#"{"creditId":"cr_secret","receiptId":{"a":1}}"#);
        assert_eq!((secrets.credit, secrets.receipt), (None, None));
        let not_a_slug = json!({ "slug": "Bearer abc", "x".repeat(33): 1 });
        assert_eq!(
            AuditedBody::in_body(not_a_slug.to_string().as_bytes()),
            AuditedBody { fields: vec!["slug".to_owned()], ..AuditedBody::default() }
        );
        let many: serde_json::Map<_, _> =
            (0..100_u8).map(|n| (format!("{}{}", (b'a' + n / 26) as char, (b'a' + n % 26) as char), json!(n))).collect();
        assert_eq!(AuditedBody::in_body(json!(many).to_string().as_bytes()).fields.len(), MAX_FIELDS);
    }
}
