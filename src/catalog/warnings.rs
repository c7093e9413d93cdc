//! Warnings about likely mistakes in uploads. They never block.

use std::net::IpAddr;

use serde_json::Map;
use tollhouse_base::{boxed, exact::numbers};
use tollhouse_capability::{guard::addresses, host_of_entry};
use tollhouse_money::Network;
use tollhouse_protocol::Tier;
use tollhouse_tool::{ANY_PUBLIC_HOST, CapabilityRow, Endpoint, MicroUsd, dropped_pattern, looks_around, takes_objects};

use super::{Catalog, Draft, HandlerDraft};
use crate::safety::{ContextMember, WorkersHabit, line_of_code_from_strings, reaches, workers_habits};

/// Advice for packages that create code from strings.
const INSTEAD: &str =
    "use a package that does not, or generate its code before you publish (for example, standalone code of ajv or precompiled templates)";

/// Integers from 2^63 on are parsed as doubles, at least if they are negative.
const LARGEST_INTEGER: f64 = 9_223_372_036_854_775_808.0;

impl Catalog {
    /// Returns warnings about rights that the handler of `endpoint` uses but does not have. Empty
    /// if the handler cannot be read.
    #[boxed]
    pub async fn warnings(&self, endpoint: &Endpoint) -> Vec<String> {
        match self.uploaded(&endpoint.version).await {
            Ok(Some(HandlerDraft::Source { source, .. })) => self.reached(endpoint, source).await,
            Ok(Some(HandlerDraft::Response { .. }) | None) | Err(_) => vec![],
        }
    }

    /// Returns warnings about networks on which a call of `endpoint` brings less than its
    /// settlement costs the host.
    pub fn price_warnings(&self, endpoint: &Endpoint) -> Vec<String> {
        if endpoint.max_usd().is_zero() {
            return vec![];
        }
        let underpaid = self.parts.payment.underpaid_on(endpoint.max_usd(), &endpoint.accepts);
        let warning = |(network, least): (&Network, MicroUsd)| {
            format!(
                "a price below {least} USD costs the host more gas on {} than it earns, so only a few such calls an hour succeed \
                 there (then 429): let callers pay with developer credit, do more work per call for a higher price, or ask the \
                 operator to settle with an `http` facilitator",
                network.name
            )
        };
        underpaid.into_iter().map(warning).collect()
    }

    /// Returns warnings about a draft that would become `endpoint`: those about rights, those
    /// about other oddities, and those about its price.
    pub(super) async fn warnings_of(&self, draft: &Draft, endpoint: &Endpoint) -> Vec<String> {
        let mut warnings = match &draft.handler {
            Some(HandlerDraft::Source { source, .. }) => self.reached(endpoint, source.clone()).await,
            Some(HandlerDraft::Response { .. }) | None => vec![],
        };
        warnings.extend(odd(draft));
        warnings.extend(self.price_warnings(endpoint));
        warnings
    }

    /// Analyzing a source of one megabyte takes milliseconds.
    async fn reached(&self, endpoint: &Endpoint, source: String) -> Vec<String> {
        let read = move || (reaches(&source), line_of_code_from_strings(&source), workers_habits(&source));
        let (found, from_strings, habits) = self.run_upload_work(&endpoint.owner, read).await.unwrap_or_default();
        let mut warnings: Vec<_> = found.iter().filter_map(|reach| warning(endpoint, reach)).collect();
        if endpoint.tier == Tier::Jitless && endpoint.capabilities.union(endpoint.requested_capabilities).wasm {
            warnings.push("`WebAssembly` is not defined in the tier `jitless`, in which the tool runs".to_owned());
        }
        warnings.extend(
            from_strings.map(|line| {
                format!("the handler makes code from strings (line {line}), which throws an EvalError in the sandbox: {INSTEAD}")
            }),
        );
        warnings.extend(habits.into_iter().map(|(habit, line)| advice(habit, line)));
        warnings
    }
}

fn advice(habit: WorkersHabit, line: usize) -> String {
    match habit {
        WorkersHabit::ThirdParameter => format!(
            "the handler has a third parameter (line {line}), which is always undefined: its parameters are `(req, ctx)`, and its \
             secrets are in `ctx.env`"
        ),
        WorkersHabit::Binding => format!(
            "the handler uses a member of `env` that is always undefined (line {line}): the second parameter is `ctx`, with secrets in \
             `ctx.env` and stored data in `ctx.kv` and `ctx.files`"
        ),
    }
}

fn odd(draft: &Draft) -> Vec<String> {
    let mut warnings = vec![];
    match (draft.capabilities.of_network().names().next(), draft.allowed_hosts.is_empty()) {
        (Some(name), true) => warnings.push(format!("`{name}` cannot reach any host, because `allowedHosts` is empty")),
        (None, false) => {
            warnings.push("`allowedHosts` has no effect without `capabilities.httpGetJson` or `capabilities.fetch`".to_owned());
        }
        (Some(_), false) | (None, true) => {}
    }
    for host in &draft.allowed_hosts {
        if let Some(cause) = unreachable(host) {
            warnings.push(format!("`{host}` in allowedHosts cannot be reached: {cause}, unless the operator lets tools reach it"));
        }
    }
    if draft.description.trim().is_empty() {
        warnings.push("the description is empty, so agents cannot find the tool by it".to_owned());
    }
    if draft.output_schema.as_object().is_some_and(Map::is_empty) {
        warnings.push("the `outputSchema` allows everything, so a wrong result is charged too".to_owned());
    }
    if let Some(HandlerDraft::Response { response }) = &draft.handler
        && numbers(response.as_ref()).any(is_long)
    {
        let reason = "callers get it as you wrote it, but most clients round it; write it as a string to keep its digits";
        warnings.push(format!("a number in the response has more digits than a double holds: {reason}"));
    }
    let input = draft.input_schema.as_ref();
    for (name, schema) in [("inputSchema", input), ("outputSchema", draft.output_schema.as_ref())] {
        if let Some(pointer) = looks_around(schema) {
            warnings.push(format!(
                "`/{name}{pointer}` has a lookaround (`(?=`, `(?!`); several model providers refuse tools with such a pattern"
            ));
        }
        if let Some(pointer) = dropped_pattern(schema) {
            warnings.push(format!(
                "`/{name}{pointer}` is not checked, because ECMAScript cannot compile it with its flag `u`; the `format` beside it is"
            ));
        }
    }
    if !takes_objects(input) {
        warnings.push("the `inputSchema` does not allow an object, so MCP does not list the tool: MCP arguments are objects".to_owned());
    } else if ["anyOf", "oneOf", "allOf", "$ref"].iter().any(|keyword| input.get(keyword).is_some()) {
        let reason = "several model providers refuse tools with `anyOf`, `oneOf`, `allOf` or `$ref` there";
        warnings.push(format!("the `inputSchema` has a union or a reference at its root: {reason}"));
    }
    warnings
}

/// Returns why the guard rejects every host that an entry of `allowedHosts` covers.
fn unreachable(entry: &str) -> Option<&'static str> {
    if entry == ANY_PUBLIC_HOST {
        return None;
    }
    let entry = host_of_entry(entry).to_ascii_lowercase();
    match entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => addresses::refusal(address),
        Err(_) => addresses::name_refusal(&entry),
    }
}

/// Returns whether a number is neither a 64-bit integer nor below 2^63.
fn is_long(number: &[u8]) -> bool {
    let number = str::from_utf8(number).unwrap_or_default();
    let is_large = number.parse::<f64>().is_ok_and(|number| number.abs() >= LARGEST_INTEGER);
    is_large && number.parse::<u64>().is_err() && number.parse::<i64>().is_err()
}

fn warning(endpoint: &Endpoint, reach: &ContextMember) -> Option<String> {
    let ContextMember { name, capability, line } = *reach;
    if endpoint.capabilities.has(capability) {
        return None;
    }
    let CapabilityRow { name: of, member, without, .. } = capability.row();
    let is_member = member.strip_prefix("ctx.") == Some(name);
    let what = if is_member { *member } else { name };
    let next = if endpoint.requested_capabilities.has(capability) {
        format!("`capabilities.{of}` waits for an admin")
    } else {
        format!("request it with `capabilities.{of}: true`")
    };
    Some(format!("`{what}` {without} (line {line}): {next}"))
}
