//! Stock x402 clients, as npm and PyPI serve them, pay a JavaScript tool, and the receipt holds.

use std::{path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::harness::{Host, js};

fn clients() -> PathBuf {
    std::env::var_os("TOLLHOUSE_CLIENTS").map(PathBuf::from).expect("TOLLHOUSE_CLIENTS is not set: run `cargo xtask test`")
}

async fn pays(mut client: Command, version: u64) {
    let host = Host::start().await;
    host.publish(&js("greets", 0.01, "export default (req) => ({ hello: req.input.name, payer: req.caller.payer })")).await;
    client.arg(format!("{}/tools/greets", host.url)).arg(r#"{"name":"agent"}"#);
    let output = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let paid: Value = serde_json::from_str(stdout.trim()).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    assert_eq!((&paid["status"], &paid["body"]["hello"]), (&json!(200), &json!("agent")), "{paid}");
    assert_eq!(paid["settlement"]["success"], true, "{paid}");
    let receipt = &host.receipt(paid["receiptId"].as_str().unwrap()).await;
    assert_eq!(
        (&receipt["kind"], &receipt["slug"], &receipt["amount"], &receipt["x402Version"], &receipt["transaction"]),
        (&json!("x402"), &json!("greets"), &json!("10000"), &json!(version), &paid["settlement"]["transaction"]),
    );
    assert!(host.verify_receipt(receipt).unwrap().starts_with("valid: "));
    let mut altered = receipt.clone();
    altered["amount"] = json!("1");
    host.verify_receipt(&altered).unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn x402_fetch_v2_pays() {
    let mut node = Command::new("node");
    node.arg(clients().join("pay.mjs"));
    pays(node, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x402_fetch_v1_pays() {
    let mut node = Command::new("node");
    node.arg(clients().join("pay-v1.mjs"));
    pays(node, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x402_for_python_pays() {
    let mut python = Command::new(clients().join("venv/bin/python"));
    python.arg(clients().join("pay.py"));
    pays(python, 2).await;
}
