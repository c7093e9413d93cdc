//! `tollhouse list`: lists one's own tools, all tools for admins, or the public tools for everyone else.

use tollhouse_api::{Catalog, EndpointSummaryPage};

use super::base::{CredentialChoice, Error, PageArgs, Result, Session, call_price, moment, name, optional, paging};

/// Arguments of `list`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// List the tools of all builders, in any state (admins)
    #[arg(long, conflicts_with = "public")]
    all: bool,
    /// List the tools of a builder, or of `platform` (admins)
    #[arg(long, value_name = "ID")]
    owner: Option<String>,
    /// Only tools in this state, for example `taken_down`
    #[arg(long, conflicts_with = "public")]
    state: Option<String>,
    /// List the public tools
    #[arg(long)]
    public: bool,
    /// Words to search for
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// Only tools with this tag; repeatable
    #[arg(long)]
    tag: Vec<String>,
    /// Only free tools
    #[arg(long, conflicts_with = "paid")]
    free: bool,
    /// Only paid tools
    #[arg(long)]
    paid: bool,
    /// Maximum price of a call, in US dollars
    #[arg(long, value_name = "USD")]
    max_price: Option<String>,
    /// Order: `price` or `newest`
    #[arg(long)]
    sort: Option<String>,
    #[command(flatten)]
    paging: PageArgs,
}

impl Args {
    fn searches_catalog(&self) -> bool {
        self.public
            || self.search.is_some()
            || !self.tag.is_empty()
            || self.free
            || self.paid
            || self.max_price.is_some()
            || self.sort.is_some()
    }
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let client = &session.client;
    let managed = args.all || args.owner.is_some() || args.state.is_some();
    if managed && args.searches_catalog() {
        return Err(Error::usage("`--all`, `--owner` and `--state` cannot be combined with filters of the public catalog"));
    }
    if args.all || args.owner.is_some() {
        let ask = || {
            let asking = client.get(&["ai", "admin", "endpoints"]).by(CredentialChoice::Admin);
            asking.query_opt("owner", args.owner.as_ref()).query_opt("state", args.state.as_ref())
        };
        return managed_tools(session, paging::read(&args.paging, ask).await?);
    }
    if !args.searches_catalog() && (managed || client.credential(CredentialChoice::Anyone)?.is_some()) {
        let ask = || client.get(&["ai", "builders", "endpoints"]).query_opt("state", args.state.as_ref());
        return managed_tools(session, paging::read(&args.paging, ask).await?);
    }
    let price = if args.free { Some("free") } else { args.paid.then_some("paid") };
    let ask = || {
        let mut asking =
            client.get(&["ai", "endpoints"]).by(CredentialChoice::Everyone).query_opt("q", args.search.as_ref()).query_opt("price", price);
        for tag in &args.tag {
            asking = asking.query("tag", tag);
        }
        asking.query_opt("maxPriceUsd", args.max_price.as_ref()).query_opt("sort", args.sort.as_ref())
    };
    let page: Catalog = paging::read(&args.paging, ask).await?;
    let heads = ["slug", ">price", ">calls 30 d", "builder", "title"];
    paging::print(session.out, page, heads, "no matching tools", |tool| {
        let (common, calls) = (&tool.common, optional(tool.usage.as_ref().map(|usage| usage.calls30d)));
        let builder = optional(tool.builder.as_ref().map(|builder| &builder.name));
        [common.slug.to_string(), call_price(common.price_usd, tool.max_price_usd), calls, builder, common.title.clone()]
    })
}

fn managed_tools(session: &Session, page: EndpointSummaryPage) -> Result {
    let heads = ["slug", "state", ">price", ">rev", "changed", "title"];
    paging::print(session.out, page, heads, "no tools yet; create one: tollhouse init, then tollhouse deploy", |tool| {
        let tool = &tool.brief;
        let price = call_price(tool.price_usd, tool.max_price_usd);
        [tool.slug.to_string(), name(tool.state), price, tool.revision.to_string(), moment(tool.updated_at), tool.title.clone()]
    })
}
