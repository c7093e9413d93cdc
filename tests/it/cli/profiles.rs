//! The choice of the host and of the credential. A credential goes only to the host for which it
//! was stored.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use super::harness::{Shell, Wire};
use crate::harness::{Host, js};

#[tokio::test]
async fn credential_is_looked_at_by_the_host_and_kept_for_its_owner_alone() {
    let host = Host::start().await;
    let (id, key) = host.register("Toolsmith").await;
    let shell = Shell::new();
    let login = ["login", "--url", &host.url];
    shell
        .given("bk_wrong\n", &login)
        .await
        .is(3)
        .stderr_text("")
        .warned("error: The credential is missing or wrong\nhint: …\n(unauthorized, req_…)");
    assert!(!shell.config("credentials.toml").exists() && !shell.config("config.toml").exists());
    let expected = format!("stored the builder key of {} for profile default (Toolsmith)", host.url);
    shell.given(&format!("{key}\n"), &login).await.is(0).stderr_text(&expected).warned("");
    let stored = fs::metadata(shell.config("credentials.toml")).unwrap();
    assert_eq!(stored.permissions().mode() & 0o777, 0o600);
    let config = fs::read_to_string(shell.config("config.toml")).unwrap();
    assert!(!config.contains(&key) && config.contains(&host.url), "{config}");
    let known = format!(
        "host     {} (profile default)\nrole     builder key\nbuilder  Toolsmith\nid       {id}\nlimits   $0.1 a call, $5 a day",
        host.url
    );
    shell.run(&["whoami"]).await.is(0).stderr_text(&known);
    let file = shell.file("credit", &host.mint(2.5).await);
    shell
        .run(&["login", "--credential-file", &file])
        .await
        .is(0)
        .stderr_text("stored the developer credit of … for profile default (test)");
    shell.run(&["credits"]).await.is(0).stderr_text("credit       crd_…\nlabel        test\nleft         $2.5\n…");
    shell.run(&["logout", "--as", "credit"]).await.is(0).stderr_text("removed from this machine; …");
    shell.run(&["whoami"]).await.is(0).stderr_text(&known);
    shell.run(&["logout"]).await.is(0);
    shell.run(&["whoami"]).await.is(3).warned("error: You are not signed in to …\nhint: sign in: tollhouse login --url …, or set one of …");
}

#[tokio::test]
async fn registration_without_credit_leaves_no_profile_and_shows_how_to_pay() {
    let host = Host::start().await;
    let shell = Shell::new();
    let hint = format!(
        "error: Payment required\nhint: registering costs money: $1, with a developer credit (…), or with a key: tollhouse call {}/ai/builders/register --json '{{\"name\":\"NAME\"}}' --max-usd 1\n(payment_required, req_…)",
        host.url
    );
    shell.run(&["register", "Toolsmith", "--keep", "--url", &host.url]).await.is(4).stderr_text("").warned(&hint);
    assert!(!shell.config("config.toml").exists());
    // With a profile, `check` would ask its host.
    shell.run(&["init", "shout"]).await.is(0);
    let folder = shell.home().join("shout");
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\nhost    ok  temporary local host\n…");
    // The command of the hint.
    shell.run(&["key", "new"]).await.is(0);
    shell.run(&["key", "fund", "2", "--url", &host.url]).await.is(0);
    let (url, name) = (format!("{}/ai/builders/register", host.url), "{\"name\":\"NAME\"}");
    let paid = shell.run(&["call", &url, "--json", name, "--max-usd", "1"]).await.is(0);
    assert!(paid.stdout.contains("builderKey"), "{paid:?}");
}

#[tokio::test]
async fn credentials_that_others_can_read_are_refused() {
    let host = Host::start().await;
    let shell = Shell::new();
    shell.given(&host.admin, &["login", "--url", &host.url, "--as", "admin"]).await.is(0);
    let file = shell.config("credentials.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let expected = format!("error: `{0}` is readable by others\nhint: chmod 600 {0}", file.display());
    shell.run(&["audit"]).await.is(3).stderr_text("").warned(&expected);
    shell.given("t", &["login", "--url", &host.url]).await.is(3);
    // A credential in the environment is enough.
    let shell = shell.env("TOLLHOUSE_ADMIN_TOKEN", &host.admin);
    shell.run(&["audit", "--limit", "1"]).await.is(0);
}

#[tokio::test]
async fn credential_does_not_follow_redirects_to_other_hosts() {
    let host = Host::start().await;
    let elsewhere = Wire::to(&host.url).await;
    let shell = Shell::new();
    shell.given(&host.admin, &["login", "--url", &host.url]).await.is(0);
    shell.run(&["audit"]).await.is(0);
    for words in [&["audit"][..], &["list"], &["whoami"], &["audit", "--profile", "default"]] {
        let ran = shell.run(&[words, &["--url", &elsewhere.url]].concat()).await;
        assert!(ran.status == 3 || words == ["list"], "{ran:?}");
    }
    assert!(!elsewhere.sent().contains(&host.admin), "{}", elsewhere.sent());
    let redirecting = axum::Router::new().fallback(|| async { axum::response::Redirect::temporary("http://192.0.2.1/") });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, redirecting).await });
    let expected = "error: The host redirects this request: http://192.0.2.1/\nhint: …--url";
    Shell::at(&url).env("TOLLHOUSE_ADMIN_TOKEN", "t").run(&["audit"]).await.is(1).warned(expected);
    let expected = "error: The host redirects this request: http://192.0.2.1/\nhint: if it has moved there, use that address";
    Shell::new().run(&["verify-receipt", &format!("{url}/ai/receipts/rcpt_1")]).await.is(1).warned(expected);
}

#[tokio::test]
async fn credential_does_not_cross_a_network_in_the_clear() {
    let shell = Shell::at("http://192.0.2.1").env("TOLLHOUSE_ADMIN_TOKEN", "secret-of-mine");
    let expected = "error: http://192.0.2.1 is plain http: others on the network could read the credential\nhint: …--allow-plain-http…";
    shell.run(&["audit"]).await.is(3).warned(expected);
    shell.given("secret-of-mine", &["login", "--url", "http://192.0.2.1"]).await.is(3).warned(expected);
}

#[tokio::test]
async fn flags_override_the_environment_which_overrides_profiles() {
    let (one, two) = (Host::start().await, Host::start().await);
    one.publish(&js("of-one", 0.0, "export default () => 1;")).await;
    two.publish(&js("of-two", 0.0, "export default () => 2;")).await;
    let shell = Shell::new();
    shell.given(&one.admin, &["login", "--url", &one.url, "--profile", "one"]).await.is(0);
    shell.given(&two.admin, &["login", "--url", &two.url, "--profile", "two"]).await.is(0);
    let shown = |shell: &Shell, words: &[&str]| {
        let command = [&["list", "--all", "--json"], words].concat();
        let mut command = shell.command(&command);
        async move {
            let output = command.output().await.unwrap();
            let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
            page["endpoints"][0]["slug"].as_str().unwrap().to_owned()
        }
    };
    assert_eq!(shown(&shell, &["--profile", "two"]).await, "of-two");
    assert_eq!(shown(&shell, &["--url", &one.url]).await, "of-one");
    let shell = shell.env("TOLLHOUSE_PROFILE", "two");
    assert_eq!(shown(&shell, &[]).await, "of-two");
    let shell = shell.env("TOLLHOUSE_URL", &one.url);
    assert_eq!(shown(&shell, &[]).await, "of-one");
    assert_eq!(shown(&shell, &["--profile", "two"]).await, "of-two");
    shell.run(&["list", "--profile", "three"]).await.is(2).warned("error: There is no profile `three`\nhint: available: one, two");
    let other = ["login", "--profile", "one", "--url", &two.url];
    shell.given(&two.admin, &other).await.is(2).warned("error: The profile `one` belongs to …, not to …\nhint: select another profile…");
}

#[tokio::test]
async fn an_address_that_does_not_read_is_not_repeated() {
    let shell = Shell::new().env("TOLLHOUSE_URL", "https://me:sesame@tools.example");
    let expected = "error: invalid value for '--url <URL>': use http:// or https:// and a host, …\n…";
    let ran = shell.run(&["list"]).await.is(2).stderr_text("");
    assert!(!ran.stderr.contains("sesame"), "{ran:?}");
    ran.warned(expected);
    shell.run(&["list", "--url", "https://a:sesame@tools.example"]).await.is(2).warned(expected);
}

#[tokio::test]
async fn folder_of_a_stranger_leads_to_no_host() {
    let shell = Shell::new().env("TOLLHOUSE_ADMIN_TOKEN", "secret-of-mine");
    shell.file("tool/.tollhouse/state.json", &json!({ "slug": "shout", "host": "https://evil.example", "revision": 1 }).to_string());
    let expected =
        "error: This folder belongs to https://evil.example, which no profile uses\nhint: …tollhouse login --url https://evil.example";
    shell.run_in(&shell.home().join("tool"), &["pause"]).await.is(2).warned(expected);
    shell.file("tool/.tollhouse/state.json", "{\"slug\": \"../../admin\"}");
    shell.run_in(&shell.home().join("tool"), &["pause"]).await.is(2).warned("error: `…state.json` is not valid: …");
}

#[tokio::test]
async fn concurrent_logins_keep_their_own_credentials() {
    let host = Host::start().await;
    let shell = Shell::new();
    let token = shell.file("token", &host.admin);
    let names: Vec<_> = (0..12).map(|n| format!("p{}", n % 6)).collect();
    let logins = names.iter().map(|name| {
        let mut command = shell.command(&["login", "--url", &host.url, "--profile", name, "--as", "admin", "--credential-file", &token]);
        async move { command.output().await.unwrap() }
    });
    for output in futures_util::future::join_all(logins).await {
        assert!(output.status.success(), "{output:?}");
    }
    for name in names {
        shell.run(&["whoami", "--profile", &name]).await.is(0);
    }
}

#[tokio::test]
async fn sign_in_link_is_opened_by_a_file_that_nobody_else_reads() {
    let host = Host::start().await;
    let shell = Shell::admin(&host).env("PATH", "/usr/bin:/bin");
    let link = shell.run(&["open"]).await.is(0);
    let expected = format!("{}/dashboard/sign-in?link=", host.url);
    assert!(link.stdout.starts_with(&expected), "without a screen it is printed: {link:?}");
    let seen = shell.home().join("seen");
    let browser = shell.file(
        "browser",
        &format!(
            "#!/bin/sh\nstat -c '%a' \"$1\" > {0}.new; echo \"$1\" >> {0}.new; cat \"$1\" >> {0}.new; mv {0}.new {0}\n",
            seen.display()
        ),
    );
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).unwrap();
    let shell = shell.env("BROWSER", &browser);
    shell.run(&["open"]).await.is(0).stderr_text("").warned("opened the dashboard of …");
    let seen =
        crate::harness::eventually("the browser has started", std::time::Duration::from_secs(10), async || fs::read_to_string(&seen).ok())
            .await;
    let (mode, rest) = seen.split_once('\n').unwrap();
    let (argument, page) = rest.split_once('\n').unwrap();
    assert!(mode == "600" && !argument.contains("link") && page.contains(&format!("url={expected}")), "{seen}");
    shell.run(&["open", "--print"]).await.is(0).stderr_text(&format!("{expected}…"));
}

#[tokio::test]
async fn variables_of_the_command_line_are_not_misspelled_host_settings() {
    let host =
        Host::builder().env("TOLLHOUSE_CREDIT", "dc_1").env("TOLLHOUSE_BUILDER_KEY", "bk_1").env("TOLLHOUSE_CREDITS", "x").start().await;
    let log = host.log();
    assert!(log.contains("the environment variable `TOLLHOUSE_CREDITS` is not a setting"), "{log}");
    assert!(!log.contains("`TOLLHOUSE_CREDIT` is") && !log.contains("TOLLHOUSE_BUILDER_KEY"), "{log}");
}

#[tokio::test]
async fn a_file_that_does_not_read_is_reported_without_its_lines() {
    let shell = Shell::new();
    shell.file("config/tollhouse/config.toml", "[profiles.a]\nurl = \"http://127.0.0.1:9\"\nrpc_url = \"https://node/SECRET\" x\n");
    let ran = shell.run(&["whoami"]).await.is(2);
    assert!(ran.stderr.contains("line 3: ") && !ran.stderr.contains("SECRET"), "{ran:?}");
}

#[tokio::test]
async fn doctor_checks_a_profiles_files_and_whether_its_key_works() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::new();
    shell.given(&key, &["login", "--url", &host.url, "--profile", "prod"]).await.is(0);
    let credentials = shell.config("credentials.toml");
    let mode = |mode: u32| fs::set_permissions(&credentials, fs::Permissions::from_mode(mode)).unwrap();
    // The machine may not support all layers of the jail.
    let well = format!(
        "…\n…engine …, jail: …rlimits …seccomp…\n…\nok    profile prod: only its owner can read credentials.toml\nok    profile prod: {} accepts the builder key",
        host.url
    );
    shell.run(&["doctor", "--profile", "prod"]).await.is(0).stderr_text(&well);
    mode(0o644);
    let warned = format!("…\nwarn  profile prod: credentials.toml is readable by others → chmod 600 {}", credentials.display());
    for words in [&["doctor", "--profile", "prod"][..], &["doctor"]] {
        shell.run(words).await.is(0).stderr_text(&warned);
    }
    mode(0o600);
    shell
        .run(&["doctor", "--profile", "other"])
        .await
        .is(2)
        .stderr_text("")
        .warned("error: There is no profile `other`\nhint: available: prod");
    drop(host);
    let away = shell.run(&["doctor", "--profile", "prod"]).await.is(1);
    assert!(away.stdout.contains("\nfail  profile prod: ") && away.stdout.contains("does not answer"), "{away:?}");
}
