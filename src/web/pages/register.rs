//! `/dashboard/register`: registration of builders, who get a key that is shown once.
//!
//! As for a call, the price is shown first: the next page has a form for each way to pay. Sent
//! twice, a form registers only once.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::json;
use tollhouse_account::session::SessionKind;
use tollhouse_api::QuoteResponse;
use tollhouse_tool::MicroUsd;

use crate::{
    Answer, ApiRefusal, Area, Fields, HeaderMap, Page, PageResult, PostedForm, Services, State, Visitor, code, form, header, money,
    pages::try_it::name::FormName,
    play_wallet::{self, Payment, PaymentPurpose, PlayWallet, fund},
    text,
};

/// Slug of a registration in quotes.
const SLUG: &str = "builder-registration";

/// Path of the sign-in page for a new builder.
const SIGN_IN: &str = "/dashboard/sign-in?to=%2Fdashboard%2Fhome";

pub(super) struct RegistrationTerms {
    quote: Answer<QuoteResponse>,
    simulated: bool,
}

impl RegistrationTerms {
    pub(super) async fn read(visitor: &Visitor) -> Result<Self, ApiRefusal> {
        let quote = visitor.post("/ai/quote", &json!({ "slug": SLUG })).await?;
        Ok(Self { quote, simulated: visitor.is_simulated().await? })
    }

    fn price(&self) -> MicroUsd {
        self.quote.quote.total_usd
    }

    pub(super) fn is_free(&self) -> bool {
        self.price().is_zero()
    }

    fn render(&self) -> Markup {
        html! { span.money { (money::amount(self.price(), self.simulated)) } }
    }
}

pub(crate) async fn page(visitor: Visitor) -> PageResult {
    let terms = RegistrationTerms::read(&visitor).await?;
    let main = html! {
        p.lead {
            "Builders publish tools and earn money with them. "
            @if terms.is_free() { "Registration is free on this host." } @else { "Registration costs " (terms.render()) " once, and is paid like a call." }
        }
        @if terms.is_free() {
            (form::operation(&visitor, "registerBuilder", &[], SIGN_IN, html! { (details()) button.primary { "Register" } }))
        } @else {
            form.form method="post" action="/dashboard/register" {
                (form::token(&visitor))
                (FormName::new(visitor.now()).field())
                (details())
                button.primary { "See the terms" }
            }
        }
        (by_program(visitor.base_url(), terms.is_free()))
    };
    Ok(visitor.show(about(main)).await)
}

/// `POST /dashboard/register`: shows the price for this builder and the ways to pay. Charges
/// nothing.
pub(crate) async fn terms(State(services): State<Arc<Services>>, request: HeaderMap, posted: PostedForm) -> PageResult {
    let PostedForm { visitor, fields, .. } = posted;
    let terms = RegistrationTerms::read(&visitor).await?;
    let cookie = services.cookie.companion("play");
    let wallet = if terms.simulated { cookie.read::<PlayWallet>(&request).or_else(PlayWallet::new) } else { None };
    // If the same form is sent again, it has the same payment and registers once.
    let name = FormName::from_fields(&fields, visitor.now());
    let payment = match &wallet {
        Some(wallet) => signed(&visitor, wallet, &terms, &name, &fields).await,
        None => None,
    };
    let main = html! {
        p.figure { (terms.render()) }
        p.lead { "Nothing is charged before you press a button. " (text::first(field(&fields, "text:/name"), 120)) " is registered once and gets a key." }
        @if let Some(payment) = &payment {
            (form::operation(&visitor, "registerBuilder", &[], SIGN_IN, html! {
                (identity_fields(&fields))
                input type="hidden" name="header:payment-signature" value=(payment.header);
                button.primary { "Register for " (money::usd(terms.price())) ", play money" }
                p.note { "The host gives you the play money and signs with a key that this browser stores." }
            }))
        }
        (form::operation(&visitor, "registerBuilder", &[], SIGN_IN, html! {
            (identity_fields(&fields))
            input type="hidden" name="header:idempotency-key" value=(name.key(SLUG, &identity(&fields)));
            @if visitor.kind() != Some(SessionKind::Holder) {
                (form::field("credit", "Developer credit", Some("A token that begins with dc_. Admins of this host mint credits."), html! {
                    input #credit name="header:x-developer-credit" type="password" required autocomplete="off" spellcheck="false";
                }))
            }
            button class=[payment.is_none().then_some("primary")] { "Register for " (money::usd(terms.price())) " of credit" }
        }))
        p { a href="/dashboard/register" { "Change the name" } }
    };
    let mut response = visitor.show(about(main)).await;
    if let Some(wallet) = wallet {
        response.headers_mut().append(header::SET_COOKIE, cookie.set(&wallet));
    }
    Ok(response)
}

/// Signs a payment of play money for this registration, with the visitor's wallet. Returns `None`
/// if that is impossible.
async fn signed(visitor: &Visitor, wallet: &PlayWallet, terms: &RegistrationTerms, name: &FormName, fields: &Fields) -> Option<Payment> {
    let accepted = play_wallet::signable(&terms.quote.quote.accepts)?;
    let purpose = PaymentPurpose { form: &name.name, made_secs: name.made_secs, slug: SLUG, input: &identity(fields) };
    let resource = json!({ "url": format!("{}/ai/builders/register", visitor.base_url()) });
    let payment = wallet.pay(purpose, accepted, &resource)?;
    fund(visitor, wallet, accepted, terms.price()).await.is_ok().then_some(payment)
}

fn identity(fields: &Fields) -> String {
    format!("{}\n{}", field(fields, "text:/name"), field(fields, "some:/contact"))
}

fn field<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).unwrap_or_default()
}

/// Returns hidden fields with the identity from the previous form.
fn identity_fields(fields: &Fields) -> Markup {
    html! { @for name in ["text:/name", "some:/contact"] { input type="hidden" name=(name) value=(field(fields, name)); } }
}

fn details() -> Markup {
    html! {
        (form::field("name", "Name", Some("Shown to callers with your tools. Up to 120 characters."), html! {
            input #name name="text:/name" required maxlength=(tollhouse_tool::public_texts::MAX_BUILDER_NAME) autocomplete="organization";
        }))
        (form::field("contact", "Contact (optional)", Some("Only admins of this host can see it."), html! {
            input #contact name="some:/contact" maxlength=(tollhouse_tool::public_texts::MAX_BUILDER_CONTACT) autocomplete="email";
        }))
    }
}

fn about(main: Markup) -> Page {
    Page { unlisted: true, ..Page::new(Area::SignIn, "Register as a builder", main) }.under("/dashboard/sign-in", "Sign in")
}

/// Shows how programs register: ordinary x402 clients pay for it like for a tool.
fn by_program(base: &str, is_free: bool) -> Markup {
    let body = "{\"name\": \"A builder\"}";
    let credit = if is_free { "" } else { " -H \"X-Developer-Credit: $CREDIT\"" };
    let line = format!("curl -s {base}/ai/builders/register{credit} -H 'Content-Type: application/json' -d '{body}'");
    html! {
        section aria-labelledby="programs" {
            h2 #programs { "Register through the API" }
            (code::block("Register", "sh", &line))
            @if !is_free {
                p.note { "You can also pay by x402. Without a payment, the request gets 402 with the terms, which standard clients sign. See " a href="/guides/x402-agent-payment-infrastructure" { "the guide" } "." }
            }
        }
    }
}
