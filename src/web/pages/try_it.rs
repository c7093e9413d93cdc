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
mod asked;
mod call;
mod failure;
mod input;
mod memory;
pub(super) mod name;
mod offer;
mod pay;
mod play;
mod start;
mod step;
mod terms;
mod tool;

use axum::{
    extract::RawQuery,
    http::{HeaderMap, header},
    response::Response,
};
use tollhouse_front::{Code, PathParams};

use self::{
    answer::Answer,
    asked::Asked,
    call::{Call, Pays},
    input::{Given, State},
    pay::Payable,
    terms::Terms,
    tool::Tool,
};
use crate::{
    forms::{Fields, Posted},
    visitor::{Refused, Visitor},
};

/// Maximum size of a form without a session: an input of usual length, escaped.
const MOST_BYTES: usize = 1 << 20;

/// The request of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Show the same input as JSON or in fields.
    Shown(State),
    /// Call the tool, or show the terms.
    Call,
    /// Call the tool with payment.
    Pay,
    /// Call the tool with payment, and download the answer.
    Save,
}

impl Step {
    fn of(fields: &Fields) -> Self {
        match fields.get("step") {
            Some("json") => Self::Shown(State::Json),
            Some("form") => Self::Shown(State::Form),
            Some("pay") => Self::Pay,
            Some("save") => Self::Save,
            _ => Self::Call,
        }
    }
}

pub(crate) async fn page(visitor: Visitor, PathParams(slug): PathParams<String>, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let tool = match Tool::find(&visitor, &slug).await {
        Err(refused) if refused.is(Code::UnknownEndpoint) => return super::tool::unknown(&visitor, &slug).await,
        tool => tool?,
    };
    let query = query.unwrap_or_default();
    let as_json = form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "as" && value == "json");
    let given = visitor.made(|| Given::initial(tool.schema(), if as_json { State::Json } else { State::Form })).await?;
    start::show(&visitor, &tool, &given).await
}

/// `POST …/try`: handles the next step.
pub(crate) async fn posted(
    PathParams(slug): PathParams<String>,
    headers: HeaderMap,
    posted: Posted<MOST_BYTES>,
) -> Result<Response, Refused> {
    let Posted { visitor, fields, .. } = posted;
    let began = visitor.now();
    let (tool, step) = (Tool::find(&visitor, &slug).await?, Step::of(&fields));
    let state = if let Step::Shown(state) = step { Some(state) } else { None };
    let given = visitor.made(|| Given::sent(tool.schema(), &fields, state)).await?;
    let Some(input) = given.input.as_deref().filter(|_| state.is_none()) else {
        let given = if state.is_some() { given } else { given.refused() };
        return start::show(&visitor, &tool, &given).await;
    };
    let streams = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"));
    let asked = Asked { visitor: &visitor, tool: &tool, input, fields: &fields, headers: &headers, began };
    match step {
        Step::Pay => asked.pay(streams).await,
        Step::Save => asked.save().await,
        Step::Call | Step::Shown(_) => asked.call(streams).await,
    }
}

impl Asked<'_> {
    /// Calls without a payment. Shows the answer if the tool is free, else the terms.
    async fn call(&self, streams: bool) -> Result<Response, Refused> {
        let call = Call { tool: self.tool, input: self.input, pays: &Pays::Nothing };
        let response = call.send(self.visitor, streams).await?;
        if call::is_stream(&response) {
            return Ok(call::passed(response));
        }
        let answer = Answer::read(response).await?;
        if answer.code != Some(Code::PaymentRequired) {
            return self.told(&Pays::Nothing, &answer).await;
        }
        let terms = Terms::read(self.visitor, self.tool, &answer).await?;
        offer::show(self, &terms).await
    }

    /// Calls with the payment in the form.
    async fn pay(&self, streams: bool) -> Result<Response, Refused> {
        let pays = Payable::of(self.fields, self.visitor)?.0;
        let response = Call { tool: self.tool, input: self.input, pays: &pays }.send(self.visitor, streams).await?;
        if call::is_stream(&response) {
            return Ok(call::passed(response));
        }
        self.told(&pays, &Answer::read(response).await?).await
    }

    /// Returns the answer as a file.
    async fn save(&self) -> Result<Response, Refused> {
        let pays = if self.fields.get("way").is_some() { Payable::of(self.fields, self.visitor)?.0 } else { Pays::Nothing };
        let response = Call { tool: self.tool, input: self.input, pays: &pays }.send(self.visitor, false).await?;
        let answer = Answer::read(response).await?;
        if answer.code.is_some() { self.told(&pays, &answer).await } else { Ok(answer.saved(self.tool.slug())) }
    }

    /// Shows the outcome as a page. Problems with the input appear in its form.
    async fn told(&self, pays: &Pays, answer: &Answer) -> Result<Response, Refused> {
        match answer.code {
            None => answer::show(self, pays, answer).await,
            Some(Code::InvalidInput) => {
                let problems = failure::problems(answer);
                let state = if self.state() == "json" { State::Json } else { State::Form };
                let given = self.visitor.made(|| Given::wrong(self.tool.schema(), self.input, state, problems)).await?;
                start::show(self.visitor, self.tool, &given).await
            }
            Some(code) => failure::show(self, pays, code, answer).await,
        }
    }
}
