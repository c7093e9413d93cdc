//! `GET /ai/endpoints`: a page of the catalog. It is ordered by slug, by relevance with `q`, by similarity of names
//! with `near`, or by `sort`.

use std::sync::Arc;

use serde_json::json;
use tollhouse_api::CatalogEnvelope;
use tollhouse_catalog::{Catalog, EndpointFilter, Entry, Order, OrderPosition, ShownEndpoint, search::Query};
use tollhouse_front::{ApiError, cursor};
use tollhouse_tool::{CatalogForm, MicroUsd, PricingMode};

use crate::{PageLimit, bad_cursor};

/// Maximum bytes of records on a page, because schemas can be large. The record that exceeds it is the last one.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// Maximum tags in a query.
const MAX_TAGS: usize = 16;

/// A parsed query.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) form: CatalogForm,
    /// The search words. `None` without `q`.
    words: Option<Query>,
    /// A name to find similar names for.
    near: Option<String>,
    filter: EndpointFilter,
    order: Option<Order>,
    limit: PageLimit,
    cursor: Option<String>,
    /// All parameters except `limit` and `cursor`. A cursor is bound to them.
    requested: Vec<String>,
}

/// A page of tools.
pub(super) struct Page {
    pub(super) tools: Vec<Arc<ShownEndpoint>>,
    /// The number of all matching tools.
    pub(super) total: usize,
    pub(super) next: Option<String>,
}

impl Listing {
    /// Parses a query.
    ///
    /// # Errors
    ///
    /// 400 for unknown or repeated parameters and for invalid values.
    pub(super) fn read(query: &str) -> Result<Self, ApiError> {
        let mut listing = Self {
            form: CatalogForm::Newer,
            words: None,
            near: None,
            filter: EndpointFilter::default(),
            order: None,
            limit: PageLimit::default(),
            cursor: None,
            requested: vec!["endpoints".to_owned()],
        };
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name != "tag" && seen.contains(&name) {
                return Err(ApiError::bad_request(format!("`{name}` was sent twice; send it once")));
            }
            listing.take(&name, &value)?;
            if !matches!(&*name, "limit" | "cursor") {
                listing.requested.push(format!("{name}={value}"));
            }
            seen.push(name);
        }
        if listing.near.is_some() && (listing.words.is_some() || listing.order.is_some()) {
            return Err(ApiError::bad_request("`near` has its own order, and cannot be combined with `q` and `sort`"));
        }
        // The order of parameters does not matter.
        listing.requested.sort_unstable();
        Ok(listing)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        let wrong = |what: &str| ApiError::bad_request(format!("`{name}` must be {what}"));
        match name {
            "form" => {
                self.form = match value {
                    "newer" => CatalogForm::Newer,
                    "older" => CatalogForm::Older,
                    _ => return Err(wrong("`newer` or `older`")),
                }
            }
            "q" if value.trim().is_empty() => {}
            "q" => self.words = Some(Query::parse(value).map_err(|error| ApiError::bad_request(error.to_string()))?),
            "near" => self.near = Some(value.to_owned()),
            "tag" if self.filter.tags.len() == MAX_TAGS => {
                return Err(ApiError::bad_request(format!("at most {MAX_TAGS} tags are allowed")));
            }
            "tag" => self.filter.tags.push(value.to_owned()),
            "price" => {
                self.filter.pricing = match value {
                    "free" => Some(PricingMode::FreePublicUtility),
                    "paid" => Some(PricingMode::FixedPriceSuccessReceipt),
                    _ => return Err(wrong("`free` or `paid`")),
                }
            }
            "maxPriceUsd" => {
                let price = value.parse().ok().and_then(|usd| MicroUsd::from_usd(usd).ok());
                self.filter.max_price = Some(price.ok_or_else(|| wrong("an amount of US dollars with at most 6 decimals"))?);
            }
            "sort" => {
                self.order = match value {
                    "price" => Some(Order::Price),
                    "newest" => Some(Order::Newest),
                    _ => return Err(wrong("`price` or `newest`")),
                }
            }
            "limit" => self.limit = value.parse().map_err(ApiError::bad_request)?,
            "cursor" => self.cursor = Some(value.to_owned()),
            _ => {
                let known = "`q`, `near`, `tag`, `price`, `maxPriceUsd`, `sort`, `limit`, `cursor` and `form`";
                return Err(ApiError::bad_request(format!("unknown parameter `{}`", name.chars().take(32).collect::<String>()))
                    .hint(format!("The parameters are {known}")));
            }
        }
        Ok(())
    }

    /// Returns the requested page.
    ///
    /// # Errors
    ///
    /// 400 for an invalid cursor or one of another list. Errors of the catalog if it is not ready.
    pub(super) async fn page(&self, catalog: &Catalog) -> Result<Page, ApiError> {
        let of: Vec<_> = self.requested.iter().map(String::as_str).collect();
        let position = self.cursor.as_ref().map(|cursor| cursor::read(&of, cursor).ok_or_else(bad_cursor)).transpose()?;
        if let Some(name) = &self.near {
            return self.nearest(catalog, name, &of, position).await;
        }
        match (&self.words, self.order) {
            (Some(words), Some(order)) => self.found_in_order(catalog, words, order, &of, position).await,
            (Some(words), None) => self.found(catalog, words, &of, position).await,
            (None, Some(order)) => self.ordered(catalog, order, &of, position).await,
            (None, None) => self.named(catalog, &of, position).await,
        }
    }

    /// Returns a page in the requested order. The cursor holds the position of the last tool in that order.
    async fn ordered(&self, catalog: &Catalog, order: Order, of: &[&str], position: Option<Vec<u8>>) -> Result<Page, ApiError> {
        let (after, all) = (position.map(|position| decode_position(&position).ok_or_else(bad_cursor)).transpose()?, catalog.all());
        let requested = all.filtered(&self.filter, Some(order), after.as_ref());
        self.page_of(catalog, requested, all.count(&self.filter), of, |last| {
            all.get(last).map(|entry| encode_position(&order.place(entry)))
        })
        .await
    }

    /// Returns a page of tools that match the words, in the requested order. The cursor holds a number.
    async fn found_in_order(
        &self,
        catalog: &Catalog,
        words: &Query,
        order: Order,
        of: &[&str],
        position: Option<Vec<u8>>,
    ) -> Result<Page, ApiError> {
        let skip = decode_number(position)?;
        let mut items = catalog.all().search(words, 0, usize::MAX, |entry| self.filter.takes(entry))?.items;
        items.sort_by_key(|entry| order.rank(entry));
        self.numbered_page(catalog, items.iter().skip(skip), skip, items.len(), of).await
    }

    /// Returns a page of tools that match the words, by relevance. The cursor holds a number.
    async fn found(&self, catalog: &Catalog, words: &Query, of: &[&str], position: Option<Vec<u8>>) -> Result<Page, ApiError> {
        let skip = decode_number(position)?;
        let found = catalog.all().search(words, skip, self.limit.0, |entry| self.filter.takes(entry))?;
        self.numbered_page(catalog, found.items.iter(), skip, found.total, of).await
    }

    /// Returns a page of tools by similarity of their names. The cursor holds a number.
    async fn nearest(&self, catalog: &Catalog, name: &str, of: &[&str], position: Option<Vec<u8>>) -> Result<Page, ApiError> {
        let (skip, all) = (decode_number(position)?, catalog.all());
        let near = all.nearest(name, |entry| self.filter.takes(entry));
        self.numbered_page(catalog, near.iter().skip(skip).copied(), skip, near.len(), of).await
    }

    /// Returns a page of `items`, which begin after the first `skip` of all.
    async fn numbered_page(
        &self,
        catalog: &Catalog,
        items: impl Iterator<Item = &Arc<Entry>> + Send,
        skip: usize,
        total: usize,
        of: &[&str],
    ) -> Result<Page, ApiError> {
        let (mut room, mut tools) = (PageBudget::of(self), Vec::new());
        let end = skip + catalog.fill(items, |shown| room.takes(&shown, &mut tools)).await?.passed;
        let next = (end < total).then(|| cursor::write(of, &u32::try_from(end).unwrap_or(u32::MAX).to_be_bytes()));
        Ok(Page { tools, total, next })
    }

    /// Returns a page by slug. The cursor holds the last slug.
    async fn named(&self, catalog: &Catalog, of: &[&str], position: Option<Vec<u8>>) -> Result<Page, ApiError> {
        let read = |position: Vec<u8>| String::from_utf8(position).ok()?.parse().ok();
        let after = position.map(|position| read(position).ok_or_else(bad_cursor)).transpose()?.map(|slug| OrderPosition { rank: 0, slug });
        let all = catalog.all();
        let requested = all.filtered(&self.filter, None, after.as_ref());
        self.page_of(catalog, requested, all.count(&self.filter), of, |last| Some(last.as_bytes().to_vec())).await
    }

    /// Returns as many of `wanted` as fit on a page. The next page begins after the `place` of the last one.
    async fn page_of(
        &self,
        catalog: &Catalog,
        requested: impl Iterator<Item = &Arc<Entry>> + Send,
        total: usize,
        of: &[&str],
        position: impl FnOnce(&str) -> Option<Vec<u8>> + Send,
    ) -> Result<Page, ApiError> {
        let (mut room, mut tools) = (PageBudget::of(self), Vec::new());
        let filled = catalog.fill(requested, |shown| room.takes(&shown, &mut tools)).await?;
        let last = tools.last().filter(|_| filled.more).and_then(|last: &Arc<ShownEndpoint>| position(last.endpoint.slug.as_str()));
        Ok(Page { next: last.map(|last| cursor::write(of, &last)), tools, total })
    }
}

/// Encodes a position in an order for a cursor.
fn encode_position(position: &OrderPosition) -> Vec<u8> {
    [&position.rank.to_be_bytes(), position.slug.as_str().as_bytes()].concat()
}

fn decode_position(position: &[u8]) -> Option<OrderPosition> {
    let (rank, slug) = position.split_first_chunk()?;
    Some(OrderPosition { rank: u64::from_be_bytes(*rank), slug: str::from_utf8(slug).ok()?.parse().ok()? })
}

/// Decodes a cursor position that is a number.
fn decode_number(position: Option<Vec<u8>>) -> Result<usize, ApiError> {
    let number = position.map_or(Ok(0), |position| position.try_into().map(u32::from_be_bytes));
    number.map(|number| number as usize).map_err(|_| bad_cursor())
}

/// The room left on a page.
struct PageBudget {
    tools: usize,
    bytes: usize,
}

impl PageBudget {
    fn of(listing: &Listing) -> Self {
        Self { tools: listing.limit.0, bytes: MAX_PAGE_BYTES }
    }

    /// Adds a tool to the page. Returns false if the page is full.
    fn takes(&mut self, shown: &Arc<ShownEndpoint>, tools: &mut Vec<Arc<ShownEndpoint>>) -> bool {
        if self.tools == 0 || self.bytes == 0 {
            return false;
        }
        self.tools -= 1;
        self.bytes = self.bytes.saturating_sub(shown.record.bytes());
        tools.push(Arc::clone(shown));
        true
    }
}

/// Returns the envelope with `records` as its `endpoints`.
pub(super) fn with_records(envelope: &CatalogEnvelope, records: &[u8]) -> Vec<u8> {
    let envelope = json!(envelope).to_string();
    // Overwrite the closing brace.
    let open = envelope.strip_suffix('}').unwrap_or_default();
    [open.as_bytes(), br#","endpoints":["#, records, b"]}"].concat()
}
