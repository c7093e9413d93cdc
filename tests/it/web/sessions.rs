//! Sign-in, the rights of a session, and its end.

use reqwest::Method;
use serde_json::json;

use super::{
    browser::{Browser, Form, form, forms},
    html, text, values,
};
use crate::{
    harness::{Host, js, stream::Stream},
    revenue::tool,
};

#[tokio::test]
async fn each_credential_opens_its_own_pages() {
    let host = Host::start().await;
    let (id, key) = host.register("A builder").await;
    let credit = host.mint(1.0).await;
    for (credential, home, message) in [
        (key.as_str(), "/dashboard/home", vec!["builder", "A builder", id.as_str()]),
        (credit.as_str(), "/dashboard/credit", vec!["holder of a developer credit"]),
        (host.admin.as_str(), "/dashboard/admin", vec!["admin of this host"]),
    ] {
        let answer = Browser::new(&host).post("/dashboard/session", &[("credential", credential)]).await.is(303);
        assert_eq!(answer.has("location"), home);
        let cookie = answer.has("set-cookie");
        assert!(cookie.ends_with("; Path=/dashboard; HttpOnly; SameSite=Lax") && !cookie.contains(credential), "{cookie}");
        let browser = Browser { host: &host, cookie: cookie.split(';').next().map(str::to_owned) };
        let page = browser.get("/dashboard/account").await.is(200);
        assert_eq!(page.has("cache-control"), "no-store");
        let page = html(&page);
        assert!(message.iter().all(|message| text(&page).contains(message)), "{page}");
        assert!(!page.contains(credential), "a page has the credential in it");
    }
}

#[tokio::test]
async fn visitor_is_asked_to_sign_in_and_returns() {
    let host = Host::start().await;
    let browser = Browser::new(&host);
    let sent = browser.get("/dashboard/account?a=b").await.is(303);
    assert_eq!(sent.has("location"), "/dashboard/sign-in?to=%2Fdashboard%2Faccount%3Fa%3Db");
    let page = browser.page(sent.has("location")).await;
    let answer = browser.submit(&form(&page, "/dashboard/session"), &[("credential", &host.admin)]).await.is(303);
    assert_eq!(answer.has("location"), "/dashboard/account?a=b");
    for elsewhere in [
        "https://evil.example",
        "//evil.example/dashboard",
        "/dashboard/../tools/x",
        "/dashboard/%2e%2e/tools/x",
        "/dashboard\\..",
        "/assets/x",
        "javascript:alert(1)",
    ] {
        let answer = browser.post("/dashboard/session", &[("credential", &host.admin), ("to", elsewhere)]).await.is(303);
        assert_eq!(answer.has("location"), "/dashboard/admin", "{elsewhere}");
    }
}

#[tokio::test]
async fn a_wrong_credential_opens_nothing_and_is_counted() {
    let host = Host::builder().flag("--auth-failures", 5).start().await;
    let (_, key) = host.register("A builder").await;
    let browser = Browser::new(&host);
    for wrong in ["bk_no_key", "dc_no_credit", "no token", "", &format!("{key}x")] {
        let answer = browser.post("/dashboard/session", &[("credential", wrong)]).await.is(401);
        assert_eq!(answer.header("set-cookie"), None);
        assert!(text(&html(&answer)).contains("Invalid credential"));
    }
    let answer = browser.post("/dashboard/session", &[("credential", &key), ("to", "/dashboard/events")]).await.is(429);
    assert!(answer.header("set-cookie").is_none(), "{answer:?}");
    let seconds = answer.has("retry-after").parse::<u64>().unwrap();
    let page = html(&answer);
    assert!(text(&page).contains(&format!("Try again in {seconds} second")), "when again: {page}");
    assert!(form(&page, "/dashboard/session").fields.contains(&("to".to_owned(), "/dashboard/events".to_owned())));
}

#[tokio::test]
async fn error_page_shows_who_is_signed_in() {
    let host = Host::start().await;
    let browser = Browser::signed_in(&host, &host.admin).await;
    for (path, status) in [("/dashboard/tools/nothing", 404), ("/dashboard/nothing", 404), ("/dashboard/session", 405)] {
        let answer = browser.get(path).await.is(status);
        assert_eq!(answer.has("cache-control"), "no-store");
        let page = html(&answer);
        assert!(page.contains("href=\"/dashboard/admin/audit\"") && !page.contains("/dashboard/sign-in"), "{path}: {page}");
        assert!(html(&Browser::new(&host).get(path).await.is(status)).contains("/dashboard/sign-in"));
    }
}

/// Returns the fields of a form that repeats an earlier one, without its own token.
fn sent(form: &Form) -> Vec<(&str, &str)> {
    form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(|(name, _)| *name != "csrf").collect()
}

#[tokio::test]
async fn form_of_an_expired_session_is_sent_by_the_next_one() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let written = format!("{}<b>", "0123456789\n".repeat(20_000));
    let fields = [("title", "T"), ("source", written.as_str()), ("do", "check"), ("capabilities", "logs"), ("capabilities", "kv")];
    let ended = Browser { host: &host, cookie: Browser::signed_in(&host, &key).await.cookie };
    let other = Browser::signed_in(&host, &key).await;
    let page = other.page("/dashboard/account").await;
    let token = form(&page, "/dashboard/sign-out").fields[0].1.clone();
    other.post("/dashboard/sessions/end", &[("csrf", &token)]).await.is(303);

    for browser in [&ended, &Browser::new(&host)] {
        let page = html(&browser.post("/dashboard/new", &fields).await.is(401));
        assert!(text(&page).contains("This page keeps your form"), "{}", &page[..2_000]);
        let carries = form(&page, "/dashboard/session");
        let wrong = html(&browser.submit(&carries, &[("credential", "bk_no_key")]).await.is(401));
        let answer = browser.submit(&form(&wrong, "/dashboard/session"), &[("credential", &key)]).await.is(200);
        let signed_in = Browser { host: &host, cookie: answer.has("set-cookie").split(';').next().map(str::to_owned) };
        let again = form(&html(&answer), "/dashboard/new");
        assert_eq!(sent(&again), fields, "as it was sent");
        let done = html(&signed_in.submit(&again, &[]).await.is(422));
        assert!(values(&done, "value").contains(&"T".to_owned()) && text(&done).contains("0123456789"), "the form, filled in");
    }
}

#[tokio::test]
async fn a_form_of_an_earlier_session_is_sent_again_by_the_one_there_is() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let browser = Browser::signed_in(&host, &key).await;
    let old = form(&browser.page("/dashboard/account").await, "/dashboard/sign-out").fields[0].1.clone();
    let browser = Browser::signed_in(&host, &key).await;
    let settings = [("text:/address", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"), ("back", "/dashboard/payouts")];
    let fields: Vec<_> = [("csrf", &*old)].into_iter().chain(settings).collect();
    let page = html(&browser.post("/dashboard/do/setPayoutSettings", &fields).await.is(403));
    let again = form(&page, "/dashboard/do/setPayoutSettings");
    assert_eq!(sent(&again), settings);
    let shown = host.as_builder(&key, Method::GET, "/ai/builders/payout-settings", &json!(null)).await.json();
    assert!(shown["payoutSettings"].is_null(), "nothing was done: {shown}");
    let done = browser.submit(&again, &[]).await.is(303);
    assert!(done.has("location").starts_with("/dashboard/payouts?done="), "{done:?}");
}

/// A page that preserves the fields would be a hundred times as long as they are.
#[tokio::test]
async fn a_form_of_very_many_fields_is_refused() {
    let host = Host::start().await;
    for (many, status) in [(4_096, 401), (4_097, 400)] {
        Browser::new(&host).post("/dashboard/new", &vec![("a", ""); many]).await.is(status);
    }
}

/// When they are preserved, the fields have longer names, and there are additional fields.
#[tokio::test]
async fn the_largest_form_goes_through_the_sign_in_that_carries_it_on() {
    const MAX_BYTES: usize = 1 << 20;
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let (browser, long) = (Browser::new(&host), "a".repeat(MAX_BYTES));
    let (one, many) = (&long["source=".len()..], &long[..MAX_BYTES / 4_096 - "a=&".len()]);
    for fields in [vec![("source", one)], vec![("a", many); 4_096]] {
        let page = html(&browser.post("/dashboard/new", &fields).await.is(401));
        let wrong = html(&browser.submit(&form(&page, "/dashboard/session"), &[("credential", "bk_no_key")]).await.is(401));
        let answer = browser.submit(&form(&wrong, "/dashboard/session"), &[("credential", &key)]).await.is(200);
        assert!(sent(&form(&html(&answer), "/dashboard/new")) == fields, "as it was sent");
    }
    browser.post("/dashboard/new", &[("source", one), ("a", "")]).await.is(413);
}

#[tokio::test]
async fn a_secret_is_typed_again_after_a_session_has_ended() {
    let host = Host::start().await;
    let fields = [("path:slug", "x"), ("text:/name", "A"), ("text:/value", "hush-hush")];
    let answer = Browser::new(&host).post("/dashboard/do/setSecret", &fields).await.is(401);
    assert!(!html(&answer).contains("hush"), "{answer:?}");
    // The same applies if the key was replaced meanwhile. Scripts get an error, and no redirect.
    let (_, key) = host.register("A builder").await;
    let browser = Browser::signed_in(&host, &key).await;
    let token = form(&browser.page("/dashboard/account").await, "/dashboard/sign-out").fields[0].1.clone();
    host.as_builder(&key, Method::POST, "/ai/builders/keys", &json!(null)).await.is(200);
    let fields = [("csrf", &*token), ("text:/address", "0x0"), ("back", "/dashboard/payouts")];
    browser.post("/dashboard/api/do/setPayoutSettings", &fields).await.fails(401, "unauthorized", "caller");
    let page = html(&browser.post("/dashboard/do/setPayoutSettings", &fields).await.is(401));
    let carries = form(&page, "/dashboard/session");
    assert!(carries.fields.contains(&("sent:text:/address".to_owned(), "0x0".to_owned())), "{page}");
    assert!(carries.fields.contains(&("to".to_owned(), "/dashboard/payouts".to_owned())));
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_when_it_is_reported_to() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let (here, there, third) =
        (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &key).await);
    let page = here.page("/dashboard/account").await;
    assert_eq!(page.matches("action=\"/dashboard/sessions/end\"").count(), 3, "two others, and all of them");
    here.submit(&form(&page, "/dashboard/sessions/end"), &[]).await.is(303);
    let open = [there.get("/dashboard/account").await.status, third.get("/dashboard/account").await.status];
    assert!(open == [200, 303] || open == [303, 200], "{open:?}");
    here.fill("/dashboard/account", "/dashboard/sign-out", &[]).await.is(303);
    here.get("/dashboard/account").await.is(303);

    let remaining = if open[0] == 200 { there } else { third };
    let answer = remaining.fill("/dashboard/account", "/dashboard/do/rotateBuilderKey", &[]).await.is(200);
    assert_eq!(answer.has("cache-control"), "no-store");
    let shown = text(&html(&answer));
    let new = shown.split("bk_").nth(1).map(|rest| format!("bk_{}", rest.split("Copy").next().unwrap())).unwrap();
    host.as_builder(&new, Method::GET, "/ai/builders/me", &json!(null)).await.is(200);
    assert_eq!(remaining.get("/dashboard/account").await.is(303).has("location"), "/dashboard/sign-in?to=%2Fdashboard%2Faccount");
    let again = Browser::signed_in(&host, &new).await;
    assert!(again.page("/dashboard/account").await.contains("Sessions"));
    again.post("/dashboard/sessions/end", &[]).await.is(403);
    let page = again.page("/dashboard/account").await;
    let csrf = form(&page, "/dashboard/sign-out").fields;
    again.post("/dashboard/sessions/end", &[("csrf", &csrf[0].1)]).await.is(303);
    again.get("/dashboard/account").await.is(303);
}

#[tokio::test]
async fn live_log_ends_with_its_session() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let logger = tool("logger", 0.0, "export default (req, ctx) => { ctx.log.info(`call ${req.input.n}`); return {}; };");
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &logger).await.is(200);
    let (browser, other) = (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &key).await);
    let mut streams = vec![];
    for signed_in in [&browser, &other] {
        let request = host.request(Method::GET, "/dashboard/api/ai/endpoints/logger/logs");
        streams.push(Stream::open(request.header("cookie", signed_in.cookie.as_deref().unwrap())).await);
    }
    host.call("logger", &json!({ "n": 1 })).await.is(200);
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().data["message"], "call 1");
    }
    browser.fill("/dashboard/account", "/dashboard/sign-out", &[]).await.is(303);
    host.call("logger", &json!({ "n": 2 })).await.is(200);
    let last = streams[0].next().await.unwrap();
    assert_eq!((last.name.as_str(), &last.data["error"]["code"]), ("error", &json!("unauthorized")), "{last:?}");
    assert!(streams[0].next().await.is_none(), "nothing comes after the error");
    assert_eq!(streams[1].next().await.unwrap().data["message"], "call 2", "the other session is open");
}

#[tokio::test]
async fn sessions_outlive_a_restart_and_not_another_admin_token() {
    let mut host = Host::start().await;
    let cookie = Browser::signed_in(&host, &host.admin).await.cookie;
    host.restart().await;
    // The port has changed, and with it the name of the cookie.
    let (_, token) = cookie.as_deref().unwrap().split_once('=').unwrap();
    let port = host.url.rsplit(':').next().unwrap().to_owned();
    let browser = Browser { host: &host, cookie: Some(format!("tollhouse-{port}={token}")) };
    assert!(browser.page("/dashboard/account").await.contains("admin of this host"));
}

/// The description of a request, its headers, and its body.
type Forged<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// Requests that a page of another site causes, or that somebody makes who cannot read the
/// session's pages.
#[tokio::test]
async fn forged_requests_change_nothing() {
    let host = Host::start().await;
    host.publish(&js("victim", 0.0, "async function handler() { return 1; }")).await;
    let browser = Browser::signed_in(&host, &host.admin).await;
    let page = browser.page("/dashboard/account").await;
    let token = form(&page, "/dashboard/sign-out").fields[0].1.clone();
    let other = Browser::signed_in(&host, &host.admin).await.page("/dashboard/account").await;
    let of_other = form(&other, "/dashboard/sign-out").fields[0].1.clone();
    let fields = format!("csrf={token}&name=x");
    let forged: [Forged<'_>; 10] = [
        ("cross-site", &[("sec-fetch-site", "cross-site")], &fields),
        ("another port", &[("sec-fetch-site", "same-site")], &fields),
        ("no page at all", &[("sec-fetch-site", "none")], &fields),
        ("sandboxed", &[("sec-fetch-site", "cross-site"), ("origin", "null")], &fields),
        ("no headers", &[], &fields),
        ("another origin", &[("origin", "http://evil.example")], &fields),
        ("the origin of another port", &[("origin", "http://127.0.0.1:1")], &fields),
        ("rebound", &[("sec-fetch-site", "same-origin"), ("host", "evil.example")], &fields),
        ("no token", &[("sec-fetch-site", "same-origin")], "name=x"),
        ("the token of another session", &[("sec-fetch-site", "same-origin")], &format!("csrf={of_other}&name=x")),
    ];
    for (what, headers, body) in &forged {
        for path in ["/dashboard/sign-out", "/dashboard/sessions/end", "/dashboard/do/deleteEndpoint", "/dashboard/api/do/deleteEndpoint"] {
            let mut request = browser.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            host.send(request.body((*body).to_owned())).await.is(403);
            browser.get("/dashboard/account").await.is(200);
            assert!(!what.is_empty());
        }
    }
    // Also as GET, and as scripts send them.
    browser.get("/dashboard/sign-out").await.is(405);
    let script = |headers: &[(&str, &str)]| {
        let request = browser.request(Method::DELETE, "/dashboard/api/ai/endpoints/victim");
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    for headers in [
        &[("sec-fetch-site", "cross-site"), ("x-csrf-token", &*token)][..],
        &[("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "same-origin"), ("x-csrf-token", &*of_other)],
    ] {
        host.send(script(headers)).await.is(403);
    }
    host.get("/ai/endpoints/victim").await.is(200);
    let audit = host.manage(Method::GET, "/ai/admin/audit", &json!(null)).await.is(200).json();
    assert!(!audit.to_string().contains("DELETE"), "{audit}");
    host.send(script(&[("sec-fetch-site", "same-origin"), ("x-csrf-token", &token)])).await.is(200);
    host.get("/ai/endpoints/victim").await.is(404);
}

#[tokio::test]
async fn scripts_reach_the_api_of_management_with_the_session_alone() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let browser = Browser::signed_in(&host, &key).await;
    let answer = browser.get("/dashboard/api/ai/builders/me").await.is(200);
    assert_eq!((answer.json()["builder"]["name"].as_str(), answer.has("cache-control")), (Some("A builder"), "no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), None, "no page of another origin reads it");
    browser.get("/dashboard/api/ai/admin/policy").await.fails(403, "not_owner", "caller");
    for path in [
        "/dashboard/api/tools/x",
        "/dashboard/api/ai/invoke",
        "/dashboard/api/ai/mcp",
        "/dashboard/api/dev/faucet",
        "/dashboard/api/dashboard",
    ] {
        browser.get(path).await.fails(404, "not_found", "caller");
    }
    let nobody = Browser::new(&host);
    nobody.get("/dashboard/api/ai/builders/me").await.fails(401, "unauthorized", "caller");
    browser.get("/dashboard/api/ai/nothing").await.fails(404, "not_found", "caller");
    browser.post("/dashboard/api/do/getHealth", &[]).await.fails(403, "forbidden", "caller");
}

#[tokio::test]
async fn a_builder_registers_once_by_a_form_and_signs_in() {
    let host = Host::start().await;
    let credit = host.mint(2.0).await;
    let browser = Browser::new(&host);
    let page = browser.page("/dashboard/register").await;
    assert!(text(&page).contains("Registration costs $1 simulated once"), "{page}");
    let who = [("text:/name", "Somebody <b>"), ("some:/contact", "")];
    let terms = html(&browser.submit(&form(&page, "/dashboard/register"), &who).await.is(200));
    let options: Vec<_> = forms(&terms).into_iter().filter(|form| form.action == "/dashboard/do/registerBuilder").collect();
    let [play, credited] = options.try_into().unwrap();
    let filled = [("header:x-developer-credit", &*credit)];
    let wrong = browser.submit(&credited, &[("header:x-developer-credit", "dc_none_x")]).await;
    assert_eq!((wrong.status, host.credit_balance(&credit).await), (401, 2_000_000), "{wrong:?}");
    assert!(text(&html(&wrong)).contains("No developer credit has this token"), "{wrong:?}");
    let answers = [browser.submit(&credited, &filled).await.is(200), browser.submit(&credited, &filled).await.is(200)];
    assert_eq!(host.credit_balance(&credit).await, 1_000_000, "sent twice, it is paid once");
    let shown = text(&html(&answers[1]));
    let key = shown.split("bk_").nth(1).map(|rest| format!("bk_{}", rest.split("Copy").next().unwrap())).unwrap();
    let account = Browser::signed_in(&host, &key).await.page("/dashboard/account").await;
    assert!(text(&account).contains("Somebody <b>") && !account.contains("<b>"), "{account}");

    for _ in 0..2 {
        let shown = text(&html(&browser.submit(&play, &[]).await.is(200)));
        assert!(shown.contains("bk_"), "{shown}");
    }
    let builders = host.manage(Method::GET, "/ai/admin/builders", &json!(null)).await.is(200).json();
    assert_eq!(builders["builders"].as_array().unwrap().len(), 2, "one by credit, one by play money: {builders}");

    let free = Host::builder().flag("--registration-price-usd", 0).start().await;
    let browser = Browser::new(&free);
    let answer = browser.fill("/dashboard/register", "/dashboard/do/registerBuilder", &[("text:/name", "Free")]).await.is(200);
    assert!(text(&html(&answer)).contains("bk_"));
}

#[tokio::test]
async fn a_link_signs_one_browser_in() {
    let host = Host::start().await;
    let (_, key) = host.register("A builder").await;
    let link = host.as_builder(&key, Method::POST, "/ai/builders/sign-in-links", &json!(null)).await.is(200).json();
    let path = link["url"].as_str().unwrap().strip_prefix(&host.url).unwrap().to_owned();
    assert!(!path.contains(&key));
    let browser = Browser::new(&host);
    let page = browser.page(&path).await;
    browser.page(&path).await;
    let form = form(&page, "/dashboard/session");
    let answer = browser.submit(&form, &[]).await.is(303);
    assert_eq!(answer.has("location"), "/dashboard/home");
    let signed_in = Browser { host: &host, cookie: answer.has("set-cookie").split(';').next().map(str::to_owned) };
    assert!(text(&signed_in.page("/dashboard/account").await).contains("A builder"));
    browser.submit(&form, &[]).await.is(401);
    // The token of a link is not valid as a session cookie.
    let (name, _) = signed_in.cookie.as_deref().unwrap().split_once('=').unwrap();
    let other = host.manage(Method::POST, "/ai/builders/sign-in-links", &json!(null)).await.is(200).json();
    let (_, token) = other["url"].as_str().unwrap().split_once("link=").unwrap();
    Browser { host: &host, cookie: Some(format!("{name}={token}")) }.get("/dashboard/account").await.is(303);
}

/// Returns a token with the form of an admin's session or link, which is not valid.
fn forged(owner: &str, n: usize) -> String {
    format!("{owner}.{:A<22}.{}A", n, "B".repeat(42))
}

#[tokio::test]
async fn page_of_a_link_names_an_account_only_if_the_link_works() {
    let host = Host::start().await;
    let browser = Browser::new(&host);
    for link in [forged("link_admin", 100), forged("admin", 100), "link_admin".to_owned(), String::new()] {
        let page = text(&browser.page(&format!("/dashboard/sign-in?link={link}")).await);
        assert!(page.contains("This link is not valid") && !page.contains("signs you in as"), "{link}: {page}");
    }
    let made = host.manage(Method::POST, "/ai/builders/sign-in-links", &json!({})).await.is(200).json();
    let path = made["url"].as_str().unwrap().strip_prefix(&host.url).unwrap().to_owned();
    for _ in 0..2 {
        assert!(text(&browser.page(&path).await).contains("signs you in as admin"), "looking does not use it");
    }
    let page = browser.page(&path).await;
    assert_eq!(browser.submit(&form(&page, "/dashboard/session"), &[]).await.is(303).has("location"), "/dashboard/admin");
    assert!(text(&browser.page(&path).await).contains("This link is not valid"), "it was used");
}

#[tokio::test]
async fn cookies_of_other_ports_sign_nobody_out() {
    let host = Host::start().await;
    let mut browser = Browser::signed_in(&host, &host.admin).await;
    let right = browser.cookie.take().unwrap();
    let (name, _) = right.split_once('=').unwrap();
    let others: Vec<_> = (100..500).map(|n| format!("{name}={}", forged("admin", n))).collect();
    for cookie in [format!("{}; {right}", others.join("; ")), format!("{right}; {}", others.join("; "))] {
        browser.cookie = Some(cookie);
        assert!(text(&browser.page("/dashboard/account").await).contains("admin of this host"));
    }
}

#[tokio::test]
async fn long_form_of_an_address_that_guesses_is_not_carried_on() {
    let host = Host::builder().flag("--auth-failures", 1).start().await;
    let browser = Browser::new(&host);
    let long = "a".repeat(3 << 20);
    let fields = [("credential", "wrong"), ("again", "/dashboard/new"), ("sent:text:/title", &*long)];
    assert!(browser.post("/dashboard/session", &fields).await.is(401).body.len() > long.len());
    let answer = browser.post("/dashboard/session", &fields).await.is(429);
    assert!(answer.body.len() < 64 << 10 && answer.header("retry-after").is_some(), "{} bytes", answer.body.len());
}
