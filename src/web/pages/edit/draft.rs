//! The text in the form of a tool, and its conversion to API requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json, value::RawValue};
use sha2::{Digest as _, Sha256};
use tollhouse_api::{OwnEndpoint, UploadedHandler};
use tollhouse_tool::{Capabilities, MicroUsd, StaticResponse};

use super::problems::{FIELDS, Problem};
use crate::{Fields, pages::owner_pages::source_text, word};

/// Other fields of the form: slug and paused state of a new tool, input of a run, attestation, and
/// note.
const EXTRA_FIELDS: [&str; 5] = ["slug", "paused", "input", "attested", "note"];

/// Fields of an upload that a change may contain.
const CHANGEABLE: [&str; 12] = [
    "title",
    "description",
    "priceUsd",
    "maxPriceUsd",
    "tags",
    "handler",
    "inputSchema",
    "outputSchema",
    "capabilities",
    "allowedHosts",
    "schedules",
    "refundBrokenStreams",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolDraft(BTreeMap<&'static str, String>);

/// The fields of an upload, with a static response as its [text](tollhouse_tool::WithResponse), and the problems with it.
pub(super) type UploadBody = (Map<String, Value>, Vec<Problem>);

impl ToolDraft {
    /// Creates the draft of an existing tool with its handler, in the same form as a browser would
    /// send it. A static response is its text.
    pub(super) fn from_tool(tool: &OwnEndpoint, handler: Option<&UploadedHandler>) -> Self {
        let common = &tool.common;
        let usd = |usd: MicroUsd| usd.to_string();
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let language = handler.and_then(|handler| handler.language);
        let set = |granted: &Capabilities, requested: &Capabilities| {
            let names: BTreeSet<_> = granted.names().chain(requested.names()).collect();
            names.into_iter().collect::<Vec<_>>().join("\n")
        };
        let more_hosts = tool.requested_hosts.iter().filter(|host| !tool.allowed_hosts.contains(host));
        let hosts: Vec<_> = tool.allowed_hosts.iter().chain(more_hosts).map(String::as_str).collect();
        let texts = [
            ("title", common.title.replace(['\r', '\n'], "")),
            ("description", common.description.clone()),
            ("priceUsd", usd(common.price_usd)),
            ("maxPriceUsd", tool.max_price_usd.map(usd).unwrap_or_default()),
            ("tags", common.tags.join("\n")),
            ("kind", language.map_or_else(|| word(common.handler_type), word)),
            ("source", handler.map(source).unwrap_or_default()),
            ("inputSchema", pretty(&common.input_schema.0)),
            ("outputSchema", pretty(&common.output_schema.0)),
            ("capabilities", set(&common.capabilities, &tool.requested_capabilities)),
            ("allowedHosts", hosts.join("\n")),
            ("schedules", tool.schedules.join("\n")),
            ("refundBrokenStreams", common.refund_broken_streams.then_some("true").unwrap_or_default().to_owned()),
        ];
        Self(texts.into_iter().map(|(name, text)| (name, carried(&text))).collect())
    }

    pub(super) fn read<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut draft = Self::default();
        let mut capabilities = Vec::new();
        for (name, value) in fields {
            if name == "capabilities" {
                capabilities.push(value);
            } else if let Some(name) = known(name) {
                draft.0.insert(name, carried(value));
            }
        }
        capabilities.sort_unstable();
        draft.0.insert("capabilities", capabilities.join("\n"));
        draft
    }

    /// Returns a hash that identifies this draft in a review.
    pub(super) fn name(&self) -> String {
        let mut hash = Sha256::new();
        for text in FIELDS.iter().map(|(name, _)| *name).chain(["slug"]).map(|name| self.get(name)) {
            hash.update(format!("{} {text}\n", text.len()));
        }
        hex::encode(hash.finalize())
    }

    /// Returns whether this is the reviewed draft, if it was sent from a review.
    pub(super) fn was_reviewed(&self, fields: &Fields) -> bool {
        fields.get("reviewed").is_none_or(|reviewed| reviewed == self.name())
    }

    /// Parses the text of [`ToolDraft::to_json`], without a source.
    pub(super) fn parse(text: &str) -> Self {
        let members: BTreeMap<String, String> = serde_json::from_str(text).unwrap_or_default();
        Self(members.into_iter().filter_map(|(name, text)| Some((known(&name)?, text))).collect())
    }

    /// Returns everything except the source as one text, for a hidden field.
    pub(super) fn to_json(&self) -> String {
        let fields = FIELDS.iter().filter(|(name, _)| *name != "source");
        let members: Map<_, _> = fields.map(|(name, _)| ((*name).to_owned(), json!(self.get(name)))).collect();
        Value::Object(members).to_string()
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn set(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.insert(name, text.into());
    }

    pub(super) fn lines(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).lines().map(str::trim).filter(|line| !line.is_empty())
    }

    /// Iterates over the fields in which `other` differs.
    pub(super) fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = DifferingField<'a>> {
        let texts = move |(name, title)| DifferingField { name, title, before: self.get(name), after: other.get(name) };
        FIELDS.into_iter().map(texts).filter(|field| field.before != field.after)
    }

    /// Returns the fields that publishing `self` would change in `before`. Differences only in JSON
    /// formatting do not count.
    pub(super) fn changed<'a>(&'a self, before: &'a Self) -> Vec<DifferingField<'a>> {
        let (members, _) = self.change(before);
        let member = |name| if ["source", "kind"].contains(&name) { "handler" } else { name };
        before.differing(self).filter(|field| members.contains_key(member(field.name))).collect()
    }

    /// Takes fields from `theirs` that were not changed here since `base`. Returns their labels.
    pub(super) fn next_step(&mut self, base: &Self, theirs: &Self) -> Vec<&'static str> {
        let taken: Vec<_> =
            theirs.differing(self).filter(|field| field.after == base.get(field.name)).map(|field| (field.name, field.title)).collect();
        for (name, _) in &taken {
            self.set(name, theirs.get(name));
        }
        taken.into_iter().map(|(_, title)| title).collect()
    }

    pub(super) fn body(&self) -> UploadBody {
        let mut problems = Vec::new();
        let mut members = Map::new();
        for name in ["title", "description"] {
            members.insert(name.to_owned(), json!(self.get(name)));
        }
        for (name, absent) in [("priceUsd", None), ("maxPriceUsd", Some(json!(0)))] {
            members.extend(price(self.get(name), absent, name, &mut problems).map(|price| (name.to_owned(), price)));
        }
        for name in ["tags", "allowedHosts", "schedules"] {
            members.insert(name.to_owned(), self.lines(name).collect());
        }
        for name in ["inputSchema", "outputSchema"] {
            members.extend(parsed(self.get(name), &format!("/{name}"), &mut problems).map(|schema| (name.to_owned(), schema)));
        }
        // A browser leaves out a box that is not ticked.
        members.insert("refundBrokenStreams".to_owned(), json!(self.get("refundBrokenStreams") == "true"));
        let request: Map<_, _> = self.lines("capabilities").map(|name| (name.to_owned(), json!(true))).collect();
        members.insert("capabilities".to_owned(), Value::Object(request));
        let (kind, handler) = self.handler(&mut problems);
        members.insert("handlerType".to_owned(), json!(kind));
        members.extend(handler.map(|handler| ("handler".to_owned(), handler)));
        (members, problems)
    }

    pub(super) fn run(&self, input: &str) -> (Option<Value>, Vec<Problem>) {
        let mut problems = Vec::new();
        if let Err(error) = serde_json::from_str::<&RawValue>(input) {
            problems.push(Problem::no_json("/input", &error));
        }
        let (_, handler) = self.handler(&mut problems);
        (handler, problems)
    }

    fn handler(&self, problems: &mut Vec<Problem>) -> (&str, Option<Value>) {
        let source = self.get("source");
        match self.get("kind") {
            language @ ("js" | "ts") => ("js_request_response", Some(json!({ "source": source, "language": language }))),
            kind @ "static_json" => (kind, response(source, problems).map(|response| json!({ "response": response.text() }))),
            kind => (kind, None),
        }
    }

    /// Returns the fields of an upload that differ from `theirs`: the body of a change.
    pub(super) fn change(&self, theirs: &Self) -> UploadBody {
        let ((mut members, problems), (theirs, _)) = (self.body(), theirs.body());
        members.retain(|name, value| CHANGEABLE.contains(&name.as_str()) && theirs.get(name) != Some(value));
        (members, problems)
    }
}

/// Returns the source of a handler, as a form would send it.
pub(super) fn source(handler: &UploadedHandler) -> String {
    carried(&source_text(handler))
}

/// A field in which two drafts differ.
pub(super) struct DifferingField<'a> {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

/// Returns the known field with this name.
fn known(name: &str) -> Option<&'static str> {
    let all = FIELDS.iter().map(|(name, _)| *name).chain(EXTRA_FIELDS);
    all.into_iter().find(|known| *known == name)
}

/// Normalizes a text as a form would.
fn carried(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}")
}

/// Parses an amount. An invalid one is passed on, for the API to refuse.
fn price(text: &str, absent: Option<Value>, name: &str, problems: &mut Vec<Problem>) -> Option<Value> {
    let text = text.trim().trim_start_matches('$');
    if text.is_empty() {
        if absent.is_none() {
            problems.push(Problem::new(&format!("/{name}"), "enter the price of a call; 0 is free"));
        }
        return absent;
    }
    let number = serde_json::from_str(text).ok().filter(Value::is_number);
    Some(number.unwrap_or_else(|| json!(text)))
}

/// Parses typed JSON.
fn parsed(text: &str, pointer: &str, problems: &mut Vec<Problem>) -> Option<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(Problem::no_json(pointer, &error));
            None
        }
    }
}

/// Reads a typed static response.
fn response(text: &str, problems: &mut Vec<Problem>) -> Option<StaticResponse> {
    StaticResponse::read(text).map_err(|error| problems.push(Problem::no_json("/handler/response", &error))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> OwnEndpoint {
        let at = "2026-11-22T09:58:03.000Z";
        let review = json!({
            "state": "none", "since": null, "findings": [], "decision": null, "approvedVersion": null, "approvedFields": {},
        });
        let tool = json!({
            "title": "Shout", "description": "a\r\nb", "priceUsd": 0.000_001, "tags": ["x", "y"], "handlerType": "js_request_response",
            "inputSchema": { "type": "object" }, "outputSchema": {}, "capabilities": { "kv": true, "logs": false },
            "requestedCapabilities": { "httpGetJson": true }, "allowedHosts": ["a.test"], "requestedHosts": ["b.test", "a.test"],
            "slug": "shout", "id": "ep_01KATR3Q6S4B8Z2M5V7X9C1D3F", "status": "active", "runtime": "admin_gated_js_request_response_v1", "url": "https://a.test",
            "pricingMode": "fixed_price_success_receipt", "method": "POST", "createdAt": at, "updatedAt": at, "version": "sha256:1",
            "versions": [], "revision": 1, "owner": "bld_1", "limits": {}, "ownLimits": {}, "limitCaps": {}, "tier": "jit",
            "tierCap": "jit", "isolation": "warm", "accepts": [], "settle": "after", "review": review,
        });
        serde_json::from_value(tool).unwrap()
    }

    fn of(handler: &str) -> ToolDraft {
        ToolDraft::from_tool(&tool(), Some(&serde_json::from_str(handler).unwrap()))
    }

    fn draft() -> ToolDraft {
        of(r#"{ "version": "sha256:1", "source": "one\r\ntwo\u0000", "language": "ts" }"#)
    }

    /// Returns the draft as a browser would send it.
    fn sent(draft: &ToolDraft) -> ToolDraft {
        let fields = draft.0.iter().flat_map(|(name, text)| match *name {
            "capabilities" => text.lines().map(|line| ((*name).to_owned(), line.to_owned())).collect(),
            _ => vec![((*name).to_owned(), text.replace('\n', "\r\n"))],
        });
        let fields: Vec<(String, String)> = fields.collect();
        ToolDraft::read(fields.iter().map(|(name, text)| (name.as_str(), text.as_str())))
    }

    #[test]
    fn untouched_form_changes_nothing() {
        let draft = draft();
        assert_eq!(sent(&draft), draft);
        assert!(sent(&draft).change(&draft).0.is_empty());
        assert_eq!(draft.get("priceUsd"), "0.000001");
        assert_eq!((draft.get("kind"), draft.get("source")), ("ts", "one\ntwo\u{fffd}"));
    }

    #[test]
    fn static_response_keeps_its_digits() {
        let response = r#"{"a":[0.1000,1e400,12345678901234567890123]}"#;
        let mut fixed = of(&format!("{{\"version\":\"sha256:1\",\"response\":{response}}}"));
        fixed.set("kind", "static_json");
        assert_eq!(fixed.get("source"), "{\n  \"a\": [\n    0.1000,\n    1e400,\n    12345678901234567890123\n  ]\n}");
        let mut sent = sent(&fixed);
        assert_eq!(sent.handler(&mut vec![]).1, Some(json!({ "response": response })));
        assert!(sent.changed(&fixed).is_empty());
        sent.set("source", fixed.get("source").replace("0123\n", "0124\n"));
        assert_eq!(sent.changed(&fixed).len(), 1, "a digit that a double does not hold");
        sent.set("source", "{\n 1}");
        assert_eq!(sent.body().1.last().unwrap().line(), Some(2));
    }

    #[test]
    fn change_contains_only_the_differing_fields() {
        let theirs = draft();
        let mut ours = theirs.clone();
        ours.set("priceUsd", " $0.02 ");
        ours.set("capabilities", "kv");
        let (change, problems) = ours.change(&theirs);
        assert!(problems.is_empty());
        assert_eq!(Value::Object(change), json!({ "priceUsd": 0.02, "capabilities": { "kv": true } }));
        let (all, _) = theirs.body();
        assert_eq!(all["capabilities"], json!({ "httpGetJson": true, "kv": true }));
        assert_eq!(all["allowedHosts"], json!(["a.test", "b.test"]));
        assert_eq!((&all["maxPriceUsd"], &all["handlerType"]), (&json!(0), &json!("js_request_response")));
    }

    #[test]
    fn refund_of_broken_streams_is_a_box() {
        let unticked = draft();
        let mut ticked = unticked.clone();
        ticked.set("refundBrokenStreams", "true");
        assert_eq!(Value::Object(ticked.change(&unticked).0), json!({ "refundBrokenStreams": true }));
        let fields = ticked.0.iter().map(|(name, text)| (*name, text.as_str()));
        let left_out = ToolDraft::read(fields.filter(|(name, _)| *name != "refundBrokenStreams"));
        assert_eq!(Value::Object(left_out.change(&ticked).0), json!({ "refundBrokenStreams": false }));
        assert!(left_out.change(&unticked).0.is_empty());
    }

    #[test]
    fn json_formatting_is_not_a_change() {
        let theirs = draft();
        let mut ours = theirs.clone();
        ours.set("inputSchema", "{\"type\":\"object\"}");
        assert!(ours.changed(&theirs).is_empty());
        ours.set("source", "three");
        let changed = ours.changed(&theirs);
        assert_eq!(changed.iter().map(|field| (field.name, field.after)).collect::<Vec<_>>(), [("source", "three")]);
    }

    #[test]
    fn invalid_json_is_reported_with_its_line() {
        let mut draft = draft();
        draft.set("inputSchema", "{\n  nothing");
        draft.set("priceUsd", "");
        draft.set("maxPriceUsd", "much");
        let (members, problems) = draft.body();
        assert_eq!(problems[0].pointer, "/priceUsd");
        assert_eq!((&*problems[1].pointer, problems[1].line()), ("/inputSchema", Some(2)));
        assert_eq!(members["maxPriceUsd"], "much");
    }

    #[test]
    fn rebasing_keeps_typed_text_and_takes_untouched_fields() {
        let base = draft();
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        ours.set("source", "mine");
        ours.set("title", "Mine");
        theirs.set("title", "Theirs");
        theirs.set("description", "theirs");
        assert_eq!(ours.next_step(&base, &theirs), ["Description"]);
        assert_eq!((ours.get("source"), ours.get("title"), ours.get("description")), ("mine", "Mine", "theirs"));
        let written = ToolDraft::parse(&base.to_json());
        assert_eq!((written.get("title"), written.get("source")), (base.get("title"), ""));
        assert_eq!(ToolDraft::parse("[]"), ToolDraft::default());
    }
}
