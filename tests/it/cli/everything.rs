//! Completeness: every operation in the table is used by a command, or is on the list below with
//! its reason. Every command with output has output for programs.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::http::rows;

use super::harness::{Shell, Wire};
use crate::harness::{Host, Payer, js};

/// Operations that no command in these tests uses, and the reasons.
const ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "documents and pictures, for browsers and for programs that read",
        &[
            "getAiCatalog",
            "getDocs",
            "getDocsIndex",
            "getIcon",
            "getLlmsTxt",
            "getOpenApi",
            "getResources",
            "getRobots",
            "getSign",
            "getToolTypes",
            "getWholeOpenApi",
            "listToolsAsText",
            "searchDocs",
        ],
    ),
    ("for what keeps the process running, and what measures it", &["isLive", "scrapeMetrics"]),
    ("MCP is another way in, for clients of its own", &["speakMcp", "getServerCard"]),
    (
        "`call` and `key`: what is paid, and by whom",
        &[
            "callTool",
            "challengeTool",
            "inspectTool",
            "invokeTool",
            "quoteTool",
            "quoteConversion",
            "quoteSeller",
            "fundAddress",
            "getBalance",
        ],
    ),
    ("`deploy`, `check` and `dev`: what is made of a folder", &["createEndpoint", "checkEndpoint", "runEndpoint"]),
];

/// Returns the id of the requested operation.
fn operation(method: &str, path: &str) -> Option<&'static str> {
    let rows = rows();
    let fits = |template: &str| {
        let (of, at): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        of.len() == at.len() && of.iter().zip(&at).all(|(of, at)| of == at || of.starts_with('{') && !at.is_empty())
    };
    // A literal path takes precedence over one with a parameter.
    let of_path = rows.iter().filter(|row| row.method == method && fits(row.path));
    of_path.min_by_key(|row| row.path.contains('{')).map(|row| row.id)
}

/// A host behind a recording proxy, with its users.
struct Story {
    host: Host,
    wire: Wire,
    admin: Shell,
}

impl Story {
    /// Returns the JSON output of a command.
    async fn of(&self, shell: &Shell, words: &[&str]) -> Value {
        let answer = shell.json(words).await;
        assert!(answer.is_object(), "{words:?}: {answer}");
        answer
    }

    async fn admin(&self, words: &[&str]) -> Value {
        self.of(&self.admin, words).await
    }

    fn shell(&self) -> Shell {
        Shell::at(&self.wire.url)
    }
}

#[tokio::test]
async fn every_operation_is_reached_by_a_command_that_programs_can_read() {
    let host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let wire = Wire::to(&host.url).await;
    let admin = Shell::at(&wire.url).env("TOLLHOUSE_ADMIN_TOKEN", &host.admin);
    let story = Story { host, wire, admin };
    let (credit, key) = credits(&story).await;
    let builder = story.shell().env("TOLLHOUSE_BUILDER_KEY", &key);
    endpoints(&story, &builder, &key).await;
    money(&story, &builder, &credit).await;
    admins(&story).await;
    accounts(&story, &builder, &key).await;

    let reached: BTreeSet<_> = story.wire.asked().iter().filter_map(|(method, path)| operation(method, path)).collect();
    let elsewhere: BTreeSet<_> = ELSEWHERE.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    let all: BTreeSet<_> = rows().iter().map(|row| row.id).collect();
    let missing: Vec<_> = all.iter().filter(|id| !reached.contains(*id) && !elsewhere.contains(*id)).collect();
    assert!(missing.is_empty(), "no command reaches {missing:?}");
    let both: Vec<_> = elsewhere.iter().filter(|id| reached.contains(*id)).collect();
    assert!(both.is_empty(), "{both:?} have a command, and need no reason");
}

async fn credits(story: &Story) -> (String, String) {
    let minted = story.admin(&["credits", "mint", "20", "--label", "agent", "--once", "mint-0001-0001-0001"]).await;
    let (id, token) = (minted["creditId"].as_str().unwrap(), minted["credit"].as_str().unwrap());
    let holder = story.shell().env("TOLLHOUSE_CREDIT", token);
    assert_eq!(story.admin(&["credits", "top-up", id, "5"]).await["balanceUsd"], 25);
    assert_eq!(story.of(&holder, &["credits"]).await["creditId"], id);
    assert_eq!(story.of(&holder, &["credits", "budget", "--per-day", "9"]).await["budget"]["perDayUsd"], 9);
    let frozen = story.admin(&["credits", "budget", id, "--frozen"]).await;
    assert_eq!(frozen["budget"], json!({ "perDayUsd": 9, "frozen": true }));
    story.admin(&["credits", "budget", id, "--none"]).await;
    let listed = story.admin(&["credits", "list"]).await;
    assert_eq!(listed["credits"].as_array().unwrap().len(), 1);
    let other = story.admin(&["credits", "mint", "1"]).await["creditId"].as_str().unwrap().to_owned();
    assert_eq!(story.admin(&["credits", "revoke", &other, "--reason", "leaked", "--yes"]).await["balanceUsd"], 0);
    story.admin(&["credits", "restore", &other, "--yes"]).await;
    let registered = story.of(&holder, &["register", "Toolsmith", "--contact", "hello@toolsmith.example"]).await;
    assert_eq!(story.of(&holder, &["credits"]).await["movements"][0]["kind"], "debit");
    (token.to_owned(), registered["builderKey"].as_str().unwrap().to_owned())
}

async fn endpoints(story: &Story, builder: &Shell, key: &str) {
    let host = &story.host;
    host.as_builder(key, Method::POST, "/ai/endpoints/create", &js("shout", 0.25, "export default () => 1;")).await.is(200);
    let version = json!({ "handler": { "language": "js", "source": "export default (req, ctx) => { ctx.log.info('two'); return 2; };" } });
    host.as_builder(key, Method::PATCH, "/ai/endpoints/shout", &version).await.is(200);
    for words in [
        &["whoami"][..],
        &["list"],
        &["list", "--public"],
        &["show", "shout"],
        &["show", "shout", "--source"],
        &["versions", "shout"],
        &["rollback", "shout"],
        &["pause", "shout"],
        &["resume", "shout"],
        &["logs", "shout"],
        &["calls", "shout"],
        &["events"],
        &["metrics", "shout"],
        &["metrics", "shout", "--public"],
        &["secrets", "list", "--slug", "shout"],
        &["open"],
    ] {
        story.of(builder, words).await;
    }
    let set = builder.given("value-of-it", &["secrets", "set", "A", "--slug", "shout", "--json"]).await.is(0);
    assert_eq!(serde_json::from_str::<Value>(&set.stdout).unwrap()["secrets"][0]["name"], "A");
    story.of(builder, &["secrets", "rm", "A", "--slug", "shout"]).await;
}

async fn money(story: &Story, builder: &Shell, credit: &str) {
    let host = &story.host;
    let by_credit = host.call_credit("shout", &json!({}), credit).await.is(200).receipt_id();
    let payer = Payer::funded(host, 1.0).await;
    let paid = payer.pay(&host.challenge("shout").await);
    host.call_paid("shout", &json!({}), &paid).await.is(200);
    assert_eq!(story.of(&story.shell(), &["payment", &paid.id()]).await["payment"]["state"], "settled");
    assert_eq!(story.of(&story.shell(), &["receipt", &by_credit]).await["receipt"]["priceUsd"], 0.25);
    assert_eq!(story.admin(&["refund", &by_credit, "--amount", "0.1", "--yes"]).await["refundedUsd"], 0.1);
    assert_eq!(story.of(builder, &["revenue", "--daily"]).await["totals"]["paidCalls"], 2);
    story.admin(&["revenue", "--host"]).await;
    let settings = ["payouts", "settings", "--address", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "--minimum", "0.1"];
    assert_eq!(story.of(builder, &settings).await["payoutSettings"]["minimumUsd"], 0.1);
    story.of(builder, &["payouts", "settings"]).await;
    let made = story.of(builder, &["payouts", "make"]).await;
    let id = made["payout"]["id"].as_str().unwrap_or_else(|| panic!("{made}"));
    story.of(builder, &["payouts"]).await;
    assert!(story.of(builder, &["payouts", "show", id]).await["receipts"].is_array());
    assert_eq!(story.admin(&["payouts", "list", "--all", "--status", "created"]).await["payouts"][0]["id"], id);
    assert_eq!(story.admin(&["payouts", "show", id]).await["payout"]["id"], id);
    assert_eq!(story.admin(&["payouts", "approve", id, "--yes"]).await["payout"]["status"], "approved");
    let hash = format!("0x{}", "a".repeat(64));
    assert_eq!(story.admin(&["payouts", "paid", id, "--transaction", &hash, "--yes"]).await["payout"]["status"], "paid");
}

async fn admins(story: &Story) {
    // Simulated payments are on no chain.
    story.admin.run(&["reconcile"]).await.is(1);
    story.admin(&["settlements"]).await;
    story.admin.run(&["settlements", "resolve", &format!("pmt_{}", "0".repeat(32)), "--unpaid", "--yes"]).await.is(6);
    for words in [
        &["list", "--all"][..],
        &["reviews"],
        &["reviews", "show", "shout"],
        &["reviews", "takedown", "shout", "--yes", "--reason", "complaint"],
        &["reviews", "restore", "shout", "--yes"],
        &["policy"],
        &["policy", "edit", "limits.wallMs=5000", "--yes"],
        &["audit", "--limit", "300"],
        &["builders"],
        &["metrics", "--host"],
        &["host"],
        &["host", "ready"],
        &["host", "manifest"],
        &["host", "safety"],
        &["host", "keys"],
        &["host", "runtime"],
        &["host", "ledger"],
        &["host", "rescan"],
        &["secrets", "rotate", "--url", &story.wire.url],
    ] {
        story.admin(words).await;
    }
    let file = story.admin.file("policy.json", "{\"requireReview\": true}");
    story.admin(&["policy", "check", &file]).await;
    story.admin(&["policy", "set", &file, "--yes"]).await;
}

async fn accounts(story: &Story, builder: &Shell, key: &str) {
    let id = story.of(builder, &["whoami"]).await["known"]["builderId"].as_str().unwrap().to_owned();
    assert!(story.admin(&["builders", "suspend", &id, "--reason", "why", "--yes"]).await["builder"]["suspended"].is_object());
    builder.run(&["whoami"]).await.is(3);
    story.admin(&["builders", "restore", &id, "--yes"]).await;
    story.admin(&["builders", "tier", &id, "jitless", "--yes"]).await;
    assert_eq!(story.admin(&["builders", "grant", &id, "--yes"]).await["builder"]["allowedHosts"], json!(["*"]));
    story.admin(&["builders", "revoke", &id, "--yes"]).await;
    let stored = story.shell();
    let login = stored.given(key, &["login", "--json"]).await.is(0);
    assert_eq!(serde_json::from_str::<Value>(&login.stdout).unwrap()["known"]["builderId"], id);
    let renewed = story.of(&stored, &["builders", "new-key", "--keep", "--yes"]).await;
    assert!(renewed["builderKey"].is_null() && renewed["profile"] == "default", "{renewed}");
    builder.run(&["whoami"]).await.is(3);
    story.of(&stored, &["whoami"]).await;
    story.of(&stored, &["delete", "shout", "--yes"]).await;
    story.of(&stored, &["logout"]).await;
}
