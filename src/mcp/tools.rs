//! What `tools/list` answers: the active endpoints as tools.
//!
//! An endpoint's tool is made when the endpoint changes and kept with it, so that no request pays for the others.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use axum::http::request::Parts;
use rmcp::model::{CacheScope, JsonObject, ListToolsResult, MetaObject, Tool, ToolAnnotations};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{call::Era, own};
use crate::{
    app::App,
    catalog::{Form, Live},
    front::cursor,
    money::Gate,
    tool::{Availability, HandlerType, Slug},
};

/// Tools of one page. Clients that read one page only see a usual catalogue whole.
const PAGE: usize = 200;

/// Bytes of tools after which a page ends, however few they are: schemas may be large.
const MAX_PAGE_BYTES: usize = 256 << 10;

/// Most names in `?tools=`.
const MAX_NAMES: usize = 100;
/// Longest query of a URL, in bytes: room for that many names of the longest kind.
const MAX_QUERY_BYTES: usize = 16 << 10;

/// How long a client may take a list to be fresh, in milliseconds. Those that listen hear of a change at once.
const LIST_TTL_MS: u64 = 30_000;

/// In a list's `_meta`: all tools of the list, and those behind this page.
const TOTAL: &str = "tollhouse/total";
const REMAINING: &str = "tollhouse/remaining";

/// A tool as it is listed, and what a call of it has to heed.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) tool: Tool,
    pub(super) long_running: bool,
    /// Some of its arguments are repeated in `Mcp-Param-*` headers.
    pub(super) in_headers: bool,
    /// The tool as it is sent.
    json: Box<RawValue>,
    /// The same before 2026-07-28, where that is another.
    legacy: Option<Box<RawValue>>,
}

/// What tools are made with.
pub(super) struct Maker {
    pub(super) gate: Arc<Gate>,
    pub(super) long_running_ms: u64,
    pub(super) underscores: bool,
}

/// Names that the query of a URL narrows its connection to; without them it has all.
#[derive(Debug, Clone)]
pub(super) struct Narrowed(Option<Arc<BTreeSet<String>>>);

impl Narrowed {
    /// To those in `tools`, if that is there.
    ///
    /// # Errors
    ///
    /// Too many names, in words.
    pub(super) fn by(query: Option<&str>) -> Result<Self, String> {
        let query = query.unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            return Err(format!("the query of the URL is {} bytes, limit {MAX_QUERY_BYTES}", query.len()));
        }
        let mut given = form_urlencoded::parse(query.as_bytes());
        let Some((_, names)) = given.find(|(name, _)| name == "tools") else { return Ok(Self(None)) };
        let names: BTreeSet<_> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.len() > MAX_NAMES {
            return Err(format!("`tools` has {} names, limit {MAX_NAMES}; `{}` finds tools among all", names.len(), own::SEARCH));
        }
        Ok(Self(Some(Arc::new(names))))
    }

    /// Of no connection.
    pub(super) const NOT: Self = Self(None);

    /// Of a request, as the transport has read it.
    pub(super) fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or(Self::NOT)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }
}

/// One page of tools.
pub(super) struct Page {
    pub(super) tools: Vec<Arc<Listed>>,
    next: Option<String>,
    /// What its list says of itself.
    meta: MetaObject,
}

impl Page {
    /// The result that has the page, but for its tools.
    pub(super) fn result(&self) -> ListToolsResult {
        let mut result = ListToolsResult::default().with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public);
        result.next_cursor.clone_from(&self.next);
        result.meta = Some(self.meta.clone());
        result
    }

    /// The tools as they are sent.
    pub(super) fn json(&self, era: Era) -> Vec<&RawValue> {
        self.tools.iter().map(|listed| listed.json_of(era)).collect()
    }
}

/// Where a page begins.
#[derive(Default)]
struct PageStart {
    /// How many tools are on the pages before.
    passed: usize,
    /// The last of them; empty at the beginning.
    after: String,
}

/// The tool called `name`: our own, or an active endpoint's.
pub(super) fn find(app: &App, name: &str) -> Option<Arc<Listed>> {
    OWN.iter().find(|own| own.tool.name == name).cloned().or_else(|| of(&*app.catalog.find(&app.mcp.slug_of(name))?))
}

/// What was made of an endpoint, while it is active.
pub(super) fn of(live: &Live) -> Option<Arc<Listed>> {
    let form = live.form.as_ref().filter(|_| live.endpoint.availability() == Availability::Active)?;
    Arc::clone(form).downcast().ok()
}

/// The page after `cursor`, those that find others first; `None` when the cursor is not one of ours.
pub(super) fn page(app: &App, narrowed: &Narrowed, cursor: Option<&str>) -> Option<Page> {
    let names: Vec<_> = narrowed.0.iter().flat_map(|names| names.iter().map(String::as_str)).collect();
    let list = [&["tools/list"][..], &names].concat();
    let begins = cursor.map_or(Some(PageStart::default()), |cursor| PageStart::read(&cursor::read(&list, cursor)?))?;
    let catalogue = app.catalog.all();
    let own = OWN.iter().filter(|own| narrowed.has(&own.tool.name)).cloned();
    let mut page = Filling::default();
    let total = match &narrowed.0 {
        None => {
            let rest = catalogue.after(&begins.after).filter_map(|live| Some((live.endpoint.slug.clone(), of(live)?)));
            page.fill(own.skip(begins.passed), rest);
            OWN.len() + catalogue.counts().tools
        }
        Some(names) => {
            let slugs: BTreeSet<_> = names.iter().map(|name| app.mcp.slug_of(name)).collect();
            let named =
                slugs.iter().filter_map(|slug| catalogue.get(slug)).filter_map(|live| Some((live.endpoint.slug.clone(), of(live)?)));
            let named: Vec<_> = named.collect();
            let total = own.clone().count() + named.len();
            page.fill(own.skip(begins.passed), named.into_iter().filter(|(slug, _)| slug.as_str() > begins.after.as_str()));
            total
        }
    };
    let passed = begins.passed + page.tools.len();
    let next = page
        .full
        .then(|| cursor::write(&list, &PageStart { passed, after: page.last.map_or(begins.after, |slug| slug.to_string()) }.bytes()));
    let remaining = if next.is_some() { total.saturating_sub(passed) } else { 0 };
    let meta = [(TOTAL, total), (REMAINING, remaining)].map(|(name, count)| (name.to_owned(), json!(count)));
    Some(Page { tools: page.tools, next, meta: MetaObject(meta.into_iter().collect()) })
}

/// A page while it fills.
#[derive(Default)]
struct Filling {
    tools: Vec<Arc<Listed>>,
    bytes: usize,
    last: Option<Slug>,
    /// There is more than it has room for.
    full: bool,
}

impl Filling {
    fn fill(&mut self, own: impl Iterator<Item = Arc<Listed>>, endpoints: impl Iterator<Item = (Slug, Arc<Listed>)>) {
        for (slug, listed) in own.map(|own| (None, own)).chain(endpoints.map(|(slug, listed)| (Some(slug), listed))) {
            if self.tools.len() == PAGE || self.bytes >= MAX_PAGE_BYTES {
                self.full = true;
                return;
            }
            self.bytes += listed.json.get().len();
            self.tools.push(listed);
            self.last = slug.or(self.last.take());
        }
    }
}

impl PageStart {
    fn bytes(&self) -> Vec<u8> {
        let passed = u32::try_from(self.passed).unwrap_or(u32::MAX).to_be_bytes();
        [&passed, self.after.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (passed, after) = bytes.split_first_chunk()?;
        Some(Self { passed: u32::from_be_bytes(*passed) as usize, after: String::from_utf8(after.to_vec()).ok()? })
    }
}

/// The tools of the front itself, in their order.
static OWN: LazyLock<Vec<Arc<Listed>>> = LazyLock::new(|| own::tools().into_iter().map(|tool| Arc::new(Listed::of(tool))).collect());

impl Listed {
    fn of(tool: Tool) -> Self {
        let sent = |tool: &Tool| to_raw_value(tool).expect("tools have text keys");
        let (json, legacy) = (sent(&tool), for_legacy(tool.clone()));
        let legacy = (legacy.output_schema != tool.output_schema).then(|| sent(&legacy));
        Self { tool, long_running: false, in_headers: false, json, legacy }
    }

    fn json_of(&self, era: Era) -> &RawValue {
        self.legacy.as_deref().filter(|_| era == Era::Legacy).unwrap_or(&self.json)
    }
}

impl Maker {
    /// The tool that an endpoint is; `None` for one that cannot be any.
    pub(super) fn make(&self, live: &Live) -> Option<Form> {
        let listed = Listed::of(tool(self, live)?);
        let long_running = live.endpoint.long_running(self.long_running_ms);
        Some(Arc::new(Listed { long_running, in_headers: names_headers(&live.endpoint.input_schema), ..listed }))
    }
}

/// An endpoint as a tool. `None` for one whose input is no object: MCP's arguments always are.
fn tool(maker: &Maker, live: &Live) -> Option<Tool> {
    let endpoint = &live.endpoint;
    let input = input_schema(&endpoint.input_schema)?;
    let name = super::name_of(&endpoint.slug, maker.underscores);
    let mut tool = Tool::new(name, description(maker, live), Arc::new(input)).with_title(endpoint.title.clone());
    if let Some(output) = output_schema(live) {
        tool = tool.with_raw_output_schema(Arc::new(output));
    }
    Some(tool.with_annotations(annotations(live)).with_meta(prices(maker, live)))
}

fn description(maker: &Maker, live: &Live) -> String {
    let endpoint = &live.endpoint;
    let said = if endpoint.description.is_empty() { &endpoint.title } else { &endpoint.description };
    let price = match endpoint.price_usd {
        price if price.is_zero() => "Free.".to_owned(),
        price => format!("Costs {price} USD for each successful call, paid with x402 or developer credit."),
    };
    let long = if endpoint.long_running(maker.long_running_ms) {
        format!(" May take up to {} s.", endpoint.limits.wall_ms.div_ceil(1_000))
    } else {
        String::new()
    };
    format!("{said}\n\n{price}{long}")
}

/// A tool as the revisions before 2026-07-28 have it: structured results are objects there.
pub(super) fn for_legacy(mut tool: Tool) -> Tool {
    tool.output_schema = tool.output_schema.filter(|schema| is_of_objects(schema));
    tool
}

fn is_of_objects(schema: &JsonObject) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// What clients may rely on to ask or not ask their user. Spending money is nothing to do unasked.
fn annotations(live: &Live) -> ToolAnnotations {
    let endpoint = &live.endpoint;
    let can = endpoint.capabilities;
    let (free, keeps) = (endpoint.price_usd.is_zero(), can.kv || can.files);
    let open_world = can.http_get_json || endpoint.handler_type == HandlerType::X402ReadinessCheck;
    let annotations = ToolAnnotations::with_title(endpoint.title.clone()).read_only(free && !keeps).open_world(open_world);
    if free || keeps { annotations } else { annotations.destructive(false).idempotent(false) }
}

/// The root must be of type `object`: strict clients refuse the whole list otherwise.
fn input_schema(schema: &Value) -> Option<JsonObject> {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => JsonObject::new(),
        _ => return None,
    };
    let takes_objects = match schema.get("type") {
        None => true,
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(_) => false,
    };
    schema.insert("type".to_owned(), json!("object"));
    takes_objects.then_some(schema)
}

/// Whether an input schema has headers for some of its properties.
fn names_headers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("x-mcp-header") || members.values().any(names_headers),
        Value::Array(items) => items.iter().any(names_headers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The schema of structured results. For a paid tool it also takes a challenge, because some clients hold one against
/// it even where `isError` is set. `None` where a result may be no JSON, or where the schema's references would not
/// survive being nested.
fn output_schema(live: &Live) -> Option<JsonObject> {
    let mut schema = live.endpoint.output_schema.as_object().filter(|schema| !schema.is_empty())?.clone();
    if live.endpoint.price_usd.is_zero() {
        return Some(schema);
    }
    if !nests(&Value::Object(schema.clone())) {
        return None;
    }
    let mut both = JsonObject::new();
    for shared in ["$schema", "$defs", "definitions"] {
        if let Some(value) = schema.remove(shared) {
            both.insert(shared.to_owned(), value);
        }
    }
    let challenge = json!({
        "type": "object",
        "title": "Payment required",
        "properties": { "x402Version": { "type": "integer" }, "accepts": { "type": "array" } },
        "required": ["x402Version", "accepts"],
    });
    if is_of_objects(&schema) {
        both.insert("type".to_owned(), json!("object"));
    }
    both.insert("anyOf".to_owned(), json!([schema, challenge]));
    Some(both)
}

/// Whether every reference in `schema` still means the same one level deeper, with its definitions left at the root.
fn nests(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
            ("$ref", Value::String(to)) => to.starts_with("#/$defs/") || to.starts_with("#/definitions/"),
            ("$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef", Value::String(_)) => false,
            _ => nests(value),
        }),
        Value::Array(items) => items.iter().all(nests),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Prices in the words of each client that shows them before a call.
fn prices(maker: &Maker, live: &Live) -> MetaObject {
    let endpoint = &live.endpoint;
    let mut meta = JsonObject::new();
    meta.insert("tollhouse/priceUsd".to_owned(), json!(endpoint.price_usd));
    meta.insert("tollhouse/pricingMode".to_owned(), json!(endpoint.pricing_mode()));
    meta.insert("tollhouse/version".to_owned(), json!(endpoint.version));
    if !endpoint.price_usd.is_zero() {
        let mut challenge = maker.gate.challenge(&live.terms, "payment required");
        // apify: its `mcpc` pays unasked for what is marked so
        let mut terms = challenge.v2["accepts"][0].take();
        terms["paymentRequired"] = json!(true);
        meta.insert("x402".to_owned(), terms);
        // Cloudflare
        meta.insert("agents-x402/paymentRequired".to_owned(), json!(true));
        meta.insert("agents-x402/priceUSD".to_owned(), json!(endpoint.price_usd));
    }
    MetaObject(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_schemas_are_of_objects() {
        assert_eq!(input_schema(&json!({})).unwrap()["type"], "object");
        assert_eq!(input_schema(&json!({ "type": ["object", "null"] })).unwrap()["type"], "object");
        assert!(input_schema(&json!({ "type": "array" })).is_none());
        assert!(input_schema(&json!(false)).is_none());
    }

    #[test]
    fn references_that_would_break_are_found() {
        assert!(nests(&json!({ "properties": { "a": { "$ref": "#/$defs/a" } } })));
        assert!(nests(&json!({ "properties": { "$ref": { "type": "string" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#/properties/b" } } })));
        assert!(!nests(&json!({ "$id": "https://example.com/a" })));
    }

    #[test]
    fn a_query_narrows_to_its_tools() {
        let narrowed = Narrowed::by(Some("x=1&tools=a,%20b,")).unwrap();
        assert!(narrowed.has("a") && narrowed.has("b") && !narrowed.has("c"));
        assert!(Narrowed::by(Some("x=1")).unwrap().has("c"));
        assert!(!Narrowed::by(Some("tools=")).unwrap().has("c"));
    }
}
