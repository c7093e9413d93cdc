//! A tool in list form. It is built when the tool changes and stored with it, so that requests need not build it.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tollhouse_catalog::{FrontForm, MakeForm, ShownEndpoint};
use tollhouse_money::{Payments, WireVersion};
use tollhouse_tool::{Availability, CapabilityScope, SettleTime, add_body_field, portable, takes_objects};

use super::{
    revision::Era,
    settings::{McpOptions, name_of},
};

/// The built-in tool that searches for others.
pub(super) const SEARCH: &str = "search_tools";

/// A tool in list form, with data for its calls.
#[derive(Debug)]
pub(super) struct ToolEntry {
    pub(super) name: Box<str>,
    pub(super) long_running: bool,
    /// The input schema, if it maps some arguments to `McpOptions-Param-*` headers.
    pub(super) in_headers: Option<Arc<JsonObject>>,
    /// The tool as sent. The values that it was serialized from would take several times the memory.
    pub(super) json: Box<RawValue>,
    /// The tool as sent before 2026-07-28, if it differs.
    legacy: Option<Box<RawValue>>,
}

struct ToolEntryBuilder {
    payments: Arc<Payments>,
    long_running_ms: u64,
    underscores: bool,
}

/// Returns the list form of a tool while it is active.
pub(super) fn of(live: &ShownEndpoint) -> Option<Arc<ToolEntry>> {
    let form = live.form.as_ref().filter(|_| live.endpoint.availability() == Availability::Active)?;
    Arc::clone(form).downcast().ok()
}

impl McpOptions {
    /// Returns a builder of list forms, for the catalog to store.
    pub fn make_form(&self, long_running_ms: u64, payments: Arc<Payments>) -> MakeForm {
        let maker = ToolEntryBuilder { payments, long_running_ms, underscores: self.underscores };
        Box::new(move |live| maker.make(live))
    }
}

impl ToolEntry {
    pub(super) fn of(tool: Tool) -> Self {
        let sent = |tool: &Tool| to_raw_value(tool).expect("tools have text keys");
        let (name, json) = (tool.name.as_ref().into(), sent(&tool));
        let in_headers = tool.input_schema.values().any(names_headers).then(|| Arc::clone(&tool.input_schema));
        let differs = tool.output_schema.as_deref().is_some_and(|schema| !is_of_objects(schema));
        let legacy = differs.then(|| sent(&for_legacy(tool)));
        Self { name, long_running: false, in_headers, json, legacy }
    }

    /// Parses the serialized tool.
    pub(super) fn tool(&self, era: Era) -> Tool {
        serde_json::from_str(self.json_of(era).get()).expect("it was written from one")
    }

    pub(super) fn json_of(&self, era: Era) -> &RawValue {
        self.legacy.as_deref().filter(|_| era == Era::Legacy).unwrap_or(&self.json)
    }
}

impl ToolEntryBuilder {
    /// Builds the list form of a tool, or `None` if it cannot be an MCP tool.
    fn make(&self, live: &ShownEndpoint) -> Option<FrontForm> {
        let listed = ToolEntry::of(tool(self, live)?);
        Some(Arc::new(ToolEntry { long_running: live.endpoint.long_running(self.long_running_ms), ..listed }))
    }
}

/// Converts a tool to an MCP tool. Returns `None` if its input cannot be an object, which MCP's arguments always are.
fn tool(maker: &ToolEntryBuilder, live: &ShownEndpoint) -> Option<Tool> {
    let endpoint = &live.endpoint;
    let mut input = input_schema(&endpoint.input_schema)?;
    add_body_field(&mut input, &endpoint.request_types);
    let name = name_of(&endpoint.slug, maker.underscores);
    let mut tool = Tool::new(name, description(maker, live), Arc::new(input)).with_title(endpoint.title.clone());
    if let Some(output) = output_schema(live) {
        tool = tool.with_raw_output_schema(Arc::new(output));
    }
    Some(tool.with_annotations(annotations(live)).with_meta(prices(maker, live)))
}

fn description(maker: &ToolEntryBuilder, live: &ShownEndpoint) -> String {
    let endpoint = &live.endpoint;
    let message = if endpoint.description.is_empty() { &endpoint.title } else { &endpoint.description };
    let price = match endpoint.max_usd() {
        price if price.is_zero() => "Free.".to_owned(),
        max if endpoint.metered() => {
            format!("Costs at most {max} USD for each successful call, by use, paid with x402 or developer credit.")
        }
        price if endpoint.settle == SettleTime::Before => {
            format!(
                "Costs {price} USD for each call, charged before it runs, with x402 or developer credit; a run that fails can be repeated with \
                 the same payment."
            )
        }
        price => format!("Costs {price} USD for each successful call, paid with x402 or developer credit."),
    };
    let long = if endpoint.long_running(maker.long_running_ms) {
        format!(" Can take up to {} s.", endpoint.limits.wall_ms.div_ceil(1_000))
    } else {
        String::new()
    };
    format!("{message}\n\n{price}{long}")
}

/// Converts a tool for revisions before 2026-07-28, in which structured results are objects.
fn for_legacy(mut tool: Tool) -> Tool {
    tool.output_schema = tool.output_schema.filter(|schema| is_of_objects(schema));
    tool
}

fn is_of_objects(schema: &JsonObject) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Returns hints by which clients decide whether to ask their user. A client should not spend money without asking.
fn annotations(live: &ShownEndpoint) -> ToolAnnotations {
    let endpoint = &live.endpoint;
    let can = endpoint.capabilities;
    let (free, keeps) = (endpoint.max_usd().is_zero(), can.touch(CapabilityScope::Keeps));
    let open_world = can.touch(CapabilityScope::Others) || endpoint.handler_type.reaches_out();
    let annotations = ToolAnnotations::with_title(endpoint.title.clone()).read_only(free && !keeps).open_world(open_world);
    if free || keeps { annotations } else { annotations.destructive(false).idempotent(false) }
}

/// Returns the input schema with the root type `object`. Without it, strict clients reject the whole list.
fn input_schema(schema: &Value) -> Option<JsonObject> {
    let mut object = match portable(schema, "#") {
        Value::Object(schema) => schema,
        Value::Bool(true) => JsonObject::new(),
        _ => return None,
    };
    object.insert("type".to_owned(), json!("object"));
    takes_objects(schema).then_some(object)
}

/// Returns whether an input schema maps some properties to headers.
fn names_headers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("x-mcp-header") || members.values().any(names_headers),
        Value::Array(items) => items.iter().any(names_headers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the schema of structured results, or `None` if results may not be JSON. For a paid tool it also accepts a
/// challenge, because some clients validate challenges against it even though `isError` is set.
fn output_schema(live: &ShownEndpoint) -> Option<JsonObject> {
    let schema = &live.endpoint.output_schema;
    schema.as_object().filter(|schema| !schema.is_empty())?;
    let is_free = live.endpoint.max_usd().is_zero();
    let Value::Object(mut schema) = portable(schema, if is_free { "#" } else { "#/anyOf/0" }) else { return None };
    if is_free {
        return Some(schema);
    }
    let mut both = JsonObject::new();
    if let Some(dialect) = schema.shift_remove("$schema") {
        both.insert("$schema".to_owned(), dialect);
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

/// Returns the price in the format of each client that shows it before a call.
fn prices(maker: &ToolEntryBuilder, live: &ShownEndpoint) -> MetaObject {
    let endpoint = &live.endpoint;
    let mut meta = JsonObject::new();
    meta.insert("tollhouse/priceUsd".to_owned(), json!(endpoint.price_usd));
    if endpoint.metered() {
        meta.insert("tollhouse/maxPriceUsd".to_owned(), json!(endpoint.max_price_usd));
    }
    if endpoint.settle == SettleTime::Before {
        meta.insert("tollhouse/settle".to_owned(), json!(endpoint.settle));
    }
    meta.insert("tollhouse/pricingMode".to_owned(), json!(endpoint.pricing_mode()));
    meta.insert("tollhouse/version".to_owned(), json!(endpoint.version));
    if !endpoint.max_usd().is_zero() {
        // Apify: its `mcpc` pays without asking for a tool with this mark.
        if let Some(mut terms) = maker.payments.accepts(&live.terms, WireVersion::V2).into_iter().next() {
            terms["paymentRequired"] = json!(true);
            meta.insert("x402".to_owned(), terms);
        }
        // Cloudflare
        meta.insert("agents-x402/paymentRequired".to_owned(), json!(true));
        meta.insert("agents-x402/priceUSD".to_owned(), json!(endpoint.max_usd()));
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
}
