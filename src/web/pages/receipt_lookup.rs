//! `/dashboard/receipts`: finds a receipt or payment by id. Without an id, explains where ids come
//! from.

use maud::{Markup, html};

use crate::{Area, IntoResponse as _, Page, RawQuery, Redirect, Response, StatusCode, Visitor, segment};

pub(crate) async fn page(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let request = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "id").map(|(_, id)| id.trim().to_owned());
    if let Some(id) = request.filter(|id| !id.is_empty()) {
        let kind = if id.starts_with("pmt_") { "payments" } else { "receipts" };
        return Redirect::to(&format!("/dashboard/{kind}/{}", segment(&id))).into_response();
    }
    let main = html! {
        p.lead {
            "Answers of tools have receipts, which this host signs and anyone can verify. "
            "Anyone who has the id of a receipt can see it. There is no list of receipts."
        }
        (field())
        h2 { "Where to find an id" }
        dl.facts {
            div {
                dt { code { "rcpt_…" } }
                dd { "the header " code { "X-Receipt-Id" } " of an answer, or " code { "receipt" } " in its body" }
            }
            div {
                dt { code { "pmt_…" } }
                dd { "the header " code { "X-Payment-Id" } ", for the state of a payment whose answer was lost" }
            }
        }
    };
    visitor.show(Page::new(Area::Receipts, "Receipts", main)).await
}

/// Returns the page for an unknown id, with a field for another one.
pub(super) async fn not_found(visitor: &Visitor, title: &str, lead: &Markup) -> Response {
    let main = html! { p.lead { (lead) } (field()) };
    let page = Page::new(Area::Receipts, title, main).under("/dashboard/receipts", "Receipts");
    visitor.show(Page { status: StatusCode::NOT_FOUND, unlisted: true, ..page }).await
}

fn field() -> Markup {
    html! {
        form.ask action="/dashboard/receipts" {
            div.field.wide {
                label for="id" { "Id of a receipt or a payment" }
                input #id name="id" required autocomplete="off" spellcheck="false" placeholder="rcpt_… or pmt_…";
            }
            button.primary { "Show" }
        }
    }
}
