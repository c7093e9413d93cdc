//! `/dashboard/admin/payouts`: payouts of all builders: to approve, to send, and sent.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tollhouse_api::{AllPayoutsPage, Manifest, Payout, PayoutStatus};
use tollhouse_base::plural::plural;
use tollhouse_tool::MicroUsd;

use super::shared::{Admin, DecisionTarget, ROWS, owner_by_name};
use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, Visitor, curl_command, empty, facts, form, moment, money, onward, state, text, with_query,
    word,
};

const PATH: &str = "/dashboard/admin/payouts";

/// States to filter payouts by.
const STATES: [(&str, &str); 6] =
    [("", "All"), ("created", "To approve"), ("approved", "To send"), ("paid", "Paid"), ("failed", "Failed"), ("rejected", "Rejected")];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["status", "cursor"]);
    let fields = [("status", query.get("status")), ("limit", ROWS), ("cursor", query.get("cursor"))];
    let found = visitor.get::<AllPayoutsPage>(&with_query("/ai/admin/payouts", fields)).await?;
    let shown = PayoutsView { visitor: &visitor, query: &query, manifest: visitor.manifest().await? };
    let main = visitor.render(|| view(&shown, &found)).await?;
    Ok(visitor.show(Page { style: Some("make.css"), ..Page::new(Area::AdminPayouts, "Payouts", main) }).await)
}

struct PayoutsView<'a> {
    visitor: &'a Visitor,
    /// The state and the cursor.
    query: &'a PageQuery,
    manifest: &'a Manifest,
}

impl PayoutsView<'_> {
    fn token_names(&self, network: &str, asset: &str) -> String {
        money::token_names(&self.manifest.payment, network, asset).join(", ")
    }

    fn amount(&self, usd: MicroUsd) -> Markup {
        money::amount(usd, self.manifest.payment.simulated)
    }
}

fn view(shown: &PayoutsView, found: &AllPayoutsPage) -> Markup {
    let status = shown.query.get("status");
    let packets = &found.payouts;
    let back = with_query(PATH, [("status", status)]);
    html! {
        nav.tabs aria-label="State" {
            @for (state, name) in STATES { a href=(with_query(PATH, [("status", state)])) aria-current=[(state == status).then_some("page")] { (name) } }
        }
        @let sums = to_send(packets);
        @if !sums.is_empty() {
            p.words {
                "Total to send for the payouts on this page: "
                @for (position, ((network, asset), (sum, count))) in sums.iter().enumerate() {
                    @if position > 0 { "; " }
                    strong { (money::usd(sum)) } (money::mark(shown.manifest.payment.simulated)) " in " (plural(*count, "payout")) " on " (text::words(shown.token_names(network, asset)))
                }
                "."
            }
        }
        @if packets.is_empty() { (empty("No payouts in this state.", Some((PATH, "Show all payouts")), &curl_command(shown.visitor, "/ai/admin/payouts"))) }
        @else {
            ul.rows { @for packet in packets { (row(shown, packet, &back)) } }
            (onward(packets.len(), shown.query, PATH, found.next_cursor.as_ref()))
        }
    }
}

/// Sums up approved payouts by network and token, with their number.
fn to_send(packets: &[Payout]) -> BTreeMap<(&str, &str), (MicroUsd, u64)> {
    let mut sums: BTreeMap<_, (MicroUsd, u64)> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.status == PayoutStatus::Approved) {
        let (sum, count) = sums.entry((&*packet.network, &*packet.asset)).or_default();
        *sum = MicroUsd(sum.0 + packet.amount_usd.0);
        *count += 1;
    }
    sums
}

fn row(shown: &PayoutsView, packet: &Payout, back: &str) -> Markup {
    html! {
        li #(packet.id) {
            h2 { (shown.amount(packet.amount_usd)) " for " (owner_by_name(&packet.builder_id, packet.builder_name.iter().flatten().next().map(String::as_str))) }
            p { (status_badge(packet.status)) }
            div.what {
                (facts::list(&[
                    ("Payout", Some(facts::id(&packet.id))),
                    ("Builder", Some(facts::id(&packet.builder_id))),
                    ("Address", Some(facts::id(&packet.address))),
                    ("Token", Some(html! { (text::words(shown.token_names(&packet.network, &packet.asset))) " " (facts::id(&packet.asset)) })),
                    ("Receipts", Some(html! { (packet.receipt_count) })),
                    ("Withheld", packet.withheld_usd.map(|usd| html! { (shown.amount(usd)) ", for refunds of earlier sales" })),
                    ("Digest", packet.digest.as_deref().map(facts::id)),
                    ("Created", Some(moment(packet.created_at))),
                    ("Decided", (packet.status != PayoutStatus::Created).then(|| moment(packet.updated_at))),
                    ("Transaction", packet.transaction.as_deref().map(facts::id)),
                    ("Warning", packet.warning.as_deref().map(text::line)),
                    ("Reason", packet.reason.as_deref().map(text::words)),
                ]))
                (decisions(shown, packet, back))
            }
        }
    }
}

fn decisions(shown: &PayoutsView, packet: &Payout, back: &str) -> Markup {
    let id = packet.id.as_str();
    let back = format!("{back}#{id}");
    let decided = DecisionTarget { visitor: shown.visitor, operation: "decidePayout", id, back: &back };
    let decide = |decision: &str, fields: Markup| decided.form(decision, fields);
    // The list of payouts to send would not show the payout again, nor a warning about its transaction.
    let paid = format!("{}#{id}", with_query(PATH, [("status", "paid")]));
    let to_paid = DecisionTarget { back: if back.contains("status=approved") { &paid } else { &back }, ..decided };
    let named = |of: &str| format!("{of}-{id}");
    html! {
        @match packet.status {
            PayoutStatus::Created | PayoutStatus::Failed => {
                (decide("approve", html! {
                    button.primary { "Approve " (money::usd(packet.amount_usd)) (money::marked(shown.manifest.payment.simulated)) }
                }))
                (decide("reject", html! {
                    (form::field(&named("why"), "Reason for the rejection", Some("Its receipts return to the builder's waiting revenue. This is final."), html! {
                        input #(named("why")) name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_MONEY_REASON) autocomplete="off";
                    }))
                    button { "Reject" }
                }))
            }
            // A rejection that was interrupted can be completed.
            PayoutStatus::Rejecting => (decide("reject", html! { button { "Complete the rejection" } })),
            PayoutStatus::Approved => {
                (to_paid.form("paid", html! {
                    (form::field(&named("sent"), "Transaction of the payout", None, html! {
                        input #(named("sent")) name="text:/transaction" required autocomplete="off" spellcheck="false";
                    }))
                    button.primary { "Mark as paid" }
                }))
                (decide("failed", html! {
                    (form::field(&named("why"), "Reason for the failure", None, html! { input #(named("why")) name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_MONEY_REASON) autocomplete="off"; }))
                    button { "Mark as failed" }
                }))
            }
            PayoutStatus::Collecting | PayoutStatus::Paid | PayoutStatus::Rejected => {}
        }
    }
}

/// Shows the state of a payout. A state that needs action has the same name as its list.
fn status_badge(status: PayoutStatus) -> Markup {
    let word = word(status);
    match status {
        PayoutStatus::Created => state::badge(&word, "to approve"),
        PayoutStatus::Approved => state::badge(&word, "to send"),
        PayoutStatus::Collecting | PayoutStatus::Paid | PayoutStatus::Failed | PayoutStatus::Rejecting | PayoutStatus::Rejected => {
            state(&word)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn approved_payouts_are_added_up_exactly() {
        let at = "2026-11-22T09:58:03.000Z";
        let packet = |status: &str, amount: f64, asset: &str| -> Payout {
            let packet = json!({
                "status": status, "amountUsd": amount, "network": "n", "asset": asset, "id": "pay_01KATR3Q6S4B8Z2M5V7X9C1D3F", "builderId": "bld_01KATR3Q6S4B8Z2M5V7X9C1D3F", "receiptCount": 1,
                "digest": "", "period": null, "address": "", "createdAt": at, "updatedAt": at, "signature": null,
            });
            serde_json::from_value(packet).unwrap()
        };
        let packets =
            [packet("approved", 0.1, "a"), packet("approved", 0.2, "a"), packet("approved", 0.000_001, "b"), packet("paid", 9.0, "a")];
        assert_eq!(to_send(&packets), BTreeMap::from([(("n", "a"), (MicroUsd(300_000), 2)), (("n", "b"), (MicroUsd(1), 1))]));
    }
}
