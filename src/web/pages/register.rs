//! `/dashboard/register`: registration of builders, who get a key that is shown once.
//!
//! As for a call, the price is shown first: the next page has a form for each way to pay. Sent
//! twice, a form registers only once.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, header},
    response::Response,
};
use maud::{Markup, html};
use serde_json::{Value, json};
use tollhouse_account::session::SessionKind;
use tollhouse_base::offload::DropOffThread;

use crate::{
    forms::{Fields, PostedForm},
    page::{Area, Page},
    pages::try_it::name::FormName,
    parts::{code, form, money, text},
    play_wallet::{Payment, PaymentPurpose, PlayWallet, fund},
    services::Services,
    visitor::{ApiRefusal, Visitor},
};

/// Slug of a registration in quotes.
const SLUG: &str = "builder-registration";

/// Path of the sign-in page for a new builder.
const SIGN_IN: &str = "/dashboard/sign-in?to=%2Fdashboard%2Fhome";

/// The price of a registration.
pub(super) struct RegistrationTerms {
    quote: DropOffThread,
    simulated: bool,
}

impl RegistrationTerms {
    pub(super) async fn read(visitor: &Visitor) -> Result<Self, ApiRefusal> {
        let quote = visitor.fetch_about("/ai/quote", &json!({ "slug": SLUG })).await?;
        Ok(Self { quote, simulated: visitor.plays().await? })
    }

    fn price(&self) -> &Value {
        &self.quote["totalUsd"]
    }

    pub(super) fn is_free(&self) -> bool {
        self.price().as_f64() == Some(0.0)
    }

    fn render(&self) -> Markup {
        html! { span.money { (money::usd(self.price())) (money::mark(self.simulated)) } }
    }
}

pub(crate) async fn page(visitor: Visitor) -> Result<Response, ApiRefusal> {
    let terms = RegistrationTerms::read(&visitor).await?;
    let main = html! {
        p.lead {
            "A builder publishes tools, and earns with them. "
            @if terms.is_free() { "Registering is free here." } @else { "Registering costs " (terms.render()) ", once, paid as calls are." }
        }
        @if terms.is_free() {
            (form::of(&visitor, "registerBuilder", &[], SIGN_IN, html! { (details()) button.primary { "Register" } }))
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
pub(crate) async fn terms(State(services): State<Arc<Services>>, request: HeaderMap, posted: PostedForm) -> Result<Response, ApiRefusal> {
    let PostedForm { visitor, fields, .. } = posted;
    let terms = RegistrationTerms::read(&visitor).await?;
    let cookie = services.cookie.companion("play");
    let wallet = if terms.simulated { cookie.read::<PlayWallet>(&request).or_else(PlayWallet::new) } else { None };
    // If the same form is sent again, it has the same payment and registers once.
    let name = FormName::of(&fields, visitor.now());
    let payment = match &wallet {
        Some(wallet) => signed(&visitor, wallet, &terms, &name, &fields).await,
        None => None,
    };
    let main = html! {
        p.figure { (terms.render()) }
        p.lead { "Nothing is charged before you press a button. " (text::first(field(&fields, "text:/name"), 120)) " is registered once, and gets a key." }
        @if let Some(payment) = &payment {
            (form::of(&visitor, "registerBuilder", &[], SIGN_IN, html! {
                (again(&fields))
                input type="hidden" name="header:payment-signature" value=(payment.header);
                button.primary { "Register for " (money::usd(terms.price())) ", play money" }
                p.note { "The host gives you the play money, and signs with a key that this browser keeps." }
            }))
        }
        (form::of(&visitor, "registerBuilder", &[], SIGN_IN, html! {
            (again(&fields))
            input type="hidden" name="header:idempotency-key" value=(name.key(SLUG, &who(&fields)));
            @if visitor.kind() != Some(SessionKind::Holder) {
                (form::field("credit", "Developer credit", Some("A token that begins with dc_, which an admin of this host mints."), html! {
                    input #credit name="header:x-developer-credit" type="password" required autocomplete="off" spellcheck="false";
                }))
            }
            button class=[payment.is_none().then_some("primary")] { "Register for " (money::usd(terms.price())) " of credit" }
        }))
        p { a href="/dashboard/register" { "Change the name" } }
    };
    let mut response = visitor.show(about(main)).await;
    if let Some(wallet) = wallet {
        response.headers_mut().append(header::SET_COOKIE, cookie.keep(&wallet));
    }
    Ok(response)
}

/// Signs a payment of play money for this registration, with the visitor's wallet. Returns `None`
/// if that is impossible.
async fn signed(visitor: &Visitor, wallet: &PlayWallet, terms: &RegistrationTerms, name: &FormName, fields: &Fields) -> Option<Payment> {
    let accepts = terms.quote["accepts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = |accepted: &&Value| accepted["network"].as_str().is_some_and(|network| network.starts_with("eip155:"));
    let accepted = accepts.iter().find(ours)?;
    let purpose = PaymentPurpose { form: &name.name, made_secs: name.made_secs, slug: SLUG, input: &who(fields) };
    let resource = json!({ "url": format!("{}/ai/builders/register", visitor.base_url()) });
    let payment = wallet.pay(purpose, accepted, &resource)?;
    fund(visitor, wallet, accepted, terms.price()).await.is_ok().then_some(payment)
}

/// Returns the identity to register.
fn who(fields: &Fields) -> String {
    format!("{}\n{}", field(fields, "text:/name"), field(fields, "some:/contact"))
}

fn field<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).unwrap_or_default()
}

/// Returns hidden fields with the identity from the previous form.
fn again(fields: &Fields) -> Markup {
    html! { @for name in ["text:/name", "some:/contact"] { input type="hidden" name=(name) value=(field(fields, name)); } }
}

fn details() -> Markup {
    html! {
        (form::field("name", "Name", Some("Payers see it beside your tools. At most 120 characters."), html! {
            input #name name="text:/name" required maxlength=(tollhouse_tool::public_texts::MAX_BUILDER_NAME) autocomplete="organization";
        }))
        (form::field("contact", "Contact, if you like", Some("Admins of this host see it, and nobody else."), html! {
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
            h2 #programs { "By a program" }
            (code::block("Register", "sh", &line))
            @if !is_free {
                p.note { "Or by x402: without a payment it answers 402 and its terms, which stock clients sign: " a href="/guides/x402-agent-payment-infrastructure" { "the guide" } "." }
            }
        }
    }
}
