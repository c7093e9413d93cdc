//! Handlers of forms: each form makes one request of the public API, with the session's credential.
//!
//! The form names the operation, and its fields name the parts of the request: [`fields`]. A form
//! can do nothing that the API cannot.

mod fields;
mod form_urls;
mod posted;
mod resubmit;

use axum::{Json, body::to_bytes};
use maud::html;
use serde_json::{Value, json};
use tollhouse_front::{ApiError, Code, PathParams, header_names};

pub(super) use self::{
    fields::{Fields, body},
    form_urls::is_page,
    posted::{PostedBySession, PostedForm, PostedInBrief, PostedToSignIn, check_form_token},
    resubmit::SentForm,
};
use crate::{
    ApiOperation, ApiRefusal, Area, BackLink, Body, HeaderMap, HeaderValue, IntoResponse as _, Page, Redirect, Response, Visitor, facts,
    form_table::{self, form, is_once},
    header, segment,
};

/// Maximum size of an answer that is shown once, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// `POST /dashboard/do/{operation}`: performs it and redirects back, or shows why not.
pub(super) async fn submit(PathParams(id): PathParams, posted: PostedForm) -> Result<Response, ApiRefusal> {
    let back = back(&posted.fields, &posted.visitor);
    match perform(&id, &posted).await {
        Ok(Some(answer)) => Ok(one_time_page(&posted.visitor, &id, &answer, &back).await),
        Ok(None) => Ok(Redirect::to(&done(&posted.visitor, &back, &id)).into_response()),
        Err(refused) if refused.is(Code::Unauthorized) => Ok(posted.again(Code::Unauthorized.into()).await),
        Err(refused) => Err(refused.with(BackLink(back))),
    }
}

/// `POST /dashboard/api/do/{operation}`: the same for scripts, which get the next address as JSON.
pub(super) async fn submit_by_script(PathParams(id): PathParams, posted: PostedForm) -> Result<Response, ApiRefusal> {
    if is_once(&id) {
        return Err(ApiError::bad_request("the answer of this form is shown only once, on a page").into());
    }
    perform(&id, &posted).await?;
    let to = done(&posted.visitor, &back(&posted.fields, &posted.visitor), &id);
    Ok(Json(json!({ "ok": true, "to": posted.visitor.services.root.below(&to) })).into_response())
}

/// Makes the request. Returns `Some` for an answer that is shown once.
async fn perform(id: &str, posted: &PostedForm) -> Result<Option<Value>, ApiRefusal> {
    let (visitor, fields) = (&posted.visitor, &posted.fields);
    let operation = visitor.services.operations.iter().find(|operation| operation.id == id);
    let (Some(form), Some(operation)) = (form(id), operation) else { return Err(ApiError::from(Code::NotFound).into()) };
    let headers = headers(fields)?;
    if headers.contains_key(&header_names::DEVELOPER_CREDIT) {
        visitor.may_show_credential()?;
    }
    let body = match operation.takes {
        true => visitor.render(|| fields::body(fields).map(|body| Body::from(body.to_string()))).await??,
        false => Body::empty(),
    };
    let response = visitor.send(operation.method.clone(), &path(operation, fields)?, headers, body).await;
    if !response.status().is_success() {
        return Err(visitor.refused(response).await);
    }
    if !form.once {
        return Ok(None);
    }
    let read = to_bytes(response.into_body(), MAX_BYTES).await.ok().and_then(|body| serde_json::from_slice(&body).ok());
    read.map(Some).ok_or_else(|| ApiError::from(Code::Internal).into())
}

/// Builds the operation's path from the form's names, and its query.
fn path(operation: &ApiOperation, fields: &Fields) -> Result<String, ApiError> {
    let mut path = String::new();
    for piece in operation.path.split('/').skip(1) {
        path.push('/');
        match piece.strip_prefix('{').and_then(|piece| piece.strip_suffix('}')) {
            Some(name) => {
                let value = fields.get(&format!("path:{name}")).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| ApiError::bad_request(format!("the form has no `path:{name}`")))?;
                path += &segment(value).to_string();
            }
            None => path += piece,
        }
    }
    let query = fields.all().filter_map(|(name, value)| Some((name.strip_prefix("query:")?, value)));
    Ok(super::visitor::with_query(&path, query))
}

fn headers(fields: &Fields) -> Result<HeaderMap, ApiError> {
    let known = [&header::IF_MATCH, &header_names::IDEMPOTENCY_KEY, &header_names::DEVELOPER_CREDIT, &header_names::PAYMENT_SIGNATURE];
    let message =
        fields.all().filter_map(|(name, value)| Some((name.strip_prefix("header:")?, value))).filter(|(_, value)| !value.is_empty());
    let header = |(name, value): (&str, &str)| {
        let wrong = || ApiError::bad_request(format!("`header:{name}` is not a header that a form can set"));
        let known = known.iter().find(|known| known.as_str() == name).ok_or_else(wrong)?;
        Ok(((*known).clone(), HeaderValue::from_str(value.trim()).map_err(|_| wrong())?))
    };
    message.map(header).collect()
}

/// Returns the dashboard page that the form leads back to.
fn back(fields: &Fields, visitor: &Visitor) -> String {
    let home = || visitor.kind().map_or("/dashboard", super::page_frame::home);
    fields.get("back").filter(|back| is_page(back)).unwrap_or_else(home).to_owned()
}

/// Returns the address of that page with a confirmation, which is valid only for this session, so
/// that no link can forge it.
pub(super) fn done(visitor: &Visitor, back: &str, id: &str) -> String {
    visitor.session().map_or_else(|| back.to_owned(), |session| with_done(back, &form_table::mark(session, id)))
}

fn with_done(back: &str, mark: &str) -> String {
    let (page, position) = back.split_once('#').map_or((back, ""), |(page, position)| (page, position));
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let stored = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != "done");
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(stored).append_pair("done", mark).finish();
    let position = if position.is_empty() { String::new() } else { format!("#{position}") };
    format!("{path}?{query}{position}")
}

/// Shows the page with an answer that is shown once.
async fn one_time_page(visitor: &Visitor, id: &str, answer: &Value, back: &str) -> Response {
    let members = answer.as_object().into_iter().flatten().filter(|(name, _)| *name != "ok");
    let listed: Vec<_> = members
        .filter_map(|(name, value)| {
            let text = value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))?;
            Some((name.as_str(), Some(facts::id(&text))))
        })
        .collect();
    let message = form(id).map_or("", |form| form.notice);
    let main = html! {
        p.lead { (message) }
        (facts::list(&listed))
        p { a.button href=(back) { "I have saved it" } }
    };
    visitor.show(Page { unlisted: true, ..Page::new(Area::Elsewhere, "Shown once", main) }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_page_contains_the_confirmation() {
        assert_eq!(with_done("/dashboard/home?q=a%26b&done=x#y", "setSecret"), "/dashboard/home?q=a%26b&done=setSecret#y");
        assert_eq!(with_done("/dashboard", "setSecret"), "/dashboard?done=setSecret");
    }
}
