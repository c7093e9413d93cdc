//! `/dashboard/new` and `/dashboard/tools/{slug}/edit`: one form whose buttons check, run and
//! publish a tool.
//!
//! Whatever a button does, the answer contains the typed text again. A change names the revision
//! that it is based on. If that is not the latest, the page shows the other change, and nothing is
//! published until the user continues from there.

mod current;
mod draft;
mod edit_page;
mod feedback;
mod fields;
mod problems;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{DryRunResponse, EndpointChangeResponse, EndpointCheckResponse, ErrorDetails};
use tollhouse_base::exact;
use tollhouse_front::{ApiError, Code, PathParams};
use tollhouse_tool::WithResponse;

use self::{
    current::{CurrentTool, InitialForm},
    draft::ToolDraft,
    edit_page::EditPage,
    feedback::Feedback,
    problems::Problem,
};
use super::owner_pages;
use crate::{
    Answer, ApiRefusal, Body, HeaderMap, HeaderValue, IntoResponse as _, Method, PageResult, PostedBySession, PostedForm, Redirect,
    Response, SignedIn, StatusCode, Visitor, forms, header, refusal,
};

fn started() -> ToolDraft {
    let mut draft = ToolDraft::default();
    draft.set("kind", "js");
    draft.set("inputSchema", "{\n  \"type\": \"object\"\n}");
    draft.set("outputSchema", "{}");
    draft.set("capabilities", "logs");
    draft
}

pub(crate) async fn new(SignedIn(visitor): SignedIn) -> PageResult {
    if visitor.kind() == Some(SessionKind::Holder) {
        return Err(ApiError::new(Code::NotOwner, "only builders and admins can publish tools").into());
    }
    EditPage::new(&visitor, started()).answer().await
}

/// Handles a button of the form for a new tool.
pub(crate) async fn create(PostedBySession(PostedForm { visitor, fields, .. }): PostedBySession) -> PageResult {
    let draft = ToolDraft::read(fields.all());
    let sheet = EditPage::new(&visitor, draft);
    let (mut body, problems) = visitor.render(|| sheet.draft.body()).await?;
    let slug = sheet.draft.get("slug").trim();
    if !slug.is_empty() {
        body.insert("slug".to_owned(), json!(slug));
    }
    match fields.get("do") {
        Some("publish") if problems.is_empty() && sheet.draft.was_reviewed(&fields) => {
            vouch(&mut body, &visitor, &sheet.draft);
            note(&mut body, &sheet.draft);
            if !sheet.draft.get("paused").is_empty() {
                body.insert("status".to_owned(), json!("paused"));
            }
            match outcome(upload::<EndpointChangeResponse>(&visitor, "/ai/endpoints/create", &body).await).await? {
                Ok(made) => Ok(to_edit(&visitor, made.endpoint.common.slug.as_str(), "createEndpoint")),
                Err((status, error)) => sheet.with(refused(&error, None), status).await,
            }
        }
        request => {
            let answer = checked(&visitor, body, problems).await?;
            let reviews = matches!(request, Some("review" | "publish")) && matches!(answer, (_, Feedback::Checked(_)));
            let (status, answer) = if reviews { (StatusCode::OK, Feedback::Review { before: None, unvouched: false }) } else { answer };
            sheet.with(answer, status).await
        }
    }
}

pub(crate) async fn edit(SignedIn(visitor): SignedIn, PathParams(slug): PathParams) -> PageResult {
    let now = CurrentTool::read(&visitor, &slug).await?;
    let (draft, given) = (now.draft.clone(), now.given());
    EditPage::for_tool(&visitor, &slug, &now, draft, given).answer().await
}

/// Handles a button of the form for an existing tool.
pub(crate) async fn save(PathParams(slug): PathParams, posted: PostedBySession) -> PageResult {
    let PostedBySession(PostedForm { visitor, fields, .. }) = posted;
    let now = CurrentTool::read(&visitor, &slug).await?;
    let given = InitialForm::read(&visitor, &slug, &now, &fields).await?;
    let sheet = EditPage::for_tool(&visitor, &slug, &now, ToolDraft::read(fields.all()), given);
    let request = fields.get("do").unwrap_or_default();
    match request.split_once('-').map_or((request, ""), |(request, of)| (request, of)) {
        ("run", _) => run(sheet).await,
        ("onto", revision) if revision == now.tool.revision.to_string() => sheet.next_step(&now).await,
        ("onto", _) => sheet.conflict(&now).await,
        ("review" | "publish", _) if sheet.given.revision != now.tool.revision => sheet.conflict(&now).await,
        ("publish", _) if !sheet.draft.was_reviewed(&fields) => {
            let rendered = Feedback::Review { before: Some(now.draft.clone()), unvouched: false };
            sheet.with(rendered, StatusCode::OK).await
        }
        ("publish", _) => publish(sheet, &now).await,
        (request, _) => {
            let (status, rendered) = check(&sheet, &now).await?;
            if request == "review" && matches!(rendered, Feedback::Checked(_)) {
                let rendered = Feedback::Review { before: Some(now.draft.clone()), unvouched: false };
                return sheet.with(rendered, StatusCode::OK).await;
            }
            sheet.with(rendered, status).await
        }
    }
}

/// Checks what publishing the form would result in. Settings from the tool's other pages are
/// included.
async fn check(sheet: &EditPage<'_>, now: &CurrentTool) -> Result<(StatusCode, Feedback), ApiRefusal> {
    let (mut body, problems) = sheet.visitor.render(|| sheet.draft.body()).await?;
    let tool = &*now.tool;
    for (name, value) in [
        ("slug", json!(tool.common.slug)),
        ("limits", json!(tool.own_limits)),
        ("accepts", json!(tool.accepts)),
        ("settle", json!(tool.settle)),
        ("isolation", json!(tool.isolation)),
        ("requestTypes", json!(tool.common.request_types)),
        ("requestHeaders", json!(tool.common.request_headers)),
    ] {
        body.insert(name.to_owned(), value);
    }
    checked(sheet.visitor, body, problems).await
}

/// Checks an upload, in addition to problems already found. A check stores nothing, so it needs no
/// attestation.
async fn checked(visitor: &Visitor, mut body: Map<String, Value>, mut wrong: Vec<Problem>) -> Result<(StatusCode, Feedback), ApiRefusal> {
    body.insert("safetyAttestation".to_owned(), json!({ "accepted": true }));
    let answer = outcome(upload::<EndpointCheckResponse>(visitor, "/ai/endpoints/check", &body).await).await?;
    Ok(match answer {
        Ok(checked) if wrong.is_empty() => (StatusCode::OK, Feedback::Checked(checked)),
        Ok(_) => (StatusCode::UNPROCESSABLE_ENTITY, Feedback::Problems(wrong)),
        Err((status, error)) => {
            wrong.extend(problems::each(&error));
            (status, Feedback::Problems(wrong))
        }
    })
}

async fn upload<T: DeserializeOwned + Send + 'static>(
    visitor: &Visitor,
    path: &str,
    body: &Map<String, Value>,
) -> Result<Answer<T>, ApiRefusal> {
    let text = visitor.render(|| WithResponse(body).text()).await?;
    visitor.read(visitor.send(Method::POST, path, HeaderMap::new(), Body::from(text)).await).await
}

/// Runs the handler in the form, or the current version if the form has no other.
async fn run(sheet: EditPage<'_>) -> PageResult {
    let input = sheet.draft.get("input").trim();
    let input = if input.is_empty() { "{}" } else { input };
    let (handler, problems) = sheet.visitor.render(|| sheet.draft.run(input)).await?;
    if !problems.is_empty() {
        return sheet.with(Feedback::Problems(problems), StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    // The input is sent exactly as typed.
    let body = match handler.filter(|_| sheet.runs_draft()) {
        Some(handler) => {
            let members = Map::from_iter([("handler".to_owned(), handler)]);
            let handler = sheet.visitor.render(|| WithResponse(&members).text()).await?;
            format!("{{\"input\":{input},{}", handler.trim_start_matches('{'))
        }
        // The version of the form, even if another one is current now.
        None => format!("{{\"input\":{input},\"version\":{}}}", json!(sheet.given.version)),
    };
    let path = format!("{}/run", owner_pages::api_path(&sheet.slug));
    let response = sheet.visitor.send(Method::POST, &path, HeaderMap::new(), Body::from(body)).await;
    let read = |body: &[u8]| serde_json::from_value::<DryRunResponse>(exact::with_text_at(body, &["run", "result"])?);
    match outcome(sheet.visitor.read_by(response, read).await).await? {
        Ok(ran) => sheet.with(Feedback::Ran(ran), StatusCode::OK).await,
        Err((status, error)) => sheet.with(Feedback::problems(&error), status).await,
    }
}

/// Publishes the change, based on the revision that was read.
async fn publish(sheet: EditPage<'_>, now: &CurrentTool) -> PageResult {
    let (mut body, problems) = sheet.visitor.render(|| sheet.draft.change(&now.draft)).await?;
    if !problems.is_empty() {
        return sheet.with(Feedback::Problems(problems), StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    if body.is_empty() {
        let rendered = Feedback::Review { before: Some(now.draft.clone()), unvouched: false };
        return sheet.with(rendered, StatusCode::OK).await;
    }
    vouch(&mut body, sheet.visitor, &sheet.draft);
    note(&mut body, &sheet.draft);
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::from_str(&format!("\"{}\"", sheet.given.revision)).ok().map(|revision| (header::IF_MATCH, revision)));
    let body = Body::from(sheet.visitor.render(|| WithResponse(&body).text()).await?);
    let response = sheet.visitor.send(Method::PATCH, &owner_pages::api_path(&sheet.slug), headers, body).await;
    match outcome(sheet.visitor.read::<EndpointChangeResponse>(response).await).await? {
        Ok(_) => Ok(to_edit(sheet.visitor, &sheet.slug, "updateEndpoint")),
        Err((StatusCode::PRECONDITION_FAILED, _)) => {
            let now = CurrentTool::read(sheet.visitor, &sheet.slug).await?;
            sheet.conflict(&now).await
        }
        Err((status, error)) => sheet.with(refused(&error, Some(&now.draft)), status).await,
    }
}

/// Returns why it was not published. If only the attestation is missing, the page asks for it.
fn refused(error: &ErrorDetails, before: Option<&ToolDraft>) -> Feedback {
    match &*error.code {
        "attestation_required" => Feedback::Review { before: before.cloned(), unvouched: true },
        _ => Feedback::problems(error),
    }
}

/// Adds the builder's attestation. Admins do not need one.
fn vouch(body: &mut Map<String, Value>, visitor: &Visitor, draft: &ToolDraft) {
    if visitor.kind() == Some(SessionKind::Builder) {
        body.insert("safetyAttestation".to_owned(), json!({ "accepted": draft.get("attested") == "true" }));
    }
}

/// Adds the note about the version, if there is one.
fn note(body: &mut Map<String, Value>, draft: &ToolDraft) {
    let note = draft.get("note").trim();
    if !note.is_empty() {
        body.insert("note".to_owned(), json!(note));
    }
}

/// Returns the API's answer, or its error.
async fn outcome<T: Send + 'static>(
    answer: Result<Answer<T>, ApiRefusal>,
) -> Result<Result<Answer<T>, (StatusCode, ErrorDetails)>, ApiRefusal> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(refused) => refusal::error(refused).await.map(Err),
    }
}

fn to_edit(visitor: &Visitor, slug: &str, id: &str) -> Response {
    Redirect::to(&forms::done(visitor, &owner_pages::page_path(slug, "edit"), id)).into_response()
}
