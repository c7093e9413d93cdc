//! `tools/list`: the built-in tools, and the active tools of the catalog.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use rmcp::model::{CacheScope, ListToolsResult, MetaObject};
use serde_json::{json, value::RawValue};
use tollhouse_catalog::ShownEndpoint;
use tollhouse_front::cursor;
use tollhouse_store::StoreError;
use tollhouse_tool::Slug;

use super::{
    builtin_tools,
    front::McpFront,
    revision::Era,
    services::Services,
    tool_entry::{ToolEntry, of},
    tool_filter::ToolFilter,
};

/// Maximum tools on a page. A usual catalog fits on one page, for clients that read only the first.
const PAGE: usize = 200;

/// Maximum bytes of tools on a page, because schemas can be large. The tool that exceeds it is the last one.
const MAX_PAGE_BYTES: usize = 256 << 10;

/// How long a client can cache a list, in milliseconds. Clients that listen get changes at once.
const LIST_TTL_MS: u64 = 30_000;

/// Keys in a list's `_meta`: the number of all tools, and of those after this page.
const TOTAL: &str = "tollhouse/total";
const REMAINING: &str = "tollhouse/remaining";

pub(super) struct ToolPage {
    pub(super) tools: Vec<Arc<ToolEntry>>,
    next: Option<String>,
    /// The `_meta` of the list.
    meta: MetaObject,
}

impl ToolPage {
    /// Returns the result with the page for a client of `era`, without the tools.
    pub(super) fn list_result(&self, front: &McpFront, era: Era) -> ListToolsResult {
        let mut result = ListToolsResult::default().with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public);
        result.next_cursor.clone_from(&self.next);
        result.meta = Some(self.meta.clone());
        if era == Era::Modern {
            front.sign(&mut result.meta);
        }
        result
    }

    /// Returns the tools as sent.
    pub(super) fn json(&self, era: Era) -> Vec<&RawValue> {
        self.tools.iter().map(|listed| listed.json_of(era)).collect()
    }
}

#[derive(Default)]
struct PageStart {
    /// Number of tools on the previous pages.
    passed: usize,
    /// The last of them. Empty for the first page.
    after: String,
}

pub(super) fn builtin(name: &str) -> Option<Arc<ToolEntry>> {
    BUILTIN.iter().find(|tool| *tool.name == *name).cloned()
}

/// Returns the tool called `name`: a built-in one, or an active one that is loaded.
pub(super) fn found(services: &Services, name: &str) -> Option<Arc<ToolEntry>> {
    builtin(name).or_else(|| of(&*services.catalog.find_cached(&services.settings.slug_of(name))?))
}

/// Returns the page after `cursor`. Built-in tools come first. Returns `None` for an invalid cursor.
pub(super) async fn page(services: &Services, filter: &ToolFilter, cursor: Option<&str>) -> Result<Option<ToolPage>, StoreError> {
    let names: Vec<_> = filter.0.iter().flat_map(|names| names.iter().map(String::as_str)).collect();
    let list = [&["tools/list"][..], &names].concat();
    let start = cursor.map_or(Some(PageStart::default()), |cursor| PageStart::read(&cursor::read(&list, cursor)?));
    let Some(start) = start else { return Ok(None) };
    let catalog = services.catalog.all();
    let builtin: Vec<_> = BUILTIN.iter().filter(|tool| filter.has(&tool.name)).cloned().collect();
    let (mut page, builtin_count) = (PageBuilder::default(), builtin.len());
    page.full = builtin.into_iter().skip(start.passed).any(|tool| !page.takes(tool, None));
    let mut take = |shown: Arc<ShownEndpoint>| of(&shown).is_none_or(|listed| page.takes(listed, Some(&shown.endpoint.slug)));
    let (filled, endpoints) = match &filter.0 {
        None => {
            let rest = catalog.after(&start.after).filter(|entry| entry.is_tool());
            (services.catalog.fill(rest, &mut take).await?, catalog.counts().tools)
        }
        Some(names) => {
            let slugs: BTreeSet<_> = names.iter().map(|name| services.settings.slug_of(name)).collect();
            let named: Vec<_> = slugs.iter().filter_map(|slug| catalog.get(slug)).filter(|entry| entry.is_tool()).collect();
            let rest = named.iter().copied().filter(|entry| entry.slug.as_str() > start.after.as_str());
            (services.catalog.fill(rest, &mut take).await?, named.len())
        }
    };
    let (total, passed) = (builtin_count + endpoints, start.passed + page.tools.len());
    let next = (page.full || filled.more)
        .then(|| cursor::write(&list, &PageStart { passed, after: page.last.map_or(start.after, |slug| slug.to_string()) }.bytes()));
    let remaining = if next.is_some() { total.saturating_sub(passed) } else { 0 };
    let meta = [(TOTAL, total), (REMAINING, remaining)].map(|(name, count)| (name.to_owned(), json!(count)));
    Ok(Some(ToolPage { tools: page.tools, next, meta: MetaObject(meta.into_iter().collect()) }))
}

/// A page that is being filled.
#[derive(Default)]
struct PageBuilder {
    tools: Vec<Arc<ToolEntry>>,
    bytes: usize,
    last: Option<Slug>,
    /// No more tools fit.
    full: bool,
}

impl PageBuilder {
    /// Adds a tool. Returns false if there is no room for it.
    fn takes(&mut self, listed: Arc<ToolEntry>, slug: Option<&Slug>) -> bool {
        if self.full || self.tools.len() == PAGE || self.bytes >= MAX_PAGE_BYTES {
            return false;
        }
        self.bytes += listed.json.get().len();
        self.tools.push(listed);
        self.last = slug.cloned().or(self.last.take());
        true
    }
}

impl PageStart {
    fn bytes(&self) -> Vec<u8> {
        let passed = u32::try_from(self.passed).unwrap_or(u32::MAX).to_be_bytes();
        [&passed, self.after.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (passed, after) = bytes.split_first_chunk()?;
        Some(Self { passed: u32::from_be_bytes(*passed) as usize, after: String::from_utf8(after.to_vec()).ok()? })
    }
}

/// The built-in tools, in order.
static BUILTIN: LazyLock<Vec<Arc<ToolEntry>>> =
    LazyLock::new(|| builtin_tools::tools().into_iter().map(|tool| Arc::new(ToolEntry::of(tool))).collect());
