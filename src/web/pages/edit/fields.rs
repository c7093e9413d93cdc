//! The fields of the form, each with its problem.

use maud::{Markup, html};
use tollhouse_api::OwnEndpoint;
use tollhouse_tool::{Capabilities, Capability, CapabilityRow, MicroUsd};

use super::{draft::ToolDraft, problems::Problem};
use crate::{code, money, text};

/// Data besides the draft.
pub(super) struct FormContext<'a> {
    /// The record. `None` for a new tool.
    pub(super) tool: Option<&'a OwnEndpoint>,
    /// Capabilities that need no approval.
    pub(super) at_once: &'a Capabilities,
    pub(super) problems: &'a [Problem],
    /// The host's fee in basis points. 0 for the host's own tools.
    pub(super) fee_bps: u64,
    /// The receiver of the rest, as subject and verb.
    pub(super) gets: &'static str,
    pub(super) simulated: bool,
}

/// The example handler of a new tool.
const EXAMPLE: &str = "export default async function (req, ctx) {\n  ctx.log.info(\"shouting\", { letters: req.input.text.length });\n  \
                       return { text: req.input.text.toUpperCase() };\n}";

/// Kinds of handlers with their labels.
const KINDS: [(&str, &str); 5] = [
    ("js", "JavaScript"),
    ("ts", "TypeScript"),
    ("static_json", "fixed answer, as JSON"),
    ("receipt_echo", "built in: echoes the request, with a receipt"),
    ("x402_readiness_check", "built in: checks whether a URL can be paid"),
];

impl FormContext<'_> {
    fn problem(&self, name: &str) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.field() == Some(name))
    }

    /// Shows a field with its label, note and problem.
    fn field(&self, name: &str, label: &str, note: &Markup, input: impl FnOnce(FieldIds) -> Markup) -> Markup {
        let wrong = self.problem(name);
        let marks = FieldIds { id: format!("field-{name}"), invalid: wrong.map(|_| "true"), note: format!("note-{name}") };
        let (id, note_id) = (marks.id.clone(), marks.note.clone());
        html! {
            div.field {
                label for=(id) { (label) }
                (input(marks))
                p.note #(note_id) {
                    @if let Some(wrong) = wrong { strong.wrong { (text::line(&wrong.message)) ". " } }
                    (note)
                }
            }
        }
    }
}

/// Ids that connect a field to its label and note.
struct FieldIds {
    id: String,
    invalid: Option<&'static str>,
    note: String,
}

impl FieldIds {
    fn line(self, name: &str, draft: &ToolDraft, placeholder: &str) -> Markup {
        html! {
            input id=(self.id) name=(name) value=(draft.get(name)) autocomplete="off" spellcheck="false" placeholder=(placeholder)
                aria-invalid=[self.invalid] aria-describedby=(self.note);
        }
    }

    fn area(self, name: &str, draft: &ToolDraft, rows: u32, class: &str) -> Markup {
        html! {
            textarea id=(self.id) name=(name) rows=(rows) class=(class) spellcheck="false" autocapitalize="off"
                aria-invalid=[self.invalid] aria-describedby=(self.note) {
                // Browsers remove the first line break of a text area.
                "\n" (draft.get(name))
            }
        }
    }
}

pub(super) fn details(draft: &ToolDraft, known: &FormContext, is_new: bool) -> Markup {
    html! {
        section {
            h2 { "Details" }
            @if is_new {
                (known.field("slug", "Name in the URL", &html! { "Lowercase letters, digits and hyphens: " code { "/tools/name" } ". It cannot be changed later." },
                    |marks| marks.line("slug", draft, "shout")))
            }
            (known.field("title", "Title", &html! { "Up to 120 characters." }, |marks| marks.line("title", draft, "Shout")))
            (known.field("description", "Description",
                &html! { "For people, and for models that choose a tool. Up to 2,000 characters. Payment challenges contain the first 500." },
                |marks| marks.area("description", draft, 5, "")))
            (known.field("priceUsd", "Price per call, in US dollars",
                &html! { "Up to six decimals; 0 is free. By default, only a result that matches the output schema is charged. " (net("priceUsd", draft, known)) },
                |marks| marks.line("priceUsd", draft, "0.003")))
            (known.field("maxPriceUsd", "Maximum price in US dollars, if the handler sets the price",
                &html! {
                    "Leave it empty for a fixed price. Otherwise the handler sets the price of each call with " code { "ctx.charge" } ". "
                    (net("maxPriceUsd", draft, known))
                },
                |marks| marks.line("maxPriceUsd", draft, "")))
            (known.field("tags", "Tags", &html! { "One per line, up to 16." }, |marks| marks.area("tags", draft, 3, "")))
        }
    }
}

/// Shows the builder's share of a price. The script updates it.
fn net(name: &str, draft: &ToolDraft, known: &FormContext) -> Markup {
    let typed = draft.get(name).trim().trim_start_matches('$').parse::<f64>().ok().filter(|usd| *usd < 1e9).unwrap_or_default();
    let price = MicroUsd((typed * 1e6).round() as u64);
    let [net, fee] = money::shares(price, known.fee_bps).map(money::usd);
    let mark = money::marked(known.simulated);
    html! {
        @if known.fee_bps > 0 {
            output for={ "field-" (name) } data-fee-bps=(known.fee_bps) data-gets=(known.gets) data-mark=(mark) {
                @if !price.is_zero() { "Of " (money::usd(price)) (mark) " " (known.gets) " " (net) (mark) ": the host keeps " (fee) (mark) "." }
            }
        }
    }
}

pub(super) fn handler(draft: &ToolDraft, known: &FormContext, is_new: bool) -> Markup {
    let now = draft.get("kind");
    let is_code = ["js", "ts"].contains(&now);
    html! {
        section {
            h2 { "Handler" }
            @if is_new || is_code {
                @let kinds = KINDS.iter().filter(|(kind, _)| is_new || ["js", "ts"].contains(kind));
                (known.field("kind", "Kind", &html! {}, |marks| html! {
                    select id=(marks.id) name="kind" aria-describedby=(marks.note) {
                        @for (kind, words) in kinds { option value=(kind) selected[*kind == now] { (words) } }
                    }
                }))
            } @else {
                input type="hidden" name="kind" value=(now);
            }
            @if is_new || is_code || now == "static_json" {
                (known.field("source", if now == "static_json" { "Answer, as JSON" } else { "Source" }, &html! {
                    @if now == "static_json" { "Every call gets this answer." }
                    @else { "One module with the default export " code { "async (req, ctx) => …" } "." }
                    (invisible_lines(draft.get("source")))
                }, |marks| marks.area("source", draft, 24, "mono")))
                @if now != "static_json" {
                    p.needs-script { label.box { input #plain type="checkbox"; "Plain text field, for screen readers and phones" } }
                }
            } @else {
                p.muted { "This tool is built into the host." }
            }
            @if is_new { details.way { summary { "Example handler" } (code::block("handler.js", "js", EXAMPLE)) } }
        }
    }
}

/// Names the lines of a source with invisible characters, which must not be lost.
fn invisible_lines(source: &str) -> Markup {
    let odd = |line: &str| tollhouse_base::invisible_chars::marked(line).any(|(_, unseen)| unseen);
    let lines: Vec<_> = source.lines().enumerate().filter(|(_, line)| odd(line)).map(|(position, _)| position + 1).collect();
    html! {
        @if let Some(first) = lines.first() {
            " " strong { "Lines with invisible characters: " (lines.len()) ", the first is line " (first) "." }
        }
    }
}

pub(super) fn schemas(draft: &ToolDraft, known: &FormContext) -> Markup {
    html! {
        section {
            h2 { "Schemas" }
            (known.field("inputSchema", "Input, as JSON Schema", &html! { "Input that does not match is rejected before the handler runs." },
                |marks| marks.area("inputSchema", draft, 10, "mono")))
            (known.field("outputSchema", "Output, as JSON Schema", &html! { "A result that does not match is rejected." },
                |marks| marks.area("outputSchema", draft, 10, "mono")))
        }
    }
}

pub(super) fn reach(draft: &ToolDraft, known: &FormContext) -> Markup {
    html! {
        section {
            h2 { "Access" }
            fieldset.field {
                legend { "Capabilities" }
                @for capability in Capability::ALL {
                    @let CapabilityRow { name, does, .. } = capability.row();
                    label.box {
                        input type="checkbox" name="capabilities" value=(name) checked[draft.lines("capabilities").any(|one| one == *name)];
                        span { code { (name) } " " (does) " " span.muted { "(" (grant_status(*capability, known)) ")" } }
                    }
                }
            }
            (known.field("allowedHosts", "Hosts that it can call", &html! { "One per line, for " code { "fetch" } " and " code { "ctx.httpGetJson" } ". For example " code { "api.example.com" } "." },
                |marks| marks.area("allowedHosts", draft, 3, "")))
            (known.field("schedules", "Schedules", &html! { "Cron expressions in UTC, one per line. The export " code { "scheduled" } " runs at these times, for example " code { "0 4 * * *" } "." },
                |marks| marks.area("schedules", draft, 2, "")))
            label.box {
                input #field-refundBrokenStreams type="checkbox" name="refundBrokenStreams" value="true"
                    checked[draft.get("refundBrokenStreams") == "true"];
                "Refund developer credit if the tool breaks off a streamed answer"
            }
        }
    }
}

/// Describes whether a capability is granted, or what happens if it is requested.
fn grant_status(capability: Capability, known: &FormContext) -> &'static str {
    if known.tool.is_some_and(|tool| tool.common.capabilities.has(capability)) {
        "granted"
    } else if known.tool.is_some_and(|tool| tool.requested_capabilities.has(capability)) {
        "waits for approval"
    } else if known.at_once.has(capability) {
        "granted automatically"
    } else {
        "needs approval"
    }
}

pub(super) fn run(draft: &ToolDraft, known: &FormContext) -> Markup {
    html! {
        section {
            h2 { "Run" }
            (known.field("input", "Input, as JSON", &html! {
                "Run passes this input to the handler above, even if it is not published. The run has the tool's grants and secrets, but temporary keys and files. "
                "Nothing is charged."
            }, |marks| marks.area("input", draft, 6, "mono")))
        }
    }
}
