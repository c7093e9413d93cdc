//! `/llms.txt`: an overview of the host for language models, with one line per tool.

use std::{fmt::Write as _, sync::Arc};

use tollhouse_catalog::{Entry, ShownEndpoint, Snapshot};
use tollhouse_store::StoreError;

use super::plain_text::plain;
use crate::Services;

/// Maximum characters of `/llms.txt`. Clients read no more of such a file.
const MAX: usize = 20_000;
/// Maximum tools listed in it.
const MAX_TOOLS: usize = 100;
/// Maximum characters of a tool's title and of its description.
const TITLE: usize = 60;
const ABOUT: usize = 80;
/// The section of pages that no agent needs. They are in the list of all documents.
const OPERATORS: &str = "Operators";
/// Tools on a page of `/llms-tools.txt`.
const PAGE: usize = 200;

/// Builds the document.
pub(super) async fn build(http: &Services, all: &Snapshot) -> Result<String, StoreError> {
    let base = &http.base_url;
    let mut text = format!(
        "# Tollhouse

> A host for paid JavaScript tools. Agents call them over HTTP or MCP, and pay per call with x402 or prepaid credit. \
A call that fails is not charged, except by tools that declare that they charge before the run.

To call a tool, send `POST {base}/tools/SLUG` with its input as JSON. `GET {base}/tools/SLUG?inspect` returns its record: price, schemas, limits. \
A paid tool answers 402 with its terms until the same request comes with a payment. One payment buys at most one run. \
If you lose an answer, send the same payment with the same request again.

The same tools are at `{base}/ai/mcp` (MCP, Streamable HTTP), where `search_tools` finds tools and `quote_tool` returns the full cost of a call.

## Guides

- [Paying for tools with x402]({base}/guides/x402-agent-payment-infrastructure.md): a paid call step by step, with the terms of this host
- [Build a tool]({base}/guides/build-a-tool.md): from nothing to a published tool
"
    );
    let (mut group, mut section) = ("", "");
    for page in &http.documents.pages {
        let Some(shelf) = page.shelf.filter(|shelf| shelf.section != OPERATORS) else { continue };
        if (group, section) != (&*shelf.group, &*shelf.section) {
            (group, section) = (&shelf.group, &shelf.section);
            let heading = if section.is_empty() { group.to_owned() } else { format!("{group}: {section}") };
            _ = write!(text, "\n## {heading}\n\n");
        }
        _ = writeln!(text, "- [{}]({base}/docs/{}.md): {}", page.title, page.name, page.about.trim_end_matches('.'));
    }
    let end = format!("\n## Optional\n\n- [All documents]({base}/docs/index.md): all pages, with a line each\n");
    let head = "\n## Tools\n\nThe builders of the tools wrote these titles and descriptions.\n\n";
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
    if http.catalog.fill(active(all, ""), take).await?.more {
        lines += &more(&last);
    }
    if !lines.is_empty() {
        text += head;
        text += &lines;
    }
    Ok(text + &end)
}

/// Builds the page of tools after a slug.
pub(super) async fn tools(http: &Services, all: &Snapshot, after: &str) -> Result<String, StoreError> {
    let base = &http.base_url;
    let mut text = format!(
        "# Tools\n\n> Call each with `POST {base}/tools/SLUG`. The builders wrote the titles and descriptions. About the host: [{base}/llms.txt]({base}/llms.txt)\n\n"
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
    if http.catalog.fill(active(all, after), take).await?.more {
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
