//! `/openapi.json`: what agents ask for, and tools, with the keys that agents' registries read; `/docs/openapi.json`: all there is.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::aside::off_the_runtime;
use tollhouse_catalog::{Entry, Shown, Snapshot};
use tollhouse_front::Fault;
use tollhouse_store::StoreError;

use super::{
    described::{components, paths},
    paged::{MAX_PAGE_BYTES, TOOLS, is_paid, paid, tagged},
    tool::path_item,
};
use crate::services::Offering;

/// For agents that read this document and nothing else.
const GUIDANCE: &str = "Paid tools answer 402 with an x402 challenge: v2 in the PAYMENT-REQUIRED header, v1 in the body. Repeat the same request \
    with PAYMENT-SIGNATURE (v2) or X-PAYMENT (v1), or with X-Developer-Credit. Only a result that fits the tool's output schema is charged, \
    unless `extra.paymentFlow` is `upfront`: then the tool is charged before it runs. After a lost answer show the same payment with the same request again: it is never charged twice, and GET /ai/payments/{id} says what \
    became of it. GET /ai/endpoints searches the whole catalogue (q, tag, price, maxPriceUsd). This document has the paid tools that are called \
    most; ?tools=a,b has those of these slugs, ?tag= those with a tag, and `x-next` is the address of all of them, a page at a time. The same \
    tools speak MCP at /ai/mcp. Every operation, management included, is in /docs/openapi.json; /llms.txt says where what is written.";

/// Most slugs that are asked for at once.
const MAX_NAMED: usize = TOOLS;

/// Which tools are wanted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    tools: Option<String>,
    tag: Option<String>,
    after: Option<String>,
}

/// Which tools a document has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    CalledMost,
    Named(Vec<String>),
    /// Those behind a slug, by name; with a tag, if one is said.
    Behind(Option<String>, String),
}

impl Wanted {
    /// How tools are chosen.
    ///
    /// # Errors
    ///
    /// 400 for names and anything else at once, and for too many names.
    pub(super) fn read(self) -> Result<Chosen, Fault> {
        match (self.tools, self.tag, self.after) {
            (None, None, None) => Ok(Chosen::CalledMost),
            (Some(slugs), None, None) => {
                let slugs: Vec<_> = slugs.split(',').map(|slug| slug.trim().to_owned()).filter(|slug| !slug.is_empty()).collect();
                if slugs.len() > MAX_NAMED {
                    return Err(Fault::bad_request(format!("at most {MAX_NAMED} tools can be asked for at once")));
                }
                Ok(Chosen::Named(slugs))
            }
            (None, tag, after) => Ok(Chosen::Behind(tag, after.unwrap_or_default())),
            (Some(_), ..) => Err(Fault::bad_request("tools are chosen by `tools`, or by `tag` and `after`")),
        }
    }
}

/// The document for agents.
pub(super) async fn made(offering: &Offering, all: &Snapshot, some: &Chosen) -> Result<Value, StoreError> {
    let base = &offering.base_url;
    let rows = &offering.documents.for_agents;
    let (mut paths, mut components) = (paths(rows), components(rows));
    let (mut left, mut bytes, mut last) = (TOOLS, 0, String::new());
    let take = |shown: Arc<Shown>| {
        if left == 0 || bytes >= MAX_PAGE_BYTES {
            return false;
        }
        (left, bytes) = (left - 1, bytes + shown.record.bytes());
        let (item, named) = off_the_runtime(|| path_item(&shown));
        paths.insert(format!("/tools/{}", shown.endpoint.slug), item);
        for (name, schema) in named {
            components["schemas"][name] = schema;
        }
        last = shown.endpoint.slug.to_string();
        true
    };
    let filled = offering.catalog.fill(chosen(offering, all, some), take).await?;
    let llms = json!({ "llmsTxtUrl": format!("{base}/llms.txt") });
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Paid tools for agents, called over HTTP or MCP and paid per call with x402.",
            "contact": contact(offering),
            "x-guidance": GUIDANCE,
        },
        "servers": [{ "url": base }],
        "paths": paths,
        "components": components,
        "x-agentcash-guidance": llms,
        "x-discovery": llms,
    });
    if filled.more {
        let mut query = form_urlencoded::Serializer::new(String::new());
        match some {
            Chosen::CalledMost => query.append_pair("after", ""),
            Chosen::Named(_) => {
                let left: Vec<_> = chosen(offering, all, some).skip(filled.passed).map(|entry| entry.slug.as_str()).collect();
                query.append_pair("tools", &left.join(","))
            }
            Chosen::Behind(tag, _) => query.extend_pairs(tag.iter().map(|tag| ("tag", tag.as_str()))).append_pair("after", &last),
        };
        document["x-next"] = json!(format!("{base}/openapi.json?{}", query.finish()));
    }
    Ok(document)
}

/// The document of every operation.
pub(super) fn whole(offering: &Offering) -> Value {
    let mut document = offering.documents.described.clone();
    document["info"]["contact"] = contact(offering);
    document["servers"] = json!([{ "url": offering.base_url }]);
    document
}

/// The tools that are wanted, as far as they are read. Where they are named, free ones as well.
fn chosen<'a>(offering: &Offering, all: &'a Snapshot, some: &'a Chosen) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a> {
    match some {
        Chosen::CalledMost => {
            let most = called_most(offering, all);
            let told: HashSet<_> = most.iter().map(|entry| entry.slug.as_str()).collect();
            let others = paid(all, "").filter(move |entry| !told.contains(entry.slug.as_str()));
            Box::new(most.into_iter().chain(others))
        }
        Chosen::Named(slugs) => {
            let named = slugs.iter().filter_map(|slug| all.get(slug));
            Box::new(named.filter(|entry| entry.is_active()))
        }
        Chosen::Behind(None, after) => Box::new(paid(all, after)),
        Chosen::Behind(Some(tag), after) => Box::new(tagged(all, tag, after)),
    }
}

/// The paid tools that somebody paid for of late, most called first: one more than the document has room for, at most.
fn called_most<'a>(offering: &Offering, all: &'a Snapshot) -> Vec<&'a Arc<Entry>> {
    let called = offering.about.metrics.called();
    // Of all that were called, no more are put in order than are taken.
    let mut ranked: BinaryHeap<_> = called.iter().map(|(id, weight)| (weight, Reverse(id))).collect();
    let mut most = Vec::new();
    while most.len() <= TOOLS
        && let Some((_, Reverse(id))) = ranked.pop()
    {
        most.extend(all.of_id(id).filter(|entry| is_paid(entry)));
    }
    most
}

fn contact(offering: &Offering) -> Value {
    let mut contact = json!({ "name": "Tollhouse" });
    match offering.contact.as_deref() {
        Some(address) if address.contains('@') => contact["email"] = json!(address.trim_start_matches("mailto:")),
        Some(url) => contact["url"] = json!(url),
        None => {}
    }
    contact
}
