//! Recognizes a document in a successful GET response, and checks it.

use reqwest::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tollhouse_base::plural::plural;
use tollhouse_capability::guard::Fetched;
use url::Url;

use super::{
    challenge,
    notes::{Notes, short},
    request::same_host,
};

type Object = Map<String, Value>;

/// Methods of an OpenAPI path item.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(super) fn read(fetched: &Fetched, found: &mut Object, notes: &mut Notes) -> Kind {
    let document = match serde_json::from_slice::<Value>(&fetched.body) {
        Ok(document) if document.is_object() => document,
        Ok(_) => {
            notes.error("json", "the document is JSON, but not an object");
            return Kind::Unknown;
        }
        Err(error) => return text(fetched, &error, notes),
    };
    if !fetched.is_json() {
        notes.warning("content_type", "the document is JSON, but its Content-Type is not");
    }
    recognize(&document, &fetched.url, found, notes)
}

fn recognize(document: &Value, url: &Url, found: &mut Object, notes: &mut Notes) -> Kind {
    let has = |key: &str| document.get(key).is_some();
    let schema = document["$schema"].as_str().unwrap_or_default();
    if !has("paths") && document["resources"].is_array() {
        // The document may link to an OpenAPI document and name payment methods, but is neither.
        well_known(document, url, found, notes);
        Kind::X402WellKnown
    } else if has("openapi") || has("swagger") {
        openapi(document, found, notes);
        Kind::Openapi
    } else if challenge::looks_like_one(document) {
        notes.error("challenge_with_200", "a payment challenge is served with success: clients only pay when the status is 402");
        Kind::PaidEndpoint
    } else if document["schema"].as_str().is_some_and(|schema| schema.contains("hosted-endpoint-catalog")) {
        catalog(document, found, notes);
        Kind::EndpointCatalog
    } else if schema.contains("server.schema.json") || (has("name") && has("version") && (has("remotes") || has("packages"))) {
        server_json(document, found, notes);
        Kind::McpServerJson
    } else if document["kinds"].is_array() {
        notes.ok("facilitator", format!("a facilitator that supports {} of payment", plural(length(document, "kinds"), "kind")));
        Kind::Facilitator
    } else if has("resources") || has("products") || has("routes") {
        well_known(document, url, found, notes);
        Kind::X402WellKnown
    } else if has("serverInfo")
        || has("mcpServers")
        || has("supportedVersions")
        || has("jsonrpc")
        || (has("protocolVersion") && has("capabilities"))
    {
        mcp_metadata(document, found, notes);
        Kind::McpMetadata
    } else if has("payment") || has("payments") || has("x402") || has("mcp") {
        notes.ok("manifest", "a service manifest");
        found.insert("manifest".into(), json!({ "sections": sections(document) }));
        Kind::ServiceManifest
    } else {
        notes.error("unrecognised", "JSON, but not a document that x402 or MCP clients know, and no payment was required");
        Kind::Unknown
    }
}

fn text(fetched: &Fetched, error: &serde_json::Error, notes: &mut Notes) -> Kind {
    let kind = fetched.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if fetched.url.path().ends_with("/llms.txt") && kind.starts_with("text/") && !kind.starts_with("text/html") {
        notes.ok("llms_txt", "an overview for language models");
        return Kind::LlmsTxt;
    }
    if fetched.is_json() {
        notes.error("json", format!("the document declares JSON, but is not valid JSON: line {}, column {}", error.line(), error.column()));
    } else if fetched.body.is_empty() {
        notes.error("empty", "the answer is empty");
    } else {
        notes.error("not_json", format!("the document is not JSON; its Content-Type is `{}`", short(kind)));
    }
    Kind::Unknown
}

fn length(document: &Value, key: &str) -> usize {
    document[key].as_array().map_or(0, Vec::len)
}

fn sections(document: &Value) -> Vec<String> {
    document.as_object().into_iter().flat_map(|fields| fields.keys()).take(20).map(|key| short(key)).collect()
}

fn openapi(document: &Value, found: &mut Object, notes: &mut Notes) {
    match document["openapi"].as_str() {
        Some(version) if version.starts_with("3.") => notes.ok("openapi", format!("OpenAPI {}", short(version))),
        Some(version) => notes.warning("openapi", format!("indexers do not read OpenAPI {}; use 3.1", short(version))),
        None => notes.error("openapi", "there is no `openapi` version 3.x, and indexers do not read older versions"),
    }
    for pointer in ["/info/title", "/info/version"] {
        if !document.pointer(pointer).is_some_and(Value::is_string) {
            notes.error("openapi_info", format!("`{pointer}` is missing"));
        }
    }
    for pointer in ["/info/contact/email", "/info/x-guidance"] {
        if !document.pointer(pointer).is_some_and(Value::is_string) {
            notes.info("openapi_info", format!("can also have `{pointer}`, which x402 indexers show"));
        }
    }
    let (mut operations, mut paid, mut unpriced) = (0_usize, 0_usize, Vec::new());
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in METHODS.iter().filter_map(|method| Some((method, item.get(method)?))) {
            operations += 1;
            let asks = operation["responses"].get("402").is_some();
            let label = || format!("{} {}", method.to_uppercase(), short(path));
            match operation.get("x-payment-info") {
                Some(terms) => {
                    paid += 1;
                    payment_info(&label(), terms, asks, operation, notes);
                }
                // Programs that list resources cannot fill in path parameters.
                None if asks && !path.contains('{') => unpriced.push(label()),
                None => {}
            }
        }
    }
    for label in unpriced {
        let expected = format!("{label}: has a 402 answer but no `x-payment-info`");
        if paid == 0 {
            notes.warning("openapi_price", expected);
        } else {
            notes.info("openapi_price", format!("{expected}: indexers list the operations that have one"));
        }
    }
    if paid == 0 {
        notes.warning("openapi_price", "no operation has `x-payment-info`: indexers list none of them as paid");
    }
    found.insert("openapi".into(), json!({ "operations": operations, "paidOperations": paid }));
}

fn payment_info(label: &str, terms: &Value, asks: bool, operation: &Value, notes: &mut Notes) {
    let price = &terms["price"];
    let is_complete = match price["mode"].as_str() {
        Some("fixed") => price["amount"].is_string() && price["currency"].is_string(),
        Some("dynamic") => price.get("min").is_some() && price.get("max").is_some(),
        Some(_) | None => false,
    };
    if !is_complete {
        notes.error(
            "openapi_price",
            format!("{label}: `x-payment-info.price` must be fixed with currency and amount, or dynamic with min and max"),
        );
    }
    let x402 = terms["protocols"].as_array().is_some_and(|all| all.iter().any(|one| one.get("x402").is_some() || one == "x402"));
    if !x402 {
        notes.error("openapi_price", format!("{label}: `x-payment-info.protocols` does not name x402"));
    }
    if !asks {
        notes.warning("openapi_402", format!("{label}: is paid but documents no 402 answer"));
    }
    if operation.get("security").is_none() {
        notes.info("openapi_security", format!("{label}: has no `security` of its own; an empty list says that payment is enough"));
    }
}

fn well_known(document: &Value, url: &Url, found: &mut Object, notes: &mut Notes) {
    let Some(resources) = document.get("resources") else {
        return notes.info(
            "well_known",
            "an x402 document without `resources`; indexers that read this file expect `{version: 1, resources: [urls]}`",
        );
    };
    if document["version"] != 1 {
        notes.warning("well_known", "`version` is not 1");
    }
    let Some(resources) = resources.as_array() else { return notes.error("well_known", "`resources` is not a list") };
    let bad =
        resources.iter().filter(|one| !one.as_str().is_some_and(|one| Url::parse(one).is_ok_and(|one| one.scheme() == "https"))).count();
    if bad > 0 {
        notes.error("well_known", format!("`resources` has {} without an absolute https URL", plural(bad, "entry")));
    }
    let foreign = resources.iter().filter_map(Value::as_str).filter(|one| Url::parse(one).is_ok() && !same_host(one, url)).count();
    if foreign > 0 {
        notes.warning(
            "well_known",
            format!("`resources` has {} on another host, which requires `ownershipProofs`", plural(foreign, "entry")),
        );
    }
    if resources.is_empty() {
        notes.warning("well_known", "`resources` is empty");
    } else {
        notes.ok("well_known", format!("lists {}", plural(resources.len(), "paid resource")));
    }
    let first: Vec<String> = resources.iter().take(10).filter_map(Value::as_str).map(short).collect();
    found.insert("resources".into(), json!({ "count": resources.len(), "first": first }));
}

fn catalog(document: &Value, found: &mut Object, notes: &mut Notes) {
    let Some(endpoints) = document["endpoints"].as_array() else {
        return notes.error("catalog", "`endpoints` is not a list");
    };
    let is_complete = |endpoint: &&Value| {
        endpoint["slug"].is_string()
            && endpoint["priceUsd"].is_number()
            && endpoint["url"].is_string()
            && endpoint["inputSchema"].is_object()
    };
    let broken = endpoints.len() - endpoints.iter().filter(is_complete).count();
    if broken > 0 {
        notes.error("catalog", format!("has {} without `slug`, `url`, `priceUsd` or `inputSchema`", plural(broken, "endpoint")));
    }
    let paid = endpoints.iter().filter(|endpoint| endpoint["priceUsd"].as_f64().is_some_and(|price| price > 0.0)).count();
    notes.ok("catalog", format!("{}, {paid} of them paid", plural(endpoints.len(), "endpoint")));
    let first: Vec<String> = endpoints.iter().take(10).filter_map(|endpoint| endpoint["url"].as_str()).map(short).collect();
    found.insert("catalog".into(), json!({ "endpoints": endpoints.len(), "paid": paid, "first": first }));
}

fn server_json(document: &Value, found: &mut Object, notes: &mut Notes) {
    match document["name"].as_str() {
        Some(name) if name.split('/').count() == 2 && name.split('/').all(|part| !part.is_empty()) => {
            notes.ok("server_json", format!("server.json of `{}`", short(name)))
        }
        Some(_) => notes.error("server_json", "`name` must have the form `reverse.domain/name`"),
        None => notes.error("server_json", "`name` is missing"),
    }
    match document["description"].as_str().map(|text| text.chars().count()) {
        Some(1..=100) => {}
        Some(count) => notes.error("server_json", format!("`description` has {count} characters, but the registry requires 1 to 100")),
        None => notes.error("server_json", "`description` is missing"),
    }
    if !document["version"].is_string() {
        notes.error("server_json", "`version` is missing");
    }
    if document.get("$schema").is_none() {
        notes.warning("server_json", "`$schema` is missing, so readers cannot recognize the format");
    }
    let remotes = document["remotes"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, remote) in remotes.iter().enumerate() {
        match remote["type"].as_str() {
            Some("streamable-http") => {}
            Some("sse") => notes.warning("server_json", format!("/remotes/{index}: `sse` is the old transport; use `streamable-http`")),
            Some(_) | None => notes.error("server_json", format!("/remotes/{index}: `type` is not `streamable-http` or `sse`")),
        }
        if !remote["url"].as_str().is_some_and(|url| url.starts_with("https://")) {
            notes.error("server_json", format!("/remotes/{index}: `url` is not https"));
        }
    }
    if remotes.is_empty() && length(document, "packages") == 0 {
        notes.error("server_json", "`remotes` and `packages` are both missing, so there is nothing to connect to");
    }
    let urls: Vec<String> = remotes.iter().take(10).filter_map(|remote| remote["url"].as_str()).map(short).collect();
    found.insert(
        "serverJson".into(),
        json!({ "name": document["name"].as_str().map(short), "remotes": urls, "packages": length(document, "packages") }),
    );
}

fn mcp_metadata(document: &Value, found: &mut Object, notes: &mut Notes) {
    if document.get("jsonrpc").is_some() {
        notes.info("mcp", "a JSON-RPC message; MCP clients speak to this URL with POST");
    }
    if let Some(servers) = document["mcpServers"].as_object() {
        let insecure = servers.values().filter(|server| server["url"].as_str().is_some_and(|url| !url.starts_with("https://"))).count();
        if insecure > 0 {
            notes.warning("mcp", format!("has {} whose `url` is not https", plural(insecure, "server")));
        }
        notes.ok("mcp", format!("names {}", plural(servers.len(), "MCP server")));
    }
    if document.get("serverInfo").is_some() && !document["serverInfo"]["name"].is_string() {
        notes.error("mcp", "`serverInfo.name` is missing");
    } else if let Some(name) = document["serverInfo"]["name"].as_str() {
        notes.ok("mcp", format!("metadata of the MCP server `{}`", short(name)));
    }
    found.insert("mcp".into(), json!({ "sections": sections(document) }));
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    PaidEndpoint,
    McpEndpoint,
    McpMetadata,
    McpServerJson,
    Openapi,
    X402WellKnown,
    EndpointCatalog,
    ServiceManifest,
    Facilitator,
    LlmsTxt,
    #[default]
    Unknown,
}
