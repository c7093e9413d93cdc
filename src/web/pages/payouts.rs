//! `/dashboard/payouts`: payout settings, and the payouts so far.

use maud::{Markup, html};
use tollhouse_api::{AcceptedToken, PaymentInfo, PayoutPage, PayoutSettings, PayoutSettingsResponse, PayoutStatus, WaitingPayout};
use tollhouse_base::plural::plural;
use tollhouse_tool::MicroUsd;

use crate::{
    Area, Number, Page, PageQuery, PageResult, RawQuery, SignedIn, Visitor, Words, api_section, curl_command, empty, facts, form,
    lazy_html, moment, money, onward, page_links, state, table, text, with_query, word,
};

pub(super) const PATH: &str = "/dashboard/payouts";
const ROWS: &str = "25";

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["builderId", "cursor"]);
    let of = ("builderId", query.get("builderId"));
    let path = with_query("/ai/builders/payouts", [of, ("limit", ROWS), ("cursor", query.get("cursor"))]);
    let found = visitor.get::<PayoutPage>(&path).await?;
    let settings = visitor.get::<PayoutSettingsResponse>(&with_query("/ai/builders/payout-settings", [of])).await?;
    let manifest = visitor.manifest().await?;
    let shown = PayoutsView {
        visitor: &visitor,
        query: &query,
        settings: settings.payout_settings.as_ref(),
        waiting: &settings.waiting,
        payment: &manifest.payment,
    };
    let main = lazy_html! {
        p.lead { "A payout is a signed sum of receipts. Each receipt is in only one payout. An admin sends the money." }
        div.split {
            div { (shown.make()) section { h2 { "All payouts" } (shown.packets(&found)) } }
            aside aria-labelledby="to" { h2 #to { "Payout address" } (shown.address()) }
        }
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page { style: Some("make.css"), ..Page::new(Area::Payouts, "Payouts", main) }).await)
}

struct PayoutsView<'a> {
    visitor: &'a Visitor,
    query: &'a PageQuery,
    /// `None` before they are set.
    settings: Option<&'a PayoutSettings>,
    /// The amount that no payout covers yet.
    waiting: &'a WaitingPayout,
    payment: &'a PaymentInfo,
}

impl PayoutsView<'_> {
    fn amount(&self, usd: MicroUsd) -> Markup {
        money::amount(usd, self.payment.simulated)
    }

    /// Returns the address to come back to after a form.
    fn back(&self) -> String {
        self.query.with(PATH, &[("cursor", "")])
    }

    /// Returns the hidden field with the builder, if an admin views the page.
    fn owner_fields(&self) -> Markup {
        let builder = self.query.get("builderId");
        html! { @if !builder.is_empty() { input type="hidden" name="query:builderId" value=(text::plain(builder)); } }
    }

    /// Shows the form for a payout of the waiting amount.
    fn make(&self) -> Markup {
        let waits = self.waiting.amount_usd;
        let sum = html! {
            p.figure { (self.amount(waits)) span.muted { "waiting" } }
            p.note { "From " (plural(self.waiting.receipt_count, "receipt")) " not in a payout yet, minus refunds." }
        };
        let Some(settings) = self.settings else {
            let say = format!(
                "{} \\\n  -H 'content-type: application/json' -d \"{{\\\"address\\\":\\\"$ADDRESS\\\"}}\"",
                curl_command(self.visitor, &with_query("/ai/builders/payout-settings", [("builderId", self.query.get("builderId"))]))
            );
            return html! { (sum) (empty("No payout address is set.", Some(("#to", "Set an address")), &say)) };
        };
        let fields = html! {
            (self.owner_fields())
            button.primary { "Create a payout of " (money::usd(waits)) (money::marked(self.payment.simulated)) }
        };
        html! {
            (sum)
            @if waits.is_zero() { p { "No revenue is waiting to be paid out." } }
            @else if waits < settings.minimum_usd {
                p { (self.amount(waits)) " is waiting. The minimum for a payout is " (self.amount(settings.minimum_usd)) "." }
            } @else { (form::operation(self.visitor, "makePayout", &[], &self.back(), fields)) }
        }
    }

    fn packets(&self, PayoutPage { payouts, next_cursor, .. }: &PayoutPage) -> Markup {
        if payouts.is_empty() && next_cursor.is_none() {
            let earned = with_query("/ai/builders/revenue", [("since", "30d"), ("builderId", self.query.get("builderId"))]);
            return empty("No payouts yet.", Some(("/dashboard/revenue", "See the revenue")), &curl_command(self.visitor, &earned));
        }
        let amount = money::heading("Amount", self.payment.simulated);
        let columns = [Words("Payout"), Words("State"), Number(&amount), Number("Receipts"), Words("Created")];
        html! {
            (table("Payouts", columns, payouts.iter().map(|packet| [
                page_links::payout(&packet.id, self.query.get("builderId")),
                status_badge(packet.status),
                html! { (money::usd(packet.amount_usd)) },
                html! { (packet.receipt_count) },
                moment(packet.created_at),
            ])))
            (onward(payouts.len(), self.query, PATH, next_cursor.as_ref()))
        }
    }

    /// Shows the payout settings and their form.
    fn address(&self) -> Markup {
        let fields = html! {
            (self.owner_fields())
            (form::revision(self.settings.map_or(0, |settings| settings.revision)))
            (form::field("address", "Address", Some("If it contains capital letters, its checksum is verified."), html! {
                input.mono #address name="text:/address" required autocomplete="off" spellcheck="false" value=[self.settings.map(|settings| text::plain(&settings.address))];
            }))
            (self.choice("network", "Network", "the host's first network", |settings| &settings.network, |on| (&on.network, [&on.network_v1, &on.network])))
            (self.choice("asset", "Token", "the network's first token", |settings| &settings.asset, |on| (&on.asset.address, [&on.asset.symbol, &on.network_v1])))
            (form::field("minimumUsd", "Minimum payout, in USD", None, html! {
                input #minimumUsd name="number:/minimumUsd" inputmode="decimal" autocomplete="off" value=[self.settings.map(|settings| settings.minimum_usd)] placeholder="1";
            }))
            button { "Save" }
        };
        let form = form::operation(self.visitor, "setPayoutSettings", &[], &self.back(), fields);
        html! {
            @match self.settings {
                None => (form),
                Some(settings) => {
                    @let [network, token] = money::token_names(self.payment, &settings.network, &settings.asset);
                    (facts::list(&[
                        ("Address", Some(facts::id(&settings.address))),
                        ("Network", Some(text::words(network))),
                        ("Token", Some(html! { (text::words(token)) " " (facts::id(&settings.asset)) })),
                        ("Minimum payout", Some(self.amount(settings.minimum_usd))),
                        ("Changed", Some(moment(settings.updated_at))),
                    ]))
                    details.way { summary { "Change the address" } (form) }
                }
            }
            p.note { "An existing payout keeps its address." }
        }
    }

    /// Returns the choice of accepted values, without duplicates.
    fn choice<'v>(
        &'v self,
        member: &str,
        name: &str,
        usual: &str,
        now: fn(&PayoutSettings) -> &str,
        of: impl Fn(&'v AcceptedToken) -> (&'v str, [&'v str; 2]),
    ) -> Markup {
        let mut choices: Vec<(&str, String)> = vec![];
        for (value, names) in self.payment.accepts.iter().map(of) {
            if choices.iter().all(|(known, _)| *known != value) {
                choices.push((value, names.join(", ")));
            }
        }
        let now = self.settings.map(now);
        let select = html! {
            select id=(member) name={ "some:/" (member) } {
                option value="" { (usual) }
                @for (value, names) in choices { option value=(value) selected[now == Some(value)] { (names) } }
            }
        };
        form::field(member, name, None, select)
    }
}

/// Shows the state of a payout, and who acts next.
pub(super) fn status_badge(status: PayoutStatus) -> Markup {
    let word = word(status);
    match status {
        PayoutStatus::Created => state::badge(&word, "waits for approval"),
        PayoutStatus::Approved => state::badge(&word, "approved, to be sent"),
        PayoutStatus::Rejected => state::badge(&word, "rejected; its receipts wait for another payout"),
        PayoutStatus::Collecting | PayoutStatus::Paid | PayoutStatus::Failed | PayoutStatus::Rejecting => state(&word),
    }
}
