//! What `tools/list` answers: the active endpoints as tools.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::own;
use crate::{
    app::App,
    catalog::Live,
    tool::{Availability, HandlerType, Slug},
};

/// Tools of one page. Clients that read one page only see a usual catalogue whole.
pub(super) const PAGE: usize = 500;

type Catalogue = Arc<BTreeMap<Slug, Arc<Live>>>;

/// Tools by name.
type Tools = Arc<BTreeMap<String, Listed>>;

/// A tool as it is listed, and what a call of it has to heed.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) tool: Tool,
    pub(super) long_running: bool,
    /// Some of its arguments are repeated in `Mcp-Param-*` headers.
    pub(super) in_headers: bool,
}

/// The tools of the catalogue, made once for each change of it.
#[derive(Default)]
pub(super) struct Listing {
    made: RwLock<Option<(Catalogue, Tools)>>,
}

/// Names that `?tools=` narrows a connection to; `None`: all.
#[derive(Debug, Clone)]
pub(super) struct Narrowed(Option<Vec<String>>);

impl Narrowed {
    pub(super) fn by(query: Option<&str>) -> Self {
        let mut given = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let names = given.find(|(name, _)| name == "tools").map(|(_, value)| value.into_owned());
        Self(names.map(|names| names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }
}

/// One page of tools.
pub(super) struct Page {
    pub(super) tools: Vec<Tool>,
    pub(super) next: Option<String>,
}

impl Listing {
    /// All tools by name, as the catalogue is now.
    pub(super) fn now(&self, app: &App) -> Tools {
        let catalogue = app.catalog.all();
        if let Some((of, tools)) = &*self.made.read().unwrap_or_else(PoisonError::into_inner)
            && Arc::ptr_eq(of, &catalogue)
        {
            return Arc::clone(tools);
        }
        let active = catalogue.values().filter(|live| live.endpoint.availability() == Availability::Active);
        let endpoints = active.filter_map(|live| listed(app, live));
        let own = own::tools().into_iter().map(|tool| Listed { tool, long_running: false, in_headers: false });
        let tools: Tools = Arc::new(own.chain(endpoints).map(|listed| (listed.tool.name.to_string(), listed)).collect());
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = Some((catalogue, Arc::clone(&tools)));
        tools
    }

    /// The page after `cursor`; `None` when the cursor is not one of ours.
    pub(super) fn page(&self, app: &App, narrowed: &Narrowed, cursor: Option<&str>) -> Option<Page> {
        let after = match cursor {
            None => String::new(),
            Some(cursor) => String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok().filter(|name| !name.is_empty())?,
        };
        let all = self.now(app);
        let mut rest = all.range::<str, _>((std::ops::Bound::Excluded(after.as_str()), std::ops::Bound::Unbounded));
        let mut rest = rest.by_ref().filter(|(name, _)| narrowed.has(name));
        let tools: Vec<_> = rest.by_ref().take(PAGE).map(|(_, listed)| listed.tool.clone()).collect();
        let next = rest.next().and(tools.last()).map(|last| URL_SAFE_NO_PAD.encode(last.name.as_bytes()));
        Some(Page { tools, next })
    }
}

fn listed(app: &App, live: &Live) -> Option<Listed> {
    let long_running = live.endpoint.long_running(app.long_running_ms);
    Some(Listed { tool: tool(app, live)?, long_running, in_headers: names_headers(&live.endpoint.input_schema) })
}

/// An endpoint as a tool. `None` for one whose input is no object: MCP's arguments always are.
fn tool(app: &App, live: &Live) -> Option<Tool> {
    let endpoint = &live.endpoint;
    let input = input_schema(&endpoint.input_schema)?;
    let mut tool = Tool::new(app.mcp.name_of(&endpoint.slug), description(app, live), Arc::new(input)).with_title(endpoint.title.clone());
    if let Some(output) = output_schema(live) {
        tool = tool.with_raw_output_schema(Arc::new(output));
    }
    Some(tool.with_annotations(annotations(live)).with_meta(prices(app, live)))
}

fn description(app: &App, live: &Live) -> String {
    let endpoint = &live.endpoint;
    let said = if endpoint.description.is_empty() { &endpoint.title } else { &endpoint.description };
    let price = match endpoint.price_usd {
        price if price.is_zero() => "Free.".to_owned(),
        price => format!("Costs {price} USD for each successful call, paid with x402 or developer credit."),
    };
    let long = if endpoint.long_running(app.long_running_ms) {
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
fn prices(app: &App, live: &Live) -> MetaObject {
    let endpoint = &live.endpoint;
    let mut meta = JsonObject::new();
    meta.insert("tollhouse/priceUsd".to_owned(), json!(endpoint.price_usd));
    meta.insert("tollhouse/pricingMode".to_owned(), json!(endpoint.pricing_mode()));
    meta.insert("tollhouse/version".to_owned(), json!(endpoint.version));
    if !endpoint.price_usd.is_zero() {
        let mut challenge = app.gate.challenge(&live.terms, "payment required");
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
        let narrowed = Narrowed::by(Some("x=1&tools=a,%20b,"));
        assert!(narrowed.has("a") && narrowed.has("b") && !narrowed.has("c"));
        assert!(Narrowed::by(Some("x=1")).has("c"));
        assert!(!Narrowed::by(Some("tools=")).has("c"));
    }
}
