//! No change is overwritten unseen. The slower of two writers sees the other's change, and its own
//! is not made.

use serde_json::json;

use super::harness::Shell;
use crate::harness::{Host, js};

#[tokio::test]
async fn slower_deployer_gets_the_other_change() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    host.change("shout", &json!({ "limits": { "wallMs": 5000 }, "title": "Louder" })).await;
    let shell = Shell::admin(&host);
    let expected = "error: `shout` changed on the host since revision 1: now revision 2, …Z\nhint: nothing was changed; apply it to the current revision: --onto 2\n(revision_changed, req_…)";
    for words in [&["pause", "shout", "--onto", "1"][..], &["delete", "shout", "--yes", "--onto", "1"]] {
        shell.run(words).await.is(1).stderr_text("").warned(expected);
    }
    assert_eq!(shell.json(&["show", "shout"]).await["endpoint"]["status"], "active");
    shell.run(&["pause", "shout", "--onto", "2"]).await.is(0).stderr_text("shout is paused, revision 3");
}

#[tokio::test]
async fn policy_is_edited_set_and_never_written_over() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    shell
        .run(&["policy", "edit", "limits.wallMs=5000"])
        .await
        .is(2)
        .warned("error: Replace the policy: this question needs a terminal\nhint: answer with --yes");
    let edited = shell.run(&["policy", "edit", "limits.wallMs=5000", "builderCapabilities.files=true", "--yes"]).await.is(0);
    edited.stderr_text("builderCapabilities.files  false → true\nlimits.wallMs              … → 5000\nthe policy is in force, revision …");
    let policy = shell.json(&["policy"]).await;
    assert_eq!((&policy["policy"]["limits"]["wallMs"], &policy["policy"]["builderCapabilities"]["files"]), (&json!(5000), &json!(true)));
    let file = shell.file("policy.json", &policy.to_string());
    shell.run(&["policy", "set", &file, "--yes"]).await.is(0).warned("this policy is already in force; nothing was changed");
    shell.run(&["policy", "edit", "requireReview=true", "--yes"]).await.is(0);
    shell.run(&["policy", "check", &file]).await.is(0).stderr_text("this would restrict 0 tools, 0 of which would stop being long-running");
    let slower = shell.run(&["policy", "set", &file, "--yes", "--onto", "1"]).await.is(1);
    slower.warned("error: The policy has changed in the meantime: now revision …\n…hint: nothing was changed; apply it to the current revision: --onto …\n(revision_changed, req_…)");
    assert_eq!(shell.json(&["policy"]).await["policy"]["requireReview"], true);
    shell
        .run(&["policy", "edit", "limits.nothing=1", "--yes"])
        .await
        .is(1)
        .warned("error: There is no limit called `nothing`\n  at /limits/nothing\n(invalid_policy, req_…)");
    shell.run(&["policy", "set", "missing.json", "--yes"]).await.is(2);
}

#[tokio::test]
async fn review_is_shown_and_decided_at_the_revision_that_was_read() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let mut tool = js("asker", 0.0, "export default () => 1;");
    tool["capabilities"] = json!({ "kv": true, "files": true });
    host.as_builder(&key, reqwest::Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let shell = Shell::admin(&host);
    shell.run(&["reviews"]).await.is(0).stderr_text(
        "slug   waiting since      rev  requests  content  findings  owner\nasker  …Z    1  files                     0  bld_…",
    );
    let shown = shell.run(&["reviews", "show", "asker"]).await.is(0).stderr_text("slug      asker\n…\nrequests  files\n…");
    assert!(shown.stderr.contains("tollhouse reviews approve asker --onto 1"), "{shown:?}");
    shell
        .run(&["reviews", "approve", "asker"])
        .await
        .is(2)
        .warned("error: Approve asker: this question needs a terminal\nhint: answer with --yes");
    shell.run(&["reviews", "approve", "asker", "--yes"]).await.is(2).warned(
        "error: An approval with --yes requires --onto, with the revision that you read\nhint: read it: tollhouse reviews show asker",
    );
    shell
        .run(&["reviews", "approve", "asker", "--yes", "--onto", "7"])
        .await
        .is(1)
        .warned("error: `asker` changed on the host since revision 7: now revision 1, …\nhint: nothing was changed; read it again: tollhouse reviews show asker\n…");
    let answer =
        shell.run(&["reviews", "approve", "asker", "--yes", "--onto", "1", "--limit", "wallMs=5000", "--reason", "fine"]).await.is(0);
    answer.stderr_text("asker: approve, revision 2, active; granted: files kv");
    shell.run(&["reviews"]).await.is(0).stderr_text("").warned("no tools wait for review");
    let shown = shell.run(&["reviews", "show", "asker"]).await.is(0);
    assert!(!shown.stderr.contains("reviews approve"), "nothing waits for an approval: {shown:?}");
    let record = shell.json(&["show", "asker"]).await;
    assert_eq!(record["endpoint"]["limitCaps"]["wallMs"], 5000, "{record}");
    shell
        .run(&["reviews", "takedown", "asker", "--yes", "--reason", "no"])
        .await
        .is(0)
        .stderr_text("asker: takedown, revision 3, paused; …");
    shell.run(&["reviews", "restore", "asker", "--yes"]).await.is(0);
}
