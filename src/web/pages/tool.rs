//! `/dashboard/tools/{slug}`: a tool's description, schemas, price, and ways to call it.

use maud::{Markup, html};
use serde_json::json;
use tollhouse_account::session::SessionKind;
use tollhouse_api::{
    Catalog, Endpoint, EndpointResponse, EndpointView, HandlerType, Limits, Manifest, PaymentInfo, PaymentRequirements, QuoteContent,
    QuoteResponse,
};
use tollhouse_front::{Code, PathParams};
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::{MicroUsd, PricingMode, SettleTime, Status};

use super::{admin::takedown, owner_pages, tools, versions};
use crate::{
    Area, Number, Page, PageResult, SnippetParts, StatusCode, Tab, Visitor, Words, code, facts, moment, money, page_links,
    parts::{calls, schema},
    sample, segment, state, table, tabs, text, with_query, word,
};

pub(crate) async fn page(visitor: Visitor, PathParams(slug): PathParams) -> PageResult {
    let answer = match visitor.get::<EndpointResponse>(&owner_pages::api_path(&slug)).await {
        Err(refused) if refused.is(Code::UnknownEndpoint) => return unknown(&visitor, &slug).await,
        answer => answer?,
    };
    let manifest = visitor.manifest().await?;
    // A tool that takes no calls has no quote.
    let quote = visitor.post::<QuoteResponse>("/ai/quote", &json!({ "slug": slug })).await.ok();
    let usage = super::usage::charts(&visitor, &slug).await?;
    // Call statistics are only in the public record, not in the owner's.
    let public = match &answer.endpoint {
        EndpointView::Own(_) => visitor.without_session().get::<EndpointResponse>(&owner_pages::api_path(&slug)).await.ok(),
        EndpointView::Public(_) => None,
    };
    let public = match &public.as_ref().unwrap_or(&answer).endpoint {
        EndpointView::Public(tool) => Some(&**tool),
        EndpointView::Own(_) => None,
    };
    let shown = ToolView {
        visitor: &visitor,
        slug: &slug,
        tool: &answer.endpoint,
        public,
        quote: quote.as_ref().map(|answer| &answer.quote),
        manifest,
    };
    let page = visitor.render(|| shown.page(&usage)).await?;
    Ok(visitor.show(page).await)
}

struct ToolView<'a> {
    visitor: &'a Visitor,
    slug: &'a str,
    tool: &'a EndpointView,
    /// The public record, if the tool is listed.
    public: Option<&'a Endpoint>,
    /// `None` if it takes no calls.
    quote: Option<&'a QuoteContent>,
    manifest: &'a Manifest,
}

impl ToolView<'_> {
    fn page(&self, usage: &Markup) -> Page {
        let (slug, tool) = (self.slug, self.tool.common());
        let record = owner_pages::api_path(slug);
        let payment = &self.manifest.payment;
        let accepts = self.accepts();
        let networks = accepts.iter().map(|accepted| &*accepted.network).collect();
        let method = SnippetParts {
            base: self.visitor.base_url(),
            slug,
            input: sample::input(&tool.input_schema.0),
            networks,
            max_price: self.tool.max_price_usd().unwrap_or(tool.price_usd),
        };
        let is_active = tool.status == Status::Active;
        let own = if let EndpointView::Own(own) = self.tool { Some(&**own) } else { None };
        let main = html! {
            div.split {
                div {
                    (text::paragraphs(&tool.description))
                    section { h2 { "Input" } (schema::table("Input", "required", &tool.input_schema.0, &record)) }
                    section { h2 { "Output" } (schema::table("Output", "always", &tool.output_schema.0, &record)) }
                }
                aside aria-labelledby="terms" {
                    h2 #terms.aside { "Terms" }
                    (self.terms())
                    @if is_active { p { a.button.primary href=(page_links::tool_path(slug, "/try")) { "Try the tool" } } }
                    h2 { "Call the tool" }
                    @if !is_active { p { "This tool takes no calls now. When it is active again:" } }
                    (method.all())
                    @if let Some(own) = own { (takedown::section(self.visitor, slug, own)) }
                }
            }
            @if let Some(quote) = self.quote.filter(|quote| !quote.accepts.is_empty()) {
                section { h2 { "Accepted payments" } (paid_with(&quote.accepts, quote.price_usd, payment)) }
            }
            (usage)
        };
        let heading = html! {
            h1 { (text::words(&tool.title)) }
            p.marks {
                code { (slug) } (state(&word(tool.status)))
                // In a single column, the terms come after the schemas.
                span.early { (self.price()) }
            }
            @if is_active { p.early { a.button href=(page_links::tool_path(slug, "/try")) { "Try the tool" } } }
            @if own.is_some() { (tabs::tool_tabs(self.visitor, slug, Tab::Tool)) }
        };
        let style = own.map(|_| "make.css");
        Page { heading: Some(heading), style, ..Page::new(Area::Tools, &*tool.title, main).under("/dashboard", "Tools") }
    }

    fn price(&self) -> Markup {
        money::price(self.tool.common().price_usd, self.tool.max_price_usd(), self.manifest.payment.simulated)
    }

    fn accepts(&self) -> &[PaymentRequirements] {
        self.quote.map_or(&[][..], |quote| &quote.accepts[..])
    }

    fn terms(&self) -> Markup {
        let (tool, payment) = (self.tool.common(), &self.manifest.payment);
        let is_free = tool.pricing_mode == PricingMode::FreePublicUtility;
        let (is_upfront, own) = match self.tool {
            EndpointView::Own(own) => (own.settle == SettleTime::Before, Some(own)),
            EndpointView::Public(public) => (public.settle.is_some(), None),
        };
        let may: Vec<_> = tool.capabilities.each().map(|one| one.row().does).collect();
        let mut paid_in: Vec<_> =
            self.accepts().iter().map(|entry| money::token_names(payment, &entry.network, &entry.asset).join(", ")).collect();
        paid_in.dedup();
        let usage = self.public.and_then(|public| public.usage.as_ref());
        html! {
            p.figure { (self.price()) @if !is_free { " " span.muted { "a call" } } }
            p.muted {
                @if is_free { "Free. Answers have receipts too." }
                @else if is_upfront {
                    "Charged before it runs. If the run fails, repeat the call with the same payment: the tool runs again, and nothing more is charged."
                }
                @else { "You pay only for a result that matches the output schema. A call that fails costs nothing." }
            }
            (facts::list(&[
                ("Paid in", (!paid_in.is_empty()).then(|| text::words(paid_in.join("; ")))),
                ("Handler", Some(html! { (handler(tool.handler_type)) })),
                ("Version", own.map(|own| facts::id_in_brief(&own.version, &versions::name(&own.version)))),
                ("Limits", own.map(|own| html! { (limits(&own.limits)) })),
                ("Takes, beside JSON", (!tool.request_types.is_empty()).then(|| text::words(tool.request_types.join(", ")))),
                ("Request headers", (!tool.request_headers.is_empty()).then(|| text::words(tool.request_headers.join(", ")))),
                ("Capabilities", (!may.is_empty()).then(|| html! { (may.join("; ")) })),
                ("Builder", self.builder(own.map_or("", |own| &own.owner))),
                ("Called", usage.map(|usage| html! { (calls::call_stats(usage)) })),
                ("Tags", (!tool.tags.is_empty()).then(|| html! {
                    span.marks { @for tag in &tool.tags { a.tag href=(with_query("/dashboard", [("tag", &**tag)])) { (text::words(tag)) } } }
                })),
                ("Published", Some(moment(tool.created_at))),
                ("Changed", Some(moment(tool.updated_at))),
            ]))
        }
    }

    /// Shows the builder. The name is the builder's text, the id is not. Admins get a link even if
    /// the public record names nobody.
    fn builder(&self, owner: &str) -> Option<Markup> {
        let is_admin = self.visitor.kind() == Some(SessionKind::Admin);
        let Some(builder) = self.public.and_then(|public| public.builder.as_ref()) else {
            return (is_admin && owner.starts_with("bld_"))
                .then(|| html! { a href={ "/dashboard/admin/builders/" (segment(owner)) } { code { (owner) } } });
        };
        Some(html! {
            @if is_admin { a href={ "/dashboard/admin/builders/" (segment(&builder.id)) } { (text::words(&builder.name)) } }
            @else { (text::words(&builder.name)) }
            " " (facts::id(&builder.id))
        })
    }
}

fn handler(kind: HandlerType) -> &'static str {
    match kind {
        HandlerType::JsRequestResponse => "JavaScript",
        HandlerType::StaticJson => "fixed answer",
        HandlerType::ReceiptEcho | HandlerType::X402ReadinessCheck => "built into the host",
    }
}

/// Describes the most important limits. `changed` has those that differ from the defaults.
fn limits(changed: &Limits) -> String {
    let of = |name: &str| changed.get(name).or(TABLE.iter().find(|row| row.name == name).map(|row| row.default)).unwrap_or_default();
    let kib = |name: &str| format!("{} KiB", of(name).div_ceil(1 << 10));
    let seconds = of("wallMs") as f64 / 1e3;
    format!("{seconds} s, {} MiB of memory, {} in, {} out", of("heapBytes").div_ceil(1 << 20), kib("inputBytes"), kib("outputBytes"))
}

/// Shows the accepted ways to pay, with the exact amounts.
pub(super) fn paid_with(accepts: &[PaymentRequirements], price: MicroUsd, payment: &PaymentInfo) -> Markup {
    let columns = [Words("Network"), Words("Token"), Words("Scheme"), Number("Amount"), Words("Paid to")];
    let row = |entry: &PaymentRequirements| {
        let [network, token] = money::token_names(payment, &entry.network, &entry.asset);
        [
            html! { @if network != entry.network { (text::words(network)) " " } code { (entry.network) } },
            text::words(token),
            html! { (entry.scheme) },
            html! {
                @if entry.scheme == "upto" { "up to " }
                (money::amount(price, payment.simulated))
                span.note { " " (entry.amount) " units" }
            },
            facts::id(&entry.pay_to),
        ]
    };
    html! {
        (table("Accepted payments", columns, accepts.iter().map(row)))
        p.note { "Units are the smallest units of the token, as in signed payments." }
    }
}

/// Shows tools with a similar name or matching words, because no tool has this name.
pub(super) async fn unknown(visitor: &Visitor, slug: &str) -> PageResult {
    let mut near = tools::nearest(visitor, slug).await;
    if near.is_empty() {
        let words: String = slug.replace('-', " ").chars().take(100).collect();
        let matching = visitor.get::<Catalog>(&with_query("/ai/endpoints", [("q", &*words), ("limit", "5")])).await;
        near = matching.map(|matching| matching.endpoints.clone()).unwrap_or_default();
    }
    let main = html! {
        p.lead { "No tool that you can see is called " code { (text::first(slug, 100)) } "." }
        (tools::similar(&near))
        p { a.button href="/dashboard" { "All tools" } }
        (code::block("Command", "sh", &format!("curl -s {}/ai/endpoints", visitor.base_url())))
    };
    let page = Page::new(Area::Tools, "No tool has this name", main).under("/dashboard", "Tools");
    Ok(visitor.show(Page { status: StatusCode::NOT_FOUND, unlisted: true, ..page }).await)
}
