//! `/dashboard/tools/{slug}/try`: calls a tool from its page, with payment if it has a price.
//!
//! ```text
//! form ─▶ request without a payment ─▶ answer, if it is free
//!                                   └▶ terms, with a payment for them in each form ─▶ answer
//! ```
//!
//! Each step is a form that is posted here. Only the forms hold state between steps. The payment is
//! signed, and a call on credit gets its idempotency key, before the button is pressed. So a double
//! click, a reload or going back sends the same payment, which the host takes once. The browser
//! remembers the forms it got, so that the same call on another page uses the same form. A
//! signed-in visitor is charged only by a form that says so: the first request shows no credit.

mod answer;
mod call;
mod failure;
mod file;
mod form_memory;
mod input;
pub(super) mod name;
mod offer;
mod play;
mod start;
mod step;
mod terms;
mod tool;

use tollhouse_front::{Code, PathParams};

use self::{
    answer::CallAnswer,
    call::{PaymentSource, ToolCall},
    input::{GivenInput, InputState},
    terms::CallTerms,
    tool::{CallRequest, TriedTool},
};
use crate::{Fields, HeaderMap, PageResult, PostedForm, RawQuery, Visitor, header};

/// Maximum size of a form without a session: an input of usual length, escaped.
const MAX_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormStep {
    /// Show the same input as JSON or in fields.
    Shown(InputState),
    /// Call the tool, or show the terms.
    Call,
    /// Call the tool with payment.
    Pay,
    /// Call the tool with payment, and download the answer.
    Save,
}

impl FormStep {
    fn from_fields(fields: &Fields) -> Self {
        match fields.get("step") {
            Some("json") => Self::Shown(InputState::Json),
            Some("form") => Self::Shown(InputState::Form),
            Some("pay") => Self::Pay,
            Some("save") => Self::Save,
            _ => Self::Call,
        }
    }
}

pub(crate) async fn page(visitor: Visitor, PathParams(slug): PathParams, RawQuery(query): RawQuery) -> PageResult {
    let tool = match TriedTool::find(&visitor, &slug).await {
        Err(refused) if refused.is(Code::UnknownEndpoint) => return super::tool::unknown(&visitor, &slug).await,
        tool => tool?,
    };
    let query = query.unwrap_or_default();
    let as_json = form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "as" && value == "json");
    let given = visitor.render(|| GivenInput::initial(tool.schema(), if as_json { InputState::Json } else { InputState::Form })).await?;
    start::show(&visitor, &tool, &given).await
}

/// `POST …/try`: handles the next step.
pub(crate) async fn posted(PathParams(slug): PathParams, headers: HeaderMap, posted: PostedForm<MAX_BYTES>) -> PageResult {
    let PostedForm { visitor, fields, .. } = posted;
    let started = visitor.now();
    let (tool, step) = (TriedTool::find(&visitor, &slug).await?, FormStep::from_fields(&fields));
    let state = if let FormStep::Shown(state) = step { Some(state) } else { None };
    let given = visitor.render(|| GivenInput::sent(tool.schema(), &fields, state)).await?;
    let Some(input) = given.input.as_deref().filter(|_| state.is_none()) else {
        let given = if state.is_some() { given } else { given.refused() };
        return start::show(&visitor, &tool, &given).await;
    };
    let streams = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"));
    let request = CallRequest { visitor: &visitor, tool: &tool, input, fields: &fields, headers: &headers, started_at: started };
    match step {
        FormStep::Pay => request.pay(streams).await,
        FormStep::Save => request.save().await,
        FormStep::Call | FormStep::Shown(_) => request.call(streams).await,
    }
}

impl CallRequest<'_> {
    /// Calls without a payment. Shows the answer if the tool is free, else the terms.
    async fn call(&self, streams: bool) -> PageResult {
        let call = ToolCall { tool: self.tool, input: self.input, pays: &PaymentSource::Nothing };
        let response = call.send(self.visitor, streams).await?;
        if call::is_stream(&response) {
            return Ok(call::passed(response));
        }
        let answer = CallAnswer::read(response).await?;
        if answer.code != Some(Code::PaymentRequired) {
            return self.respond(&PaymentSource::Nothing, &answer).await;
        }
        let terms = CallTerms::read(self.visitor, self.tool, &answer).await?;
        offer::show(self, &terms).await
    }

    /// Calls with the payment in the form.
    async fn pay(&self, streams: bool) -> PageResult {
        let pays = PaymentSource::read(self.fields, self.visitor)?;
        let response = ToolCall { tool: self.tool, input: self.input, pays: &pays }.send(self.visitor, streams).await?;
        if call::is_stream(&response) {
            return Ok(call::passed(response));
        }
        self.respond(&pays, &CallAnswer::read(response).await?).await
    }

    /// Returns the answer as a file.
    async fn save(&self) -> PageResult {
        let pays = if self.fields.get("way").is_some() { PaymentSource::read(self.fields, self.visitor)? } else { PaymentSource::Nothing };
        let response = ToolCall { tool: self.tool, input: self.input, pays: &pays }.send(self.visitor, false).await?;
        let answer = CallAnswer::read(response).await?;
        if answer.code.is_some() { self.respond(&pays, &answer).await } else { Ok(answer.saved(self.tool.slug())) }
    }

    /// Shows the outcome as a page. Problems with the input appear in its form.
    async fn respond(&self, pays: &PaymentSource, answer: &CallAnswer) -> PageResult {
        match answer.code {
            None => answer::show(self, pays, answer).await,
            Some(Code::InvalidInput) => {
                let problems = failure::problems(answer);
                let state = if self.state() == "json" { InputState::Json } else { InputState::Form };
                let given = self.visitor.render(|| GivenInput::with_problems(self.tool.schema(), self.input, state, problems)).await?;
                start::show(self.visitor, self.tool, &given).await
            }
            Some(code) => failure::show(self, pays, code, answer).await,
        }
    }
}
