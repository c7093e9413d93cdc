//! The first day of a builder, with the command line only.

use std::{fs, time::Duration};

use super::{
    devs::Dev,
    folders::{edit, installed},
    harness::Shell,
};
use crate::harness::{Host, eventually};

#[tokio::test]
async fn builder_begins_tries_publishes_and_earns_by_the_command_line_alone() {
    // On the development host: a working tool, an error, a package.
    let home = Shell::new();
    home.run(&["init", "shout"]).await.is(0);
    let folder = home.home().join("shout");
    installed(&folder, &["esbuild", "typescript"]).await;
    let mut dev = Dev::start(&home, &folder, &[]);
    dev.wait_for("cases 3/3").await;
    edit(&folder, "handler.ts", "text.toUpperCase()", "text.toUpperCas()");
    dev.wait_for("handler.ts:4:23  Property 'toUpperCas' does not exist").await;
    dev.wait_for("cases 2/3").await;
    installed(&folder, &["ms", "@types/ms"]).await;
    edit(&folder, "handler.ts", "export default", "import ms from \"ms\";\n\nexport default");
    edit(&folder, "handler.ts", "text.toUpperCas()", "text.toUpperCase() + (text === \"2h\" ? ms(\"2h\") : \"\")");
    dev.wait_for("cases 3/3").await;
    let paid = home.run_in(&folder, &["call", "shout", "--json", r#"{"text":"2h"}"#]).await.is(0);
    assert!(paid.stdout.contains("2H7200000") && paid.stderr.contains("$0.01 (simulated)"), "{paid:?}");
    dev.wait_for("$0.01 settled (simulated)  rcpt_").await;
    home.run_in(&folder, &["check"]).await.is(0).stderr_text("…\ntypes   ok\ncases   3/3");

    // On another host, whose admin reviews the requested capabilities.
    let host = Host::start().await;
    let admin = Shell::admin(&host);
    let credit = admin.json(&["credits", "mint", "10"]).await["credit"].as_str().unwrap().to_owned();
    let registered = Shell::at(&host.url).env("TOLLHOUSE_CREDIT", &credit).json(&["register", "Toolsmith"]).await;
    let key = registered["builderKey"].as_str().unwrap();
    let expected = format!("stored the builder key of {} for profile prod (Toolsmith)", host.url);
    home.given(&format!("{key}\n"), &["login", "--url", &host.url, "--profile", "prod"]).await.is(0).stderr_text(&expected);
    // From here on the profile is used: the folder knows its host only after the first publication
    // there.
    let builder = home;
    let asks = "\"capabilities\": { \"logs\": true, \"httpGetJson\": true },\n  \"allowedHosts\": [\"api.example.com\"]";
    edit(&folder, "tool.json", "\"capabilities\": { \"logs\": true }", asks);
    let deploy = ["deploy", "--yes", "--attest"];
    let published = builder.run_in(&folder, &[&deploy[..], &["--profile", "prod"]].concat()).await.is(0);
    assert!(
        published.stdout.contains(&format!("shout → {}  (profile prod, ", host.url))
            && published.stdout.contains("revision 1, in ")
            && published.stdout.contains("waiting for an admin: httpGetJson"),
        "{published:?}"
    );
    assert!(admin.run(&["reviews"]).await.is(0).stdout.contains("shout"));
    admin.run(&["reviews", "approve", "shout", "--yes", "--onto", "1"]).await.is(0);
    let granted = builder.json(&["show", "shout"]).await;
    assert_eq!(granted["endpoint"]["capabilities"]["httpGetJson"], true);

    // A payer calls it.
    let payer = Shell::at(&host.url);
    payer.run(&["key", "new"]).await.is(0);
    payer.run(&["key", "fund", "1"]).await.is(0);
    let answer = payer.run(&["call", "shout", "--json", r#"{"text":"2h"}"#]).await.is(0);
    assert!(answer.stdout.contains("2H7200000"), "{answer:?}");

    // The results.
    eventually("the call is shown", Duration::from_secs(20), async || {
        let logged = builder.run(&["logs", "shout", "--since", "1h"]).await.is(0);
        logged.stdout.contains("shouting").then_some(())
    })
    .await;
    builder.run_in(&folder, &["pull"]).await.is(0);
    fs::write(folder.join("handler.ts"), "export default () => ({ text: \"worse\" });\n").unwrap();
    builder.run_in(&folder, &deploy).await.is(0);
    builder.run(&["rollback", "shout"]).await.is(0);
    let answer = payer.run(&["call", "shout", "--json", r#"{"text":"hi"}"#]).await.is(0);
    assert!(answer.stdout.contains("HI"), "{answer:?}");
    let revenue = eventually("both sales are counted", Duration::from_secs(20), async || {
        let revenue = builder.json(&["revenue"]).await;
        (revenue["totals"]["paidCalls"] == 2).then_some(revenue)
    })
    .await;
    assert_eq!(revenue["byEndpoint"][0]["netUsd"], 0.019, "{revenue}");
    assert_eq!(dev.end(rustix::process::Signal::TERM).await, Some(0));
}
