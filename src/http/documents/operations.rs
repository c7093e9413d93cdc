//! The operations that everyone may ask for, as documents tell them.

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// In lower case.
    pub method: &'static str,
    /// With `{slug}` or `{id}` where it names something.
    pub path: &'static str,
    /// What programs call it.
    pub id: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// What its path names, and no more.
    Nothing,
    /// A query of this kind, of which all is optional.
    Query(&'static [&'static str]),
    /// A JSON object: with these members, and those if they are wanted.
    Members(&'static [&'static str], &'static [&'static str]),
    /// Any JSON object.
    Object,
}

use Takes::{Members, Nothing, Object, Query};

const fn operation(method: &'static str, path: &'static str, id: &'static str, takes: Takes, what: &'static str) -> Operation {
    Operation { method, path, id, what, takes }
}

impl Operation {
    /// Whether it may be answered with what is to be paid.
    #[must_use]
    pub fn may_cost(&self) -> bool {
        self.path == "/tools/{slug}" || self.path == "/ai/invoke"
    }
}

/// All of them, but for each tool's own.
pub const OPERATIONS: &[Operation] = &[
    operation(
        "get",
        "/ai/endpoints",
        "listTools",
        Query(&["q", "tag", "price", "maxPriceUsd", "sort", "limit", "cursor"]),
        "The catalogue: slugs, prices, schemas; searched by words",
    ),
    operation("get", "/ai/manifest", "getManifest", Nothing, "What is paid with, and where everything is"),
    operation(
        "get",
        "/tools/{slug}",
        "inspectTool",
        Query(&["inspect"]),
        "A tool's record with `?inspect`; without it, a call with the query as input",
    ),
    operation("post", "/tools/{slug}", "callTool", Object, "Calls a tool of the catalogue with its input; 402 where it is paid"),
    operation(
        "post",
        "/ai/quote",
        "quoteTool",
        Members(&["slug"], &["startNetwork", "startAsset", "fromAddress"]),
        "A price of a tool that holds for a while, named by `X-Quote-Id`",
    ),
    operation(
        "post",
        "/ai/conversion/quote",
        "quoteConversion",
        Members(&["serviceId", "startNetwork", "startAsset"], &["fromAddress"]),
        "The way from what a payer holds to what a tool is paid in",
    ),
    operation(
        "post",
        "/x402/quote",
        "quoteSeller",
        Members(&["url"], &["method", "startNetwork", "startAsset", "fromAddress"]),
        "What an external seller asks for",
    ),
    operation(
        "post",
        "/ai/invoke",
        "invokeTool",
        Members(&["slug"], &["input", "stream", "quoteId"]),
        "Calls a tool by its slug; answers result and receipt",
    ),
    operation("post", "/ai/mcp", "speakMcp", Object, "The same tools over MCP's Streamable HTTP"),
    operation("get", "/ai/receipts/{id}", "getReceipt", Nothing, "A signed receipt"),
    operation("get", "/ai/payments/{id}", "getPayment", Nothing, "What became of a payment"),
    operation("get", "/.well-known/jwks.json", "getReceiptKeys", Nothing, "The keys that receipts are signed with"),
    operation("get", "/ai/content-safety/policy", "getContentSafetyPolicy", Nothing, "What is not published here"),
];
