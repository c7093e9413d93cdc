//! `tollhouse list`: lists one's own tools, all tools for admins, or the public tools for everyone else.

use serde_json::Value;

use super::base::{
    client::CredentialChoice,
    error::{Error, Result},
    paging::{self, PageArgs},
    session::Session,
    table::Table,
    text::{any, call_price, moment, text},
};

/// Arguments of `list`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Those of everyone, in whatever state (admins)
    #[arg(long, conflicts_with = "public")]
    all: bool,
    /// Those of this builder, or `platform` (admins)
    #[arg(long, value_name = "ID")]
    owner: Option<String>,
    /// Those in this state, such as `active`, `paused`, `review` or `taken_down`
    #[arg(long, conflicts_with = "public")]
    state: Option<String>,
    /// What the host offers to everyone
    #[arg(long)]
    public: bool,
    /// Words that the tool is about
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    /// With this tag; may be said more than once
    #[arg(long)]
    tag: Vec<String>,
    /// Without a price
    #[arg(long, conflicts_with = "paid")]
    free: bool,
    /// With a price
    #[arg(long)]
    paid: bool,
    /// At most so many US dollars a call
    #[arg(long, value_name = "USD")]
    max_price: Option<String>,
    /// In which order: `price` or `newest`
    #[arg(long)]
    sort: Option<String>,
    #[command(flatten)]
    paging: PageArgs,
}

impl Args {
    fn asks_what_is_offered(&self) -> bool {
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
    if managed && args.asks_what_is_offered() {
        return Err(Error::usage(
            "`--all`, `--owner` and `--state` are of endpoints that somebody manages, and the rest of what is offered",
        ));
    }
    if args.all || args.owner.is_some() {
        let ask = || {
            let asking = client.get(&["ai", "admin", "endpoints"]).by(CredentialChoice::Admin);
            asking.query_opt("owner", args.owner.as_ref()).query_opt("state", args.state.as_ref())
        };
        return owned(session, &paging::read(&args.paging, "endpoints", ask).await?);
    }
    if !args.asks_what_is_offered() && (managed || client.credential(CredentialChoice::Anyone)?.is_some()) {
        let ask = || client.get(&["ai", "builders", "endpoints"]).query_opt("state", args.state.as_ref());
        return owned(session, &paging::read(&args.paging, "endpoints", ask).await?);
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
    offered(session, &paging::read(&args.paging, "endpoints", ask).await?)
}

fn owned(session: &Session, page: &Value) -> Result {
    if session.out.json {
        return session.out.document(page);
    }
    let mut table = Table::new(&["slug", "state", ">price", ">rev", "changed", "title"]);
    for one in super::base::text::list(page, "endpoints") {
        let changed = moment(one, "updatedAt");
        table.row([text(one, "slug"), text(one, "state"), &call_price(one), &any(one, "revision"), &changed, text(one, "title")]);
    }
    session.out.table(&table, "there is no endpoint yet: tollhouse init, and tollhouse deploy")?;
    paging::rest(session.out, page);
    Ok(())
}

fn offered(session: &Session, page: &Value) -> Result {
    if session.out.json {
        return session.out.document(page);
    }
    let mut table = Table::new(&["slug", ">price", ">calls 30 d", "builder", "title"]);
    for one in super::base::text::list(page, "endpoints") {
        let by = text(one, "builder.name");
        table.row([text(one, "slug"), &call_price(one), &any(one, "usage.calls30d"), by, text(one, "title")]);
    }
    session.out.table(&table, "nothing that is offered here fits")?;
    paging::rest(session.out, page);
    Ok(())
}
