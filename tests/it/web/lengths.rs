//! The maximum lengths of form fields are those of the operations.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    admin_tools::deciding,
    browser::{Browser, form},
    values,
};
use crate::{
    harness::{Answer, Host},
    revenue::tool,
};

const SOURCE: &str = "export default () => ({});";
/// A handler that waits for an admin's approval.
const EVALUATES: &str = "export default () => eval('1');";

/// Returns the `maxlength` of a field.
#[track_caller]
fn longest(page: &str, name: &str) -> usize {
    let inputs = page.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
    let named = inputs.filter(|input| values(input, "name") == [name]);
    let all: Vec<_> = named.filter_map(|input| values(input, "maxlength").first().cloned()).collect();
    all.first().unwrap_or_else(|| panic!("{name} has no maxlength: {page}")).parse().unwrap()
}

/// Checks that one character more than the field allows is rejected, and that the maximum is accepted.
async fn takes_as_much(what: &str, max_len: usize, send: impl AsyncFn(String) -> Answer) {
    // Characters count, not bytes.
    let refused = send("é".repeat(max_len + 1)).await;
    assert!((400..500).contains(&refused.status), "{what}, {} characters: {refused:?}", max_len + 1);
    let taken = send("é".repeat(max_len)).await;
    assert!(matches!(taken.status, 200 | 303), "{what}, {max_len} characters: {taken:?}");
}

#[tokio::test]
async fn forms_cover_the_fields_of_their_operations() {
    let host = Host::start().await;
    let (browser, admin) = (Browser::new(&host), Browser::signed_in(&host, &host.admin).await);
    let page = browser.page("/dashboard/register").await;
    for (field, name) in [("text:/name", "name"), ("some:/contact", "contact")] {
        takes_as_much(name, longest(&page, field), async |text| {
            let mut body = json!({ "name": "Toolsmith" });
            body[name] = json!(text);
            let credit = host.mint(100.0).await;
            let request = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", credit);
            host.send(request.json(&body)).await
        })
        .await;
    }
    let credits = "/dashboard/admin/credits";
    takes_as_much("label of a credit", longest(&admin.page(credits).await, "some:/label"), async |text| {
        admin.fill(credits, "/dashboard/do/mintCredit", &[("number:/amountUsd", "1"), ("some:/label", &text)]).await
    })
    .await;
    let (_, key) = host.register("Maker").await;
    let path = "/ai/endpoints/create";
    host.as_builder(&key, Method::POST, path, &tool("asks", 0.0, EVALUATES)).await.is(200);
    let page = admin.page("/dashboard/admin/reviews/asks").await;
    takes_as_much("reason of a review", longest(&page, "some:/reason"), async |text| {
        let page = admin.page("/dashboard/admin/reviews/asks").await;
        admin.submit(&deciding(&page, "decideReview", "reject"), &[("some:/reason", &text)]).await
    })
    .await;
}

#[tokio::test]
async fn money_and_version_forms_cover_their_operations() {
    let host = Host::start().await;
    let (admin, (_, key)) = (Browser::signed_in(&host, &host.admin).await, host.register("Earner").await);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 2.0, SOURCE)).await.is(200);
    let credit = host.mint(100.0).await;
    let bought = host.call_credit("earns", &json!({}), &credit).await.is(200).receipt_id();
    let path = format!("/dashboard/receipts/{bought}");
    takes_as_much("reason of a refund", longest(&admin.page(&path).await, "some:/reason"), async |text| {
        admin.fill(&path, "/dashboard/do/giveRefund", &[("number:/amountUsd", "0.1"), ("some:/reason", &text)]).await
    })
    .await;
    let address = json!({ "address": "0x1111111111111111111111111111111111111111" });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &address).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200);
    let payouts = "/dashboard/admin/payouts";
    let approve = async || {
        for status in ["created", "failed"] {
            let page = admin.page(&format!("{payouts}?status={status}")).await;
            if page.contains("value=\"approve\"") {
                admin.submit(&deciding(&page, "decidePayout", "approve"), &[]).await.is(303);
            }
        }
        admin.page(&format!("{payouts}?status=approved")).await
    };
    takes_as_much("reason of a failed payout", longest(&approve().await, "some:/reason"), async |text| {
        admin.submit(&deciding(&approve().await, "decidePayout", "failed"), &[("some:/reason", &text)]).await
    })
    .await;
    let browser = Browser::signed_in(&host, &key).await;
    let fields = [
        ("title", "earns"),
        ("priceUsd", "2"),
        ("kind", "js"),
        ("source", "export default () => ({ more: 1 });"),
        ("inputSchema", "{}"),
        ("outputSchema", "{}"),
        ("do", "review"),
    ];
    let edit = form(&browser.page("/dashboard/tools/earns/edit").await, "/dashboard/tools/earns/edit");
    let changed = super::html(&browser.submit(&edit, &fields).await.is(200));
    takes_as_much("note of a version", longest(&changed, "note"), async |text| {
        host.as_builder(&key, Method::PATCH, "/ai/endpoints/earns", &json!({ "title": format!("Earns {}", text.len()), "note": text }))
            .await
    })
    .await;
}
