//! Checks the public side of a host: how it looks to the indexers, agents and browser scripts that may list or call it.
//!
//! It requests the host's documents and the challenge of a paid tool as they would. It pays for nothing.

mod asker;
mod heads;

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{
    StatusCode, Url,
    header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS},
};
use serde_json::Value;
use tollhouse_api::{Catalog, SchemaDocument};
use tollhouse_call::check_readiness;
use tollhouse_capability::{
    Guard, GuardSettings,
    guard::{FetchError, Fetched},
};
use tollhouse_operate::finding::{Finding, Level};

use self::asker::Asker;

/// Longest description of a payment, in characters: facilitators refuse payments with longer ones.
const DESCRIBED: usize = 500;
/// Documents that are checked: path, expected kind, and the reason somebody wants it.
const DOCUMENTS: [(&str, &str, &str); 3] = [
    ("/.well-known/x402", "x402_well_known", "older indexers read it"),
    ("/openapi.json", "openapi", "indexers read prices and schemas from it"),
    ("/llms.txt", "llms_txt", "agents read it first"),
];
/// Codes of notes that are left out of the findings of each document, because they are reported once for the host or concern no document.
const SKIPPED_NOTES: [&str; 3] = ["not_https", "own_host", "discovery_missing"];

/// Checks the host whose public URL begins with `base`.
pub(super) async fn examine(base: &str) -> Vec<Finding> {
    let remedy = "use a URL that begins with `https://` and a host";
    let url = match Url::parse(base) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
        Ok(_) | Err(_) => return vec![Finding::fail("public", format!("`{base}` is not the URL of a host"), remedy)],
    };
    let asker = match Asker::new(&url) {
        Ok(asker) => asker,
        Err(error) => return vec![Finding::error("public", &error, remedy)],
    };
    let mut found = vec![asker.reached(&url).await];
    if found[0].level == Level::Fail {
        return found;
    }
    found.push(target(&url));
    for (path, kind, requested) in DOCUMENTS {
        found.extend(asker.document(path, kind, requested).await);
    }
    found.extend(asker.paid_tool().await);
    found.extend(heads::examine(&asker).await);
    found
}

/// Checks whether others can reach the host at this URL.
fn target(url: &Url) -> Finding {
    let guard = Guard::new(GuardSettings::default()).map(|guard| guard.check(url.as_str(), None));
    match guard {
        Ok(Err(FetchError::Forbidden(reason))) if url.scheme() == "https" => {
            Finding::warn("public", format!("others cannot reach it: {reason}"), "use a public host name, on port 443")
        }
        _ if url.scheme() != "https" => Finding::warn(
            "public",
            "the URL is not https: indexers do not list it, and prices and payments can be altered in transit",
            "put a TLS proxy in front of the host, and set its https URL in TOLLHOUSE_BASE_URL",
        ),
        _ => Finding::ok("public", "https, with a certificate that this system trusts"),
    }
}

impl Asker {
    async fn reached(&self, url: &Url) -> Finding {
        let remedy = match url.scheme() {
            "https" => "check its DNS, the proxy in front of it, and that the certificate chain is complete and not expired",
            _ => "check that the host runs and listens at this URL",
        };
        match self.get("/health/live").await {
            Ok(answer) if answer.status.is_success() => Finding::ok("public", format!("{} answers", self.base)),
            Ok(answer) => Finding::fail(
                "public",
                format!("{} answers {}; this is not a Tollhouse host", self.at("/health/live"), answer.status),
                remedy,
            ),
            Err(error) => Finding::error("public", &error, remedy),
        }
    }

    /// Checks a document: whether it is there, and what is wrong with it.
    async fn document(&self, path: &str, kind: &str, requested: &str) -> Vec<Finding> {
        let report = check_readiness(&self.client, &self.at(path)).await;
        let mut found = notes(path, &report);
        if report["kind"] != kind && !found.iter().any(|finding| finding.level == Level::Fail) {
            let status = report["status"].as_u64().map_or_else(|| "nothing".to_owned(), |status| status.to_string());
            let remedy = format!("configure the proxy to pass it on: {requested}");
            found.push(Finding::fail("public", format!("answers {status} instead of the expected document"), remedy).of(path));
        }
        found
    }

    /// Checks the challenge of the first paid tool in the catalog.
    async fn paid_tool(&self) -> Vec<Finding> {
        const NONE: &str = "publish and approve a tool with a price: indexers list only paid tools";
        let catalog = match self.get("/ai/endpoints").await.map(|answer| serde_json::from_slice::<Catalog>(&answer.body)) {
            Ok(Ok(catalog)) => catalog,
            Ok(Err(_)) => return vec![Finding::fail("public", "/ai/endpoints is not a list", "configure the proxy to pass it on")],
            Err(error) => return vec![Finding::error("public", &error, "configure the proxy to pass on /ai/endpoints")],
        };
        let Some(tool) = catalog.endpoints.into_iter().map(|tool| tool.common).find(|tool| !tool.price_usd.is_zero()) else {
            return vec![Finding::warn("public", "no paid tool is listed", NONE)];
        };
        let path = format!("/tools/{}", tool.slug);
        let mut found = notes(&path, &check_readiness(&self.client, &self.at(&path)).await);
        if !tool.url.starts_with(&self.base) {
            let text = format!("it is listed as `{}`, which does not begin with `{}`", tool.url, self.base);
            found.push(Finding::fail("public", text, "set TOLLHOUSE_BASE_URL to the public URL, to which payments are bound").of(&path));
        }
        // Bodies that are not JSON, or that the tool would reject: the host must not validate the input before payment.
        for body in ["", "[\"no input of this tool\"]", "{\"not\": \"json\""] {
            found.push(self.before_validation(&path, body).await);
        }
        match self.challenge(&path).await {
            Ok(answer) => found.extend(challenge(&path, &answer, &tool.input_schema)),
            Err(error) => found.push(Finding::error("public", &error, "configure the proxy to pass it on").of(&path)),
        }
        found
    }

    async fn before_validation(&self, path: &str, body: &str) -> Finding {
        let what = if body.is_empty() { "no input".to_owned() } else { format!("the input `{body}`") };
        match self.post(path, body).await {
            Ok(answer) if answer.status == StatusCode::PAYMENT_REQUIRED => {
                Finding::ok("public", format!("a call with {what} gets 402 before the input is checked")).of(path)
            }
            Ok(answer) => {
                let text = format!("an unpaid call with {what} gets {} instead of 402, so indexers do not list the tool", answer.status);
                Finding::fail("public", text, "configure the proxy to pass it on unchanged").of(path)
            }
            Err(error) => Finding::error("public", &error, "configure the proxy to pass it on").of(path),
        }
    }
}

/// Returns the notes of a readiness check as findings.
fn notes(path: &str, report: &Value) -> Vec<Finding> {
    let text = |note: &Value, member: &str| note[member].as_str().unwrap_or_default().to_owned();
    let notes = report["notes"].as_array().into_iter().flatten();
    let reported = notes.filter(|note| !SKIPPED_NOTES.contains(&text(note, "code").as_str())).map(|note| {
        let (message, code) = (text(note, "message"), text(note, "code"));
        let finding = match &*text(note, "severity") {
            "error" => Finding::fail("public", message, remedy(&code)),
            "warning" => Finding::warn("public", message, remedy(&code)),
            _ => Finding::ok("public", message),
        };
        finding.of(path)
    });
    reported.collect()
}

/// Returns the remedy for a note with this code.
fn remedy(code: &str) -> &'static str {
    match code {
        "unreachable" | "status" | "slow" => "check that the host runs, and that the proxy passes on this path",
        "well_known" => "set TOLLHOUSE_BASE_URL to the public https URL, with which all listed URLs begin",
        "openapi_info" => "set TOLLHOUSE_CONTACT",
        "openapi_price" | "openapi_402" | "openapi_security" => "serve the host's own document unchanged",
        "cache" | "cors" | "header_size" | "header_base64" => "configure the proxy to pass on its headers unchanged",
        "v1_absent" => "nothing to do if version 1 does not support the way this tool is paid",
        "content_type" | "json" | "not_json" | "empty" => "configure the proxy to pass on the document unchanged",
        _ => "compare with the answer of the host without the proxy",
    }
}

/// Checks a challenge of a tool with this input schema.
fn challenge(path: &str, answer: &Fetched, input: &SchemaDocument) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |is_so: bool, well: &str, ill: String, remedy: &str| {
        found.push(if is_so { Finding::ok("public", well) } else { Finding::fail("public", ill, remedy) }.of(path));
    };
    let passed_on = "configure the proxy to pass on headers and bodies unchanged";
    let v2 = answer.headers.get("payment-required").and_then(|header| STANDARD.decode(header.as_bytes()).ok());
    let v2 = v2.and_then(|json| serde_json::from_slice::<Value>(&json).ok()).filter(|challenge| challenge["x402Version"] == 2);
    let v1 = serde_json::from_slice::<Value>(&answer.body).ok().filter(|challenge| challenge["x402Version"] == 1);
    add(
        v2.is_some(),
        "has a challenge of version 2 in PAYMENT-REQUIRED",
        "has no challenge of version 2 in PAYMENT-REQUIRED".to_owned(),
        passed_on,
    );
    add(v1.is_some(), "has a challenge of version 1 in its body", "has no challenge of version 1 in its body".to_owned(), passed_on);
    let v2 = v2.unwrap_or_default();
    let reported = v1.iter().flat_map(|challenge| challenge["accepts"].as_array().into_iter().flatten().map(|terms| &terms["description"]));
    let max_len = reported.chain([&v2["resource"]["description"]]).filter_map(Value::as_str).map(|text| text.chars().count()).max();
    let max_len = max_len.unwrap_or_default();
    let short = "shorten the tool's description: facilitators refuse payments with longer ones";
    add(
        max_len <= DESCRIBED,
        "the description has at most 500 characters",
        format!("the description has {max_len} characters, more than {DESCRIBED}"),
        short,
    );
    found.extend([schema(path, &v2, input), origins(path, answer)]);
    found
}

/// Compares the input schema in the challenge, which indexers read, with the tool's own.
fn schema(path: &str, challenge: &Value, own: &SchemaDocument) -> Finding {
    let named = |schema: &Value| schema["properties"].as_object().map(|of| of.keys().cloned().collect::<BTreeSet<_>>()).unwrap_or_default();
    let input = &challenge["extensions"]["bazaar"]["schema"]["properties"]["input"]["properties"];
    let reported = ["body", "queryParams"].iter().map(|member| &input[member]).find(|schema| schema.is_object());
    let finding = match reported {
        None => Finding::warn(
            "public",
            "the challenge has no input schema, so indexers list the tool without one or not at all",
            "give the tool an input schema that is short enough for a header",
        ),
        Some(reported) if named(reported) == named(&own.0) => Finding::ok("public", "the challenge has the input schema"),
        // The host leaves a schema out that is too long.
        Some(reported) if named(reported).is_empty() => {
            Finding::warn("public", "the challenge leaves out the input schema", "shorten the schema")
        }
        Some(reported) => {
            let text = format!("the challenge has a different input schema, with the fields {:?}", named(reported));
            Finding::fail("public", text, "configure the proxy to pass on headers unchanged")
        }
    };
    finding.of(path)
}

/// Checks whether scripts of other sites may read the challenge.
fn origins(path: &str, answer: &Fetched) -> Finding {
    const PASSED_ON: &str = "configure the proxy to pass on the CORS headers, and to add none";
    let lists = |name, requested: &[&str]| {
        let values = answer.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let listed: Vec<_> = values.flat_map(|value| value.split(',')).map(|listed| listed.trim().to_ascii_lowercase()).collect();
        listed.iter().any(|listed| requested.contains(&listed.as_str()))
    };
    let may = lists(ACCESS_CONTROL_ALLOW_ORIGIN, &["*", "https://a-page-elsewhere.example"]);
    let reads = lists(ACCESS_CONTROL_EXPOSE_HEADERS, &["*", "payment-required"]);
    let finding = match (may, reads) {
        (true, true) => Finding::ok("public", "scripts of all sites can call it and read the challenge"),
        (false, _) => Finding::warn("public", "scripts of other sites cannot call it: CORS allows no origin", PASSED_ON),
        (true, false) => Finding::warn("public", "scripts in browsers cannot read PAYMENT-REQUIRED", PASSED_ON),
    };
    finding.of(path)
}
