//! The first step: the input of the call.

use maud::{Markup, html};

use super::{
    file,
    input::GivenInput,
    name::FormName,
    tool::{CallCost, TriedTool},
};
use crate::{Page, PageResult, StatusCode, Visitor, form, state, text, word};

pub(super) async fn show(visitor: &Visitor, tool: &TriedTool, given: &GivenInput) -> PageResult {
    let costs = tool.costs(visitor).await;
    let simulated = visitor.is_simulated().await?;
    let start = StartPage { visitor, tool, given, costs, simulated };
    let main = visitor.render(|| start.view()).await?;
    let status = if given.refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(visitor.show(Page { status, heading: Some(heading(tool, simulated)), ..tool.page("Try", main) }).await)
}

fn heading(tool: &TriedTool, simulated: bool) -> Markup {
    html! {
        h1 { "Try " (text::words(&tool.record().title)) }
        p.marks {
            code { (tool.slug()) } (state(&word(tool.record().status))) (tool.price(simulated))
        }
    }
}

struct StartPage<'a> {
    visitor: &'a Visitor,
    tool: &'a TriedTool,
    given: &'a GivenInput,
    costs: CallCost,
    simulated: bool,
}

impl StartPage<'_> {
    fn view(&self) -> Markup {
        let schema = self.tool.schema();
        let types = self.tool.request_types();
        html! {
            (self.lead())
            form.form.try method="post" action=(self.tool.here()) data-call[self.costs == CallCost::Nothing]
                data-slug=(self.tool.slug()) data-owner=(self.visitor.session().map_or("", |session| &session.owner)) {
                (form::token(self.visitor))
                (FormName::new(self.visitor.now()).field())
                input type="hidden" name="step" value="call";
                (self.given.view(schema))
                div.buttons {
                    @match self.costs {
                        CallCost::Nothing => button.primary { "Call" },
                        CallCost::Something => button.primary { "See the terms" },
                        CallCost::Refused(_) => button.primary disabled { "Call" },
                    }
                    @if let Some((step, label)) = self.given.other(schema) {
                        button name="step" value=(step) formnovalidate { (label) }
                    }
                }
            }
            @if !types.is_empty() {
                section {
                    h2 { "Send a file instead" }
                    p.note { "Up to 190 KB on this page. A command from the tool's page sends larger files." }
                    form.form.try method="post" action=(self.tool.here()) data-call[self.costs == CallCost::Nothing] {
                        (form::token(self.visitor))
                        (FormName::new(self.visitor.now()).field())
                        input type="hidden" name="step" value="call";
                        (file::view(types))
                        div.buttons {
                            @match self.costs {
                                CallCost::Nothing => button { "Send the file" },
                                CallCost::Something => button { "See the terms for the file" },
                                CallCost::Refused(_) => button disabled { "Send the file" },
                            }
                        }
                    }
                }
            }
        }
    }

    /// Explains what the button does.
    fn lead(&self) -> Markup {
        let is_paid = self.tool.is_paid();
        html! {
            p.lead {
                @match self.costs {
                    CallCost::Nothing if is_paid => "You are the owner, so nothing is charged.",
                    CallCost::Nothing => "This tool is free.",
                    CallCost::Something => {
                        "You see the terms first. Nothing is charged before you accept them."
                        @if self.simulated { " This host gives you the play money." }
                    }
                    CallCost::Refused(code) => { (code.row().sentence) "." }
                }
            }
        }
    }
}
