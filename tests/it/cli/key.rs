//! The payer key: created once, readable only by its owner, and shown as its address.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::harness::Shell;
use crate::harness::{Chain, Host};

#[tokio::test]
async fn a_key_is_made_once_funded_with_play_money_and_reported_by_its_address() {
    let host = Host::start().await;
    let shell = Shell::at(&host.url);
    shell
        .run(&["key", "show"])
        .await
        .is(3)
        .stderr_text("")
        .warned("error: No payment key in `…/config/tollhouse/pay.key`\nhint: create one: tollhouse key new, …");
    let made = shell.run(&["key", "new"]).await.is(0).stderr_text("0x…  in …/config/tollhouse/pay.key");
    let address = made.stdout.split("  ").next().unwrap().to_owned();
    let file = shell.config("pay.key");
    let stored = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!made.stdout.contains(stored.trim().trim_start_matches("0x")), "the secret is shown nowhere");
    shell
        .run(&["key", "new"])
        .await
        .is(1)
        .stderr_text("")
        .warned("error: `…/pay.key` already exists, and keys are never overwritten\nhint: …");
    assert_eq!(fs::read_to_string(&file).unwrap(), stored);

    shell.run(&["key", "balance"]).await.is(0).stderr_text(&format!("$0.00 USDC on eip155:84532 (simulated)  {address}"));
    shell.run(&["key", "fund", "1.5"]).await.is(0).stderr_text(&format!("{address} got $1.50 (simulated)…"));
    assert_eq!(shell.json(&["key", "balance"]).await["balanceUsd"], 1.5);
    assert_eq!(host.balance(&address).await, 1_500_000);
    assert_eq!(shell.json(&["key", "show"]).await["address"], address);
    shell.run(&["key", "fund", "-1"]).await.is(2);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    for words in [&["key", "show"][..], &["key", "balance"], &["key", "fund", "1"]] {
        shell.run(words).await.is(3).stderr_text("").warned("error: `…/pay.key` is readable by others\nhint: chmod 600 …");
    }
}

#[tokio::test]
async fn the_file_of_the_key_is_named_by_flag_environment_or_profile() {
    let host = Host::start().await;
    let shell = Shell::new();
    shell.file("config/tollhouse/config.toml", &format!("[profiles.a]\nurl = \"{}\"\nkey_file = \"~/of-profile\"\n", host.url));
    shell.run(&["key", "new"]).await.is(0).stderr_text("0x…/of-profile");
    let shell = shell.env("TOLLHOUSE_PAY_KEY_FILE", "of-environment");
    shell.run(&["key", "new"]).await.is(0).stderr_text("0x…  in of-environment");
    shell.run(&["key", "new", "--key-file", "made/here"]).await.is(0).stderr_text("0x…  in made/here");
    let address = |file: &str| fs::read_to_string(shell.home().join(file)).unwrap();
    assert_ne!(address("of-profile"), address("of-environment"));
    assert!(shell.home().join("made/here").exists() && !shell.config("pay.key").exists());
}

#[tokio::test]
async fn balance_on_a_real_network_comes_from_a_node_or_is_unknown() {
    let host = Host::start().await;
    let shell = Shell::new();
    let profile = |more: &str| format!("[profiles.a]\nurl = \"{}\"\n{more}", host.url);
    shell.file("config/tollhouse/config.toml", &profile("network = \"eip155:8453\"\n"));
    shell.run(&["key", "new"]).await.is(0);
    let ran = shell.run(&["key", "balance"]).await.is(1).stderr_text("");
    assert!(ran.stderr.contains("on eip155:8453: no node of that chain is configured"), "{ran:?}");
    let ran = shell.run(&["key", "fund", "1"]).await.is(1).stderr_text("");
    assert!(ran.stderr.contains("does not use play money"), "{ran:?}");
}

#[tokio::test]
async fn balance_on_a_chain_comes_from_the_profiles_node() {
    let chain = Chain::start().await;
    let host = Host::start().await;
    let shell = Shell::new();
    let profile = format!("[profiles.a]\nurl = \"{}\"\nnetwork = \"eip155:84532\"\nrpc_url = \"{}\"\n", host.url, chain.url);
    shell.file("config/tollhouse/config.toml", &profile);
    let made = shell.run(&["key", "new"]).await.is(0);
    chain.mint(made.stdout.split("  ").next().unwrap(), 12_300).await;
    shell.run(&["key", "balance"]).await.is(0).stderr_text("$0.0123 USDC on eip155:84532  0x…");
}
