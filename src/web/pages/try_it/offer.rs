//! The second step: the price, and the ways to pay. Each is a form that names the amount.

use axum::{http::header, response::Response};
use maud::{Markup, html};
use serde_json::{Value, json};
use tollhouse_account::session::Kind;

use super::{
    asked::Asked,
    memory::{self, Memory},
    name::FormName,
    play::{self, Play},
    step::{Edited, NEW_ANSWER, NEW_PAYMENT, RUN_AGAIN, anew, signed},
    terms::Terms,
};
use crate::{
    page::Page,
    pages::tool::paid_with,
    parts::{facts, form, money, sample, schema_form::spread, state::state, text, time::moment},
    play::Payment,
    visitor::{Refused, segment},
};

/// Maximum shown characters of the input.
const SHOWN: usize = 1_500;

/// Shows the price and the ways to pay.
pub(super) async fn show(asked: &Asked<'_>, terms: &Terms<'_>) -> Result<Response, Refused> {
    let (cookies, now) = (&asked.visitor.services.cookie, asked.visitor.now());
    let (cookie, call) = (cookies.beside("try"), memory::call(asked.tool.slug(), asked.input));
    let mut memory: Memory = cookie.kept(asked.headers).unwrap_or_default();
    let known = memory.name(&call, now).filter(|_| asked.fields.get("anew").is_none());
    let name = known.unwrap_or_else(|| FormName::of(asked.fields, now));
    let (play, wallet) = match terms.simulated() {
        true => play::offered(asked, &name, terms, &memory.payments_beside(&call).collect::<Vec<_>>()).await,
        false => (Play::Away(String::new()), None),
    };
    let offer = Offer { asked, name: &name, terms, play: &play };
    let main = asked.visitor.made(|| offer.view()).await?;
    let page = Page { unlisted: true, ..asked.tool.page("Terms of", main) };
    let mut response = asked.visitor.show(page).await;
    let payment = if let Play::Signed { payment, .. } = &play { Some(payment.id.clone()) } else { None };
    memory.remember(memory::Form { name, call, payment });
    for kept in wallet.into_iter().chain([cookie.keep(&memory)]) {
        response.headers_mut().append(header::SET_COOKIE, kept);
    }
    Ok(response)
}

/// The data of the page.
struct Offer<'a> {
    asked: &'a Asked<'a>,
    name: &'a FormName,
    terms: &'a Terms<'a>,
    play: &'a Play,
}

impl Offer<'_> {
    /// Returns the price for buttons.
    fn price(&self) -> String {
        format!("{}{}", if self.terms.is_most() { "up to " } else { "" }, money::usd(self.terms.price()))
    }

    /// Returns the price, and whether it is simulated.
    fn told(&self) -> String {
        money::heading(&self.price(), self.terms.simulated())
    }

    fn view(&self) -> Markup {
        let accepts = self.terms.accepts();
        html! {
            p.figure { (self.price()) @if self.terms.simulated() { " " span.stamp { (state("simulated")) } } }
            p.lead {
                @if matches!(self.play, Play::Away(_) | Play::Signed { state: None, .. }) { "Nothing is charged before you press a button. " }
                @if self.terms.is_upfront() {
                    "A call is charged once, before the tool runs. If the run fails, you can repeat it with the same payment."
                } @else {
                    "A call is charged once, and only for a result that fits what the tool promises."
                }
            }
            @match self.play {
                Play::Open { id, state } => (self.open(id, state)),
                Play::Signed { payment, accepted, state: Some(state) } if state == "settled" => (self.paid(payment, accepted)),
                Play::Signed { payment, accepted, state: Some(state) } if state == "owed" => (self.owed(payment, accepted)),
                Play::Signed { payment, accepted, state: Some(state) } if play::is_open(state) => (self.under_way(payment, accepted, state)),
                Play::Signed { payment, accepted, .. } => {
                    (self.with_play_money(payment, accepted))
                    (self.ways())
                }
                Play::Away(why) => {
                    @if !why.is_empty() { p.note { "The play wallet cannot pay: " (text::line(why)) "." } }
                    (self.ways())
                }
            }
            @if !accepts.is_empty() { section { h2 { "What is asked for" } (paid_with(&accepts, self.terms.price(), &self.terms.manifest["payment"])) } }
            section {
                h2 { "What it is called with" }
                (self.input())
            }
            section aria-labelledby="happens" data-happens="" hidden { h2 #happens { "What happens" } }
        }
    }

    /// Shows the ways to pay with the payer's own credit or wallet.
    fn ways(&self) -> Markup {
        html! {
            @if self.asked.visitor.kind() == Some(Kind::Holder) { (self.on_own_credit()) }
            (self.on_credit())
            // A wallet's signature is worth real money elsewhere, so a simulated host never asks
            // for one.
            @if let Some(accepted) = self.terms.signable().filter(|_| !self.terms.simulated()) { (self.with_wallet(accepted)) }
            // The script shows it if the run fails.
            @if self.terms.is_upfront() { div data-anew="" hidden { (anew(self.asked, NEW_PAYMENT)) } }
        }
    }

    /// Returns a form with the fields that every payment needs.
    fn form(&self, way: &str, payment: Option<&Payment>, fields: Markup) -> Markup {
        html! {
            form.form.try method="post" action=(self.asked.tool.here()) data-call="" data-told=(self.told())
                data-payment=[payment.map(|payment| payment.id.as_str())] {
                (form::token(self.asked.visitor))
                (self.name.field())
                input type="hidden" name="step" value="pay";
                input type="hidden" name="as" value=(self.asked.state());
                input type="hidden" name="way" value=(way);
                input type="hidden" name="input" value=(self.asked.input);
                input type="hidden" name="usd" value=(self.terms.price());
                (fields)
            }
        }
    }

    fn with_play_money(&self, payment: &Payment, accepted: &Value) -> Markup {
        html! {
            section {
                h2 { "Pay with play money" }
                p { "This host made a wallet for your browser, put play money in it, and signed this one payment. It was not sent yet." }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { "Call for " (self.price()) " of play money" }
                }))
                p.note {
                    "Should its answer be lost, send the form again: it is the same payment, and is taken once. "
                    a href={ "/dashboard/payments/" (segment(&payment.id)) } { "What became of it" }
                }
            }
        }
    }

    /// Shows that this call was paid before.
    fn paid(&self, payment: &Payment, accepted: &Value) -> Markup {
        html! {
            section {
                h2 { "This call is paid for" }
                p { (state("settled")) " " (facts::id(&payment.id)) }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { "Show its answer · cannot be charged twice" }
                }))
                (anew(self.asked, NEW_ANSWER))
            }
        }
    }

    /// Shows that this call was charged before its run and has no answer.
    fn owed(&self, payment: &Payment, accepted: &Value) -> Markup {
        html! {
            section {
                h2 { "You are owed a run" }
                p { (state("owed")) " " (facts::id(&payment.id)) }
                p { "You have paid for this call, and no run has answered it yet. Another run with the same payment charges nothing more." }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { (RUN_AGAIN) }
                }))
                (anew(self.asked, NEW_PAYMENT))
            }
        }
    }

    /// Shows that this call is running.
    fn under_way(&self, payment: &Payment, accepted: &Value, word: &str) -> Markup {
        html! {
            section {
                h2 { "This call is under way" }
                p { (state(word)) " " (facts::id(&payment.id)) }
                (self.form("signed", Some(payment), html! {
                    (signed(&payment.header, accepted))
                    button.primary { "Ask again with the same payment · cannot be charged twice" }
                }))
            }
        }
    }

    fn on_own_credit(&self) -> Markup {
        html! {
            section {
                h2 { "Pay on your credit" }
                (self.form("own", None, html! { (self.named()) button { "Call for " (self.price()) " on your credit" } }))
            }
        }
    }

    fn on_credit(&self) -> Markup {
        html! {
            section {
                h2 { "Pay on a prepaid credit" }
                (self.form("credit", None, html! {
                    (self.named())
                    (form::field("credit", "Token of the credit", Some("It begins with dc_, and an admin of this host has minted it. It is not kept."), html! {
                        input #credit name="credit" type="password" required autocomplete="off" spellcheck="false";
                    }))
                    button { "Call for " (self.price()) " on this credit" }
                }))
                p.note { "The price holds until " (moment(&self.terms.quote["expiresAt"])) "." }
            }
        }
    }

    /// Returns hidden fields with the idempotency key and the quote.
    fn named(&self) -> Markup {
        html! {
            input type="hidden" name="key" value=(self.name.key(self.asked.tool.slug(), self.asked.input));
            input type="hidden" name="quote" value=(self.terms.quote["quoteId"].as_str().unwrap_or_default());
        }
    }

    /// Returns the section that the script shows if the browser has a wallet.
    fn with_wallet(&self, accepted: &Value) -> Markup {
        let offer = json!({ "accepted": accepted, "resource": self.terms.resource() });
        html! {
            section data-wallet=(sample::json(&offer)) hidden {
                h2 { "Pay with a wallet of your browser" }
                p data-says="" role="status" { "The wallet shows you what you sign. What was signed is kept in this tab until it was answered." }
                (self.form("signed", None, html! {
                    (signed("", accepted))
                    button type="button" data-sign="" { "Sign and call for " (self.price()) }
                }))
            }
        }
    }

    /// Shows that another payment is still open.
    fn open(&self, id: &str, word: &str) -> Markup {
        html! {
            section {
                h2 { "A payment of yours is still open" }
                p { (state(word)) " " (facts::id(id)) }
                p { "Nothing else is signed until it has ended. " a href={ "/dashboard/payments/" (segment(id)) } { "What became of it" } }
                (Edited { label: "Look again", step: "call", anew: false }.form(self.asked, self.name))
            }
        }
    }

    fn input(&self) -> Markup {
        html! {
            div.code { pre { code { (text::first(&spread(self.asked.input), SHOWN)) } } }
            (Edited { label: "Change it", step: self.asked.state(), anew: false }.form(self.asked, self.name))
        }
    }
}
