//! `/dashboard/payouts`: payout settings, and the payouts so far.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::{line, same},
        empty::empty,
        facts, form, money, page_links,
        pager::onward,
        state::{self, state},
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, with_query},
};

pub(super) const PATH: &str = "/dashboard/payouts";
/// Rows of a page.
const ROWS: &str = "25";

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["builderId", "cursor"]);
    let of = ("builderId", request.get("builderId"));
    let path = with_query("/ai/builders/payouts", [of, ("limit", ROWS), ("cursor", request.get("cursor"))]);
    let found = visitor.get(&path).await?;
    let settings = visitor.get(&with_query("/ai/builders/payout-settings", [of])).await?;
    let manifest = visitor.manifest().await?;
    let shown = PayoutsView {
        visitor: &visitor,
        requested: &request,
        settings: &settings["payoutSettings"],
        waiting: &settings["waiting"],
        payment: &manifest["payment"],
    };
    let main = visitor
        .made(|| {
            html! {
                p.lead { "What is earned is paid out in packets: receipts that are in no other one, added up and signed. An admin sends the money." }
                div.split {
                    div { (shown.make()) section { h2 { "Packets" } (shown.packets(&found)) } }
                    aside aria-labelledby="to" { h2 #to { "Where it goes" } (shown.address()) }
                }
                (same(&visitor, &path))
            }
        })
        .await?;
    Ok(visitor.show(Page { style: Some("make.css"), ..Page::new(Area::Payouts, "Payouts", main) }).await)
}

struct PayoutsView<'a> {
    visitor: &'a Visitor,
    requested: &'a PageQuery,
    /// Null before they are set.
    settings: &'a Value,
    /// The amount that no payout covers yet.
    waiting: &'a Value,
    payment: &'a Value,
}

impl PayoutsView<'_> {
    fn simulated(&self) -> bool {
        self.payment["simulated"] == true
    }

    /// Returns the address to come back to after a form.
    fn back(&self) -> String {
        self.requested.with(PATH, &[("cursor", "")])
    }

    /// Returns the hidden field with the builder, if an admin views the page.
    fn owner_fields(&self) -> Markup {
        let builder = self.requested.get("builderId");
        html! { @if !builder.is_empty() { input type="hidden" name="query:builderId" value=(text::plain(builder)); } }
    }

    /// Shows the form for a payout of the waiting amount.
    fn make(&self) -> Markup {
        let (waits, least) = (&self.waiting["amountUsd"], &self.settings["minimumUsd"]);
        let receipts = self.waiting["receiptCount"].as_u64().unwrap_or_default();
        let sum = html! {
            p.figure { (money::usd(waits)) (money::mark(self.simulated())) span.muted { "waits" } }
            p.note { "Of " (text::counted(receipts, "receipt", "receipts")) " in no packet, less what was given back." }
        };
        if self.settings.is_null() {
            let say = format!(
                "{} \\\n  -H 'content-type: application/json' -d \"{{\\\"address\\\":\\\"$ADDRESS\\\"}}\"",
                line(self.visitor, &with_query("/ai/builders/payout-settings", [("builderId", self.requested.get("builderId"))]))
            );
            return html! { (sum) (empty("It is not said yet where payouts go.", Some(("#to", "Say where they go")), &say)) };
        }
        let fields = html! {
            (self.owner_fields())
            button.primary { "Make a packet of " (money::usd(waits)) (money::marked(self.simulated())) }
        };
        html! {
            (sum)
            @if money::in_micros(waits) == 0 { p { "Nothing waits to be paid out." } }
            @else if money::in_micros(waits) < money::in_micros(least) {
                p { (money::usd(waits)) (money::mark(self.simulated())) " waits, and less than " (money::usd(least)) (money::mark(self.simulated())) " is not paid out." }
            } @else { (form::of(self.visitor, "makePayout", &[], &self.back(), fields)) }
        }
    }

    fn packets(&self, found: &Value) -> Markup {
        let packets = found["payouts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let next = found["nextCursor"].as_str().map(|cursor| self.requested.with(PATH, &[("cursor", cursor)]));
        let first = (!self.requested.get("cursor").is_empty()).then(|| self.back());
        if packets.is_empty() && next.is_none() {
            let earned = with_query("/ai/builders/revenue", [("since", "30d"), ("builderId", self.requested.get("builderId"))]);
            return empty("No packet was made yet.", Some(("/dashboard/revenue", "What was earned")), &line(self.visitor, &earned));
        }
        let amount = money::heading("Amount", self.simulated());
        let columns =
            [Column::Words("Packet"), Column::Words("State"), Column::Number(&amount), Column::Number("Receipts"), Column::Words("Made")];
        html! {
            (table("Packets", columns, packets.iter().map(|packet| [
                page_links::payout(packet["id"].as_str().unwrap_or_default(), self.requested.get("builderId")),
                standing(packet["status"].as_str().unwrap_or_default()),
                html! { (money::usd(&packet["amountUsd"])) },
                html! { (packet["receiptCount"]) },
                moment(&packet["createdAt"]),
            ])))
            (onward(packets.len(), first.as_deref(), next.as_deref()))
        }
    }

    /// Shows the payout settings and their form.
    fn address(&self) -> Markup {
        let describe = |name: &str| self.settings[name].as_str();
        let [network, token] = money::called(self.payment, &self.settings["network"], &self.settings["asset"]);
        let fields = html! {
            (self.owner_fields())
            (form::onto(self.settings["revision"].as_u64().unwrap_or_default()))
            (form::field("address", "Address", Some("With capital letters in it, it is held against its checksum."), html! {
                input.mono #address name="text:/address" required autocomplete="off" spellcheck="false" value=(text::plain(describe("address").unwrap_or_default()));
            }))
            (self.choice("network", "Network", "the first that the host takes", |on| (&on["network"], [&on["networkV1"], &on["network"]])))
            (self.choice("asset", "Token", "the first of the network", |on| (&on["asset"]["address"], [&on["asset"]["symbol"], &on["networkV1"]])))
            (form::field("minimumUsd", "Smallest packet, in USD", None, html! {
                input #minimumUsd name="number:/minimumUsd" inputmode="decimal" autocomplete="off" value=(amount(&self.settings["minimumUsd"])) placeholder="1";
            }))
            button { "Save" }
        };
        let form = form::of(self.visitor, "setPayoutSettings", &[], &self.back(), fields);
        html! {
            @if self.settings.is_null() { (form) } @else {
                (facts::list(&[
                    ("Address", describe("address").map(facts::id)),
                    ("Network", describe("network").map(|_| html! { (text::words(network)) })),
                    ("Token", describe("asset").map(|asset| html! { (text::words(token)) " " (facts::id(asset)) })),
                    ("Smallest packet", Some(html! { (money::usd(&self.settings["minimumUsd"])) (money::mark(self.simulated())) })),
                    ("Set", Some(moment(&self.settings["updatedAt"]))),
                ]))
                details.way { summary { "Change it" } (form) }
            }
            p.note { "A packet that is made keeps its address." }
        }
    }

    /// Returns the choice of accepted values, without duplicates.
    fn choice<'v>(&'v self, member: &str, name: &str, usual: &str, of: impl Fn(&'v Value) -> (&'v Value, [&'v Value; 2])) -> Markup {
        let mut there: Vec<(&str, String)> = vec![];
        for accepted in self.payment["accepts"].as_array().into_iter().flatten() {
            let (value, called) = of(accepted);
            let value = value.as_str().unwrap_or_default();
            if there.iter().all(|(known, _)| *known != value) {
                there.push((value, called.map(|name| name.as_str().unwrap_or_default()).join(", ")));
            }
        }
        let now = self.settings[member].as_str();
        let select = html! {
            select id=(member) name={ "some:/" (member) } {
                option value="" { (usual) }
                @for (value, called) in there { option value=(value) selected[now == Some(value)] { (called) } }
            }
        };
        form::field(member, name, None, select)
    }
}

/// Shows the state of a payout, and who acts next.
pub(in crate::pages) fn standing(status: &str) -> Markup {
    match status {
        "created" => state::badge(status, "waits for an admin"),
        "approved" => state::badge(status, "approved, to be sent"),
        status => state(status),
    }
}

/// Returns an amount as plain digits for a field.
pub(super) fn amount(usd: &Value) -> String {
    usd.as_f64().map_or_else(String::new, |usd| usd.to_string())
}
