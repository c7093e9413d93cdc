//! The schemas of all types, as an OpenAPI document contains them.

use schemars::{
    Schema,
    generate::SchemaSettings,
    transform::{ReplaceBoolSchemas, Transform, transform_subschemas},
};
use serde_json::{Map, Value};

use crate::*;

/// Registers types with a generator.
macro_rules! register {
    ($generator:ident: $($type:ident)*) => { $(_ = $generator.subschema_for::<$type>();)* };
}

/// Returns `components.schemas` of an OpenAPI document: the schema of each request and response, by name, in alphabetical order.
#[must_use]
pub fn schemas() -> Map<String, Value> {
    let mut all = responses();
    // A schema that requests and responses share accepts what a request accepts.
    all.extend(requests());
    all.sort_keys();
    all
}

/// Returns settings with references to the place of schemas in an OpenAPI document.
fn settings() -> SchemaSettings {
    let mut objects = ReplaceBoolSchemas::default();
    objects.skip_additional_properties = true;
    SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .with_transform(objects)
        .with_transform(Plain)
}

/// Returns the schemas of request bodies, and of what they contain.
fn requests() -> Map<String, Value> {
    let mut generator = settings().for_deserialize().into_generator();
    register! { generator:
        Budget BuilderVerdict ConversionRequest CreditVerdict DryRunRequest EndpointCheckRequest EndpointDraft EndpointPatch FaucetRequest
        InvokeRequest JsonRpcMessage MintCreditRequest PayoutSettingsDraft PayoutVerdict PolicyDraft QuoteRequest RefundRequest
        RegistrationRequest ReviewVerdict SellerQuoteRequest SetSecretRequest SettlementVerdict ToolInput
    }
    generator.take_definitions(true)
}

/// Returns the schemas of response bodies, and of what they contain.
fn responses() -> Map<String, Value> {
    let mut generator = settings().for_serialize().with_transform(NullOnlyIfPresent).into_generator();
    register! { generator:
        AllPayoutsPage AuditPage BuilderKeyResponse BuilderPage BuilderResponse CallPage Catalog ConversionQuote CreatePayoutResponse
        CreditResponse CreditsResponse DailyUsage DeleteEndpointResponse DocsSearchResponse DryRunResponse EndpointChangeResponse
        EndpointCheckResponse
        EndpointResponse EndpointSourceResponse EndpointSummaryPage Error EventPage Health HostRevenue InvokeResponse JsonRpcMessage
        JsonWebKeySet KeyRotationResponse Ledger LogPage Manifest Metrics MintCreditResponse OkResponse OpenApiDocument OwnEndpointResponse
        PaymentRequired PaymentResponse PayoutPage PayoutReceiptPage PayoutResponse PayoutSettingsResponse PolicyCheckResponse
        PolicyResponse QuoteResponse Readiness ReceiptResponse Reconciliation RefundResponse RegistrationResponse
        RemoveSecretResponse RescanResponse Resources Revenue ReviewPage RuntimeStats SafetyPolicyResponse SecretList SecretResponse
        SellerQuote SignInLink SimulatedBalance UnresolvedPage
    }
    generator.take_definitions(true)
}

/// Removes parts that readers of the document do not need: titles, formats of numbers, empty defaults, descriptions of `true`, and the
/// alternatives that are only a list of constants.
#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        schema.remove("title");
        let Some(members) = schema.as_object_mut() else { return };
        if members.get("type").is_some_and(is_number) {
            members.remove("format");
        }
        // Objects of any members are not closed unless they say so.
        if !members.contains_key("properties") && members.get("additionalProperties") == Some(&Value::Bool(true)) {
            members.remove("additionalProperties");
        }
        if members.get("default").is_some_and(|default| default.is_null() || *default == Value::Bool(false) || is_empty(default)) {
            members.remove("default");
        }
        if let Some(description) = members.get_mut("description")
            && let Some(text) = description.as_str()
        {
            *description = text.split('\n').collect::<Vec<_>>().join(" ").into();
        }
        constants(members);
    }
}

/// Returns whether the `type` of a schema accepts numbers.
fn is_number(kind: &Value) -> bool {
    let one = |kind: &Value| kind == "integer" || kind == "number";
    kind.as_array().map_or_else(|| one(kind), |kinds| kinds.iter().any(one))
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
        || value.as_f64() == Some(0.0)
}

/// Turns `oneOf` of constants into `enum`, and `enum` of one into `const`.
fn constants(members: &mut Map<String, Value>) {
    let constant = |option: &Value| option.get("const").cloned();
    let options =
        members.get("oneOf").and_then(Value::as_array).and_then(|options| options.iter().map(constant).collect::<Option<Vec<_>>>());
    if let Some(options) = options {
        members.remove("oneOf");
        if options.iter().all(Value::is_string) {
            members.insert("type".to_owned(), "string".into());
        }
        members.insert("enum".to_owned(), options.into());
    }
    if let Some([one]) = members.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
        let one = one.clone();
        members.remove("enum");
        members.remove("type");
        members.insert("const".to_owned(), one);
    }
    if let Some(constant) = members.get("const") {
        if constant.is_boolean() {
            members.remove("description");
        }
        members.remove("type");
        members.remove("minimum");
    }
    // The description of a type says nothing that the description of its field does not say.
    let is_described = members.contains_key("description");
    if let Some([first, second]) = members.get_mut("anyOf").and_then(Value::as_array_mut).map(Vec::as_mut_slice)
        && is_described
        && second["type"] == "null"
        && let Some(first) = first.as_object_mut()
    {
        first.remove("description");
    }
}

/// A field that a response omits if it has no value is never `null`, unless `nullable` says so.
#[derive(Clone)]
struct NullOnlyIfPresent;

impl Transform for NullOnlyIfPresent {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(members) = schema.as_object_mut() else { return };
        let required = members.get("required").cloned().unwrap_or_default();
        let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|required| required == name));
        for (name, property) in members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let Some(property) = property.as_object_mut() else { continue };
            if property.remove("nullable").is_none() && !is_required(name) {
                without_null(property);
            }
        }
    }
}

/// Removes `null` from what a schema accepts.
fn without_null(schema: &mut Map<String, Value>) {
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [one] = &kinds[..] {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(options) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        options.retain(|option| option["type"] != "null");
        if let [Value::Object(one)] = &options[..] {
            let one = one.clone();
            schema.remove("anyOf");
            for (name, value) in one {
                schema.entry(name).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
