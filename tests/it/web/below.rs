//! A host whose public URL has a path, behind a proxy that strips the path.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;

use super::{
    browser::{Browser, form},
    html, values,
};
use crate::harness::{Host, js};

const URL: &str = "https://x.example/tools-host";
const PATH: &str = "/tools-host";

async fn host() -> Host {
    Host::builder().flag("--base-url", URL).start().await
}

/// Returns an address as the proxy passes it on.
fn passed_on(address: &str) -> &str {
    let path = address.strip_prefix(PATH).unwrap_or_else(|| panic!("`{address}` is not below the host"));
    if path.is_empty() { "/" } else { path }
}

/// Signs in with the form of the page, as a browser does.
async fn signed_in<'h>(host: &'h Host, credential: &str) -> Browser<'h> {
    let mut browser = Browser::new(host);
    let mut form = form(&browser.page("/dashboard/sign-in?to=/dashboard/account").await, "/tools-host/dashboard/session");
    form.action = passed_on(&form.action).to_owned();
    let answer = browser.submit(&form, &[("credential", credential)]).await.is(303);
    assert_eq!(answer.has("location"), "/tools-host/dashboard/account");
    let cookie = answer.has("set-cookie");
    assert!(cookie.starts_with("__Secure-") && cookie.contains("; Path=/tools-host/dashboard; "), "{cookie}");
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    browser
}

#[tokio::test]
async fn every_address_of_every_page_leads_below_it() {
    let host = host().await;
    let (_, key) = host.register("Maker").await;
    let logs = "async function handler(request, ctx) { ctx.log.info('a'); return 1; }";
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("below", 0.0, logs)).await.is(200);
    host.call("below", &json!({})).await.is(200);
    let nobody = Browser::new(&host);
    let (builder, admin) = (signed_in(&host, &key).await, signed_in(&host, &host.admin).await);
    for (browser, first) in [(&nobody, "/dashboard"), (&builder, "/dashboard/home"), (&admin, "/dashboard/admin")] {
        let (mut seen, mut open) = (BTreeSet::new(), vec![format!("{PATH}{first}")]);
        while let Some(address) = open.pop() {
            if !seen.insert(address.clone()) {
                continue;
            }
            let answer = browser.get(passed_on(&address)).await;
            if matches!(answer.status, 303 | 307) {
                open.push(answer.has("location").to_owned());
                continue;
            }
            assert_eq!(answer.status, 200, "{address}: {answer:?}");
            if !answer.has("content-type").starts_with("text/html") {
                continue;
            }
            let page = html(&answer);
            for link in ["href", "src"].into_iter().flat_map(|attribute| values(&page, attribute)) {
                let link = link.split('#').next().unwrap();
                if link.starts_with('/') {
                    open.push(link.to_owned());
                } else {
                    assert!(link.is_empty() || link.starts_with('?') || link.starts_with("https://"), "{address} links to {link}");
                }
            }
            for address in ["action", "formaction", "data-live", "data-page", "data-rows"].into_iter().flat_map(|name| values(&page, name))
            {
                passed_on(&address);
            }
        }
        assert!(seen.len() > 10, "{seen:?}");
    }
}

#[tokio::test]
async fn forms_scripts_and_streams_go_below_it() {
    let host = host().await;
    let (_, key) = host.register("Maker").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("below", 0.0, "() => 1")).await.is(200);
    let browser = signed_in(&host, &key).await;
    let pause = [("csrf", ""), ("path:slug", "below"), ("text:/status", "paused"), ("back", "/dashboard/tools/below/settings")];
    let token = form(&browser.page("/dashboard/account").await, "/tools-host/dashboard/sign-out").fields[0].1.clone();
    let fields: Vec<_> = pause.iter().map(|(name, value)| (*name, if *name == "csrf" { &*token } else { *value })).collect();
    let answer = browser.post("/dashboard/do/updateEndpoint", &fields).await.is(303);
    assert!(answer.has("location").starts_with("/tools-host/dashboard/tools/below/settings?done="), "{answer:?}");
    let answer = browser.post("/dashboard/api/do/updateEndpoint", &fields).await.is(200).json();
    assert!(answer["to"].as_str().unwrap().starts_with("/tools-host/dashboard/tools/below/settings?done="), "{answer}");

    let page = browser.page("/dashboard/tools/below/log").await;
    let live = values(&page, "data-live").pop().unwrap();
    browser.get(passed_on(&live)).await.is(200);
    for script in values(&page, "src").iter().chain(&values(&browser.page("/dashboard/tools/below/try").await, "src")) {
        let text = String::from_utf8(host.get(passed_on(script)).await.is(200).body.to_vec()).unwrap();
        assert!(!text.contains("fetch(\"/") && !text.contains("fetch(`/"), "{script} makes requests outside of the host");
    }
    let nobody = Browser::new(&host).get("/dashboard/account").await.is(303);
    assert_eq!(nobody.has("location"), "/tools-host/dashboard/sign-in?to=%2Fdashboard%2Faccount");
    let refused = html(&Browser::new(&host).get("/dashboard/nothing").await.is(404));
    assert!(values(&refused, "href").contains(&"/tools-host/dashboard".to_owned()), "{refused}");
}
