//! `/dashboard/admin/payouts`: payouts of all builders: to approve, to send, and sent.

use std::collections::BTreeMap;

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::shared::{Admin, DecisionTarget, ROWS, counted, entries, mark, owner_by_name, text_of};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::line,
        empty::empty,
        facts, form, money,
        pager::onward,
        state::{self, state},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, with_query},
};

const PATH: &str = "/dashboard/admin/payouts";

/// States to filter payouts by.
const STATES: [(&str, &str); 5] = [("", "All"), ("created", "To approve"), ("approved", "To send"), ("paid", "Paid"), ("failed", "Failed")];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["status", "cursor"]);
    let fields = [("status", request.get("status")), ("limit", ROWS), ("cursor", request.get("cursor"))];
    let found = visitor.get(&with_query("/ai/admin/payouts", fields)).await?;
    let payment = &visitor.manifest().await?["payment"];
    let shown = PayoutsView { visitor: &visitor, requested: &request, payment, simulated: payment["simulated"] == true };
    let main = visitor.made(|| view(&shown, &found)).await?;
    Ok(visitor.show(Page { style: Some("make.css"), ..Page::new(Area::AdminPayouts, "Payouts", main) }).await)
}

/// The data of the page.
struct PayoutsView<'a> {
    visitor: &'a Visitor,
    /// The state and the cursor.
    requested: &'a PageQuery,
    /// The payment section of the manifest.
    payment: &'a Value,
    simulated: bool,
}

impl PayoutsView<'_> {
    /// Returns the names of a network and a token.
    fn called(&self, network: &Value, asset: &Value) -> String {
        money::called(self.payment, network, asset).join(", ")
    }
}

fn view(shown: &PayoutsView, found: &Value) -> Markup {
    let status = shown.requested.get("status");
    let packets = entries(found, "payouts");
    let back = with_query(PATH, [("status", status)]);
    html! {
        nav.tabs aria-label="State" {
            @for (state, name) in STATES { a href=(with_query(PATH, [("status", state)])) aria-current=[(state == status).then_some("page")] { (name) } }
        }
        @let sums = to_send(packets);
        @if !sums.is_empty() {
            p.words {
                "To send, of what is shown: "
                @for (position, ((network, asset), (micros, count))) in sums.iter().enumerate() {
                    @if position > 0 { "; " }
                    strong { (money::micros(*micros)) } (mark(shown.simulated)) " in " (counted(*count, "packet", "packets")) " on " (text::words(&shown.called(&json!(network), &json!(asset))))
                }
                "."
            }
        }
        @if packets.is_empty() { (empty("No packet is in this state.", Some((PATH, "All packets")), &line(shown.visitor, "/ai/admin/payouts"))) }
        @else {
            ul.rows { @for packet in packets { (row(shown, packet, &back)) } }
            (onward(packets.len(), shown.requested.first(PATH).as_deref(), shown.requested.next(PATH, found).as_deref()))
        }
    }
}

/// Sums up approved payouts by network and token, with their number.
fn to_send(packets: &[Value]) -> BTreeMap<(&str, &str), (u64, u64)> {
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet["status"] == "approved") {
        let sum = sums.entry((text_of(packet, "network"), text_of(packet, "asset"))).or_default();
        *sum = (sum.0 + money::in_micros(&packet["amountUsd"]), sum.1 + 1);
    }
    sums
}

fn row(shown: &PayoutsView, packet: &Value, back: &str) -> Markup {
    let id = text_of(packet, "id");
    html! {
        li #(id) {
            h2 { (money::usd(&packet["amountUsd"])) (mark(shown.simulated)) " for " (owner_by_name(text_of(packet, "builderId"), &packet["builderName"])) }
            p { (standing(text_of(packet, "status"))) }
            div.what {
                (facts::list(&[
                    ("Packet", Some(facts::id(id))),
                    ("Builder", packet["builderId"].as_str().map(facts::id)),
                    ("To", packet["address"].as_str().map(facts::id)),
                    ("On", Some(html! { (text::words(&shown.called(&packet["network"], &packet["asset"]))) " " (facts::id(text_of(packet, "asset"))) })),
                    ("Receipts", Some(html! { (packet["receiptCount"]) })),
                    ("Left out", packet["withheldUsd"].is_number().then(|| html! { (money::usd(&packet["withheldUsd"])) (mark(shown.simulated)) ", which was given back of earlier sales" })),
                    ("Digest", packet["digest"].as_str().map(facts::id)),
                    ("Made", Some(moment(&packet["createdAt"]))),
                    ("Decided", Some(moment(&packet["updatedAt"])).filter(|_| packet["status"] != "created")),
                    ("Transaction", packet["transaction"].as_str().map(facts::id)),
                    ("Reason", packet["reason"].as_str().map(text::words)),
                ]))
                (decisions(shown, packet, back))
            }
        }
    }
}

fn decisions(shown: &PayoutsView, packet: &Value, back: &str) -> Markup {
    let id = text_of(packet, "id");
    let back = format!("{back}#{id}");
    let decided = DecisionTarget { visitor: shown.visitor, operation: "decidePayout", id, back: &back };
    let decide = |decision: &str, fields: Markup| decided.form(decision, fields);
    let named = |of: &str| format!("{of}-{id}");
    html! {
        @match text_of(packet, "status") {
            "created" | "failed" => (decide("approve", html! { button.primary { "Approve " (money::usd(&packet["amountUsd"])) @if shown.simulated { " simulated" } } })),
            "approved" => {
                (decide("paid", html! {
                    (form::field(&named("sent"), "Transaction that paid it", None, html! {
                        input #(named("sent")) name="text:/transaction" required autocomplete="off" spellcheck="false";
                    }))
                    button.primary { "Mark as paid" }
                }))
                (decide("failed", html! {
                    (form::field(&named("why"), "Why it failed", None, html! { input #(named("why")) name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_MONEY_REASON) autocomplete="off"; }))
                    button { "Mark as failed" }
                }))
            }
            _ => {}
        }
    }
}

/// Shows the state of a payout. A state that needs action has the same name as its list.
fn standing(status: &str) -> Markup {
    match status {
        "created" => state::badge(status, "to approve"),
        "approved" => state::badge(status, "to send"),
        status => state(status),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_to_be_sent_is_added_up_to_the_last_digit() {
        let packet = |status, amount: f64, asset| json!({ "status": status, "amountUsd": amount, "network": "n", "asset": asset });
        let packets =
            [packet("approved", 0.1, "a"), packet("approved", 0.2, "a"), packet("approved", 0.000_001, "b"), packet("paid", 9.0, "a")];
        assert_eq!(to_send(&packets), BTreeMap::from([(("n", "a"), (300_000, 2)), (("n", "b"), (1, 1))]));
    }
}
