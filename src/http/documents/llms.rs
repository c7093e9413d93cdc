//! `/llms.txt`: an overview of the host for language models, with one line per tool.

use std::{fmt::Write as _, sync::Arc};

use tollhouse_catalog::{Entry, ShownEndpoint, Snapshot};
use tollhouse_store::StoreError;

use super::{library::Origin, plain_text::plain};
use crate::services::DiscoveryServices;

/// Maximum characters of `/llms.txt`. Clients read no more of such a file.
const MAX: usize = 20_000;
/// Maximum tools listed in it.
const MAX_TOOLS: usize = 100;
/// Maximum characters of a tool's title and of its description.
const TITLE: usize = 60;
const ABOUT: usize = 80;
/// Tools on a page of `/llms-tools.txt`.
const PAGE: usize = 200;

/// Builds the document.
pub(super) async fn build(offering: &DiscoveryServices, all: &Snapshot) -> Result<String, StoreError> {
    let base = &offering.base_url;
    let mut text = format!(
        "# Tollhouse

> A host for paid JavaScript tools: agents call them over HTTP or MCP and pay per call with x402, or with prepaid credit. A call that fails is not charged, except by tools that say that they are charged before the run.

Each tool is `POST {base}/tools/SLUG` with its input as JSON. `GET {base}/tools/SLUG?inspect` has its record: price, schemas, limits. A paid one answers 402 with its terms \
until the same request comes again with a payment. One payment buys at most one run: after a lost answer, send the same payment with the same request again.

## Call a tool

- [Paying for tools with x402]({base}/guides/x402-agent-payment-infrastructure.md): a paid call step by step, with the terms of this host
- [For agents]({base}/docs/agents.md): find, call and pay for tools, check receipts, what every refusal means
- [API: tools]({base}/docs/tools.md): the operations by which tools are found and called
- [Errors]({base}/docs/errors.md): every code, whose fault it is, and what to do

## Pay

- [API: quotes]({base}/docs/quotes.md): what a call costs all in, before it is paid
- [API: receipts]({base}/docs/receipts.md): what a payment came to, and the keys that receipts are signed with
- [API: credits]({base}/docs/credits.md): prepaid credit and its budgets

## MCP

The same tools at `{base}/ai/mcp` (Streamable HTTP), paid by x402's MCP transport. `search_tools` finds tools, `quote_tool` says what a call costs.

## Build a tool

- [Build a tool]({base}/guides/build-a-tool.md): from nothing to a published tool
"
    );
    // The text above already links to these pages.
    let reported = ["index", "agents", "tools", "errors", "quotes", "receipts", "credits"];
    let list = |text: &mut String, requested: &dyn Fn(&str, Origin) -> bool| {
        for page in offering.documents.pages.iter().filter(|page| !reported.contains(&&*page.name) && requested(&page.name, page.origin)) {
            _ = writeln!(text, "- [{}]({base}/docs/{}.md): {}", page.title, page.name, page.about.trim_end_matches('.'));
        }
    };
    let builders = ["builders", "limits", "endpoints", "accounts"];
    list(&mut text, &|name, _| builders.contains(&name));
    text += "\n## Run a host\n\n";
    list(&mut text, &|name, origin| origin == Origin::File && !builders.contains(&name));
    list(&mut text, &|name, origin| origin == Origin::Table && !builders.contains(&name));
    let end = format!("\n## Optional\n\n- [All documents]({base}/docs/index.md): what is written, in a line each\n");
    let head = "\n## Tools\n\nThe words are those of the tools' builders.\n\n";
    let more = |after: &str| format!("- [More tools]({base}/llms-tools.txt?after={after})\n");
    let mut room = MAX.saturating_sub(count(&text) + count(&end) + count(head) + count(&more(&"x".repeat(64))));
    let mut lines = String::new();
    let (mut last, mut remaining) = (String::new(), MAX_TOOLS);
    let take = |shown: Arc<ShownEndpoint>| {
        let line = line(&shown);
        let fits = remaining > 0 && count(&line) <= room;
        if fits {
            (room, remaining) = (room - count(&line), remaining - 1);
            lines += &line;
            last = shown.endpoint.slug.to_string();
        }
        fits
    };
    if offering.catalog.fill(active(all, ""), take).await?.more {
        lines += &more(&last);
    }
    if !lines.is_empty() {
        text += head;
        text += &lines;
    }
    Ok(text + &end)
}

/// Builds the page of tools after a slug.
pub(super) async fn tools(offering: &DiscoveryServices, all: &Snapshot, after: &str) -> Result<String, StoreError> {
    let base = &offering.base_url;
    let mut text = format!(
        "# Tools\n\n> Each is `POST {base}/tools/SLUG`. The words are those of the tools' builders. About the host: [{base}/llms.txt]({base}/llms.txt)\n\n"
    );
    let (mut last, mut remaining) = (String::new(), PAGE);
    let take = |shown: Arc<ShownEndpoint>| {
        let fits = remaining > 0;
        if fits {
            remaining -= 1;
            text += &line(&shown);
            last = shown.endpoint.slug.to_string();
        }
        fits
    };
    if offering.catalog.fill(active(all, after), take).await?.more {
        _ = write!(text, "\n- [More tools]({base}/llms-tools.txt?after={last})\n");
    }
    Ok(text)
}

fn active<'a>(all: &'a Snapshot, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    all.after(after).filter(|entry| entry.is_active())
}

/// Returns one line for a tool: slug, price, and the builder's title and description.
fn line(live: &ShownEndpoint) -> String {
    let endpoint = &live.endpoint;
    let price = match (endpoint.max_usd().is_zero(), endpoint.metered()) {
        (true, _) => "free".to_owned(),
        (false, true) => format!("up to ${}", endpoint.max_usd()),
        (false, false) if !endpoint.settle.is_after() => format!("${}, charged before the run", endpoint.price_usd),
        (false, false) => format!("${}", endpoint.price_usd),
    };
    let about = plain(&endpoint.description, ABOUT);
    let about = if about.is_empty() { about } else { format!(": {about}") };
    format!("- `{}`, {price}, {}{about}\n", endpoint.slug, plain(&endpoint.title, TITLE))
}

fn count(text: &str) -> usize {
    text.chars().count()
}
