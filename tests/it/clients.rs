//! Standard x402 clients, unmodified, pay for a JavaScript tool. Anyone can verify the receipts
//! that they get.

use std::{path::Path, process::Output};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Host, Payer, chain::clients, js, tollhouse};

const SHOUT: &str = "export default async (req) => ({ shout: req.input.text.toUpperCase() });";

/// Runs a standard client as a child process, which pays for a call with this payer's key. Without
/// a payer, the client gets money from the faucet. Returns its output.
pub async fn pays_with(program: &Path, script: &str, host: &Host, payer: Option<&Payer>) -> Value {
    pays_with_env(&[], program, script, host, payer).await
}

/// Does the same on a given network, by the client's name for it.
pub async fn pays_on(network: Option<&str>, program: &Path, script: &str, host: &Host, payer: Option<&Payer>) -> Value {
    let listed: Vec<_> = network.map(|network| ("PAY_ON", network)).into_iter().collect();
    pays_with_env(&listed, program, script, host, payer).await
}

/// Does the same with additional environment variables.
pub async fn pays_with_env(more: &[(&str, &str)], program: &Path, script: &str, host: &Host, payer: Option<&Payer>) -> Value {
    let request = (format!("{}/tools/shout", host.url), json!({ "text": "hello" }));
    pays_for(request, more, program, script, payer).await.unwrap_or_else(|reason| panic!("{reason}\n{}", host.log()))
}

/// Does the same for this URL and input. Returns the client's error if it fails.
pub async fn pays_for(
    (url, input): (String, Value),
    more: &[(&str, &str)],
    program: &Path,
    script: &str,
    payer: Option<&Payer>,
) -> Result<Value, String> {
    let output = Command::new(program)
        .arg(clients().join(script))
        .args([url, input.to_string()])
        .env_remove("PRIVATE_KEY")
        .envs(more.iter().copied())
        .envs(payer.map(|payer| ("PRIVATE_KEY", payer.secret())))
        .env("NO_PROXY", "127.0.0.1,localhost")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
    let Output { status, stdout, stderr } = output;
    let (message, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if !status.success() {
        return Err(format!("{script} ended with {status}: {message}\n{complained}"));
    }
    serde_json::from_str(message.lines().last().unwrap_or_default()).map_err(|error| format!("{error}: {message}\n{complained}"))
}

async fn host() -> Host {
    let host = Host::start().await;
    let mut tool = js("shout", 0.01, SHOUT);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    tool["outputSchema"] = json!({ "type": "object", "properties": { "shout": { "type": "string" } }, "required": ["shout"] });
    host.publish(&tool).await;
    host
}

/// Checks the result, whichever client paid.
async fn paid_for(host: &Host, done: &Value, network: &str, version: u8) {
    assert_eq!((&done["status"], &done["body"]), (&json!(200), &json!({ "shout": "HELLO" })), "{done}");
    let settlement = &done["settlement"];
    assert_eq!((&settlement["success"], &settlement["network"]), (&json!(true), &json!(network)), "{done}");
    let payer = settlement["payer"].as_str().unwrap();
    assert_eq!(host.balance(payer).await, 990_000);

    let id = done["receiptId"].as_str().unwrap();
    let receipt = host.receipt(id).await;
    assert_eq!((&receipt["receiptId"], &receipt["slug"], &receipt["priceUsd"]), (&json!(id), &json!("shout"), &json!(0.01)));
    assert_eq!((&receipt["transaction"], &receipt["x402Version"]), (&settlement["transaction"], &json!(version)));
    verifies(host, &receipt).await;
}

/// Checks that `tollhouse verify-receipt` accepts the receipt from its URL and from a file, and
/// refuses altered ones.
async fn verifies(host: &Host, receipt: &Value) {
    let id = receipt["receiptId"].as_str().unwrap();
    let url = format!("{}/ai/receipts/{id}", host.url);
    let (valid, message) = verify(&[&url]).await;
    assert!(valid && message.contains(id) && message.contains("valid"), "{message}");

    host.verify_receipt(receipt).unwrap();

    for (field, value) in [
        ("priceUsd", json!(0.02)),
        ("slug", json!("whisper")),
        ("resultHash", receipt["requestHash"].clone()),
        ("signature", json!("e30.e30.AAAA")),
    ] {
        let mut altered = receipt.clone();
        altered[field] = value;
        let message = host.verify_receipt(&altered).unwrap_err();
        assert!(message.starts_with("error: "), "{message}");
    }
    // The keys of another host do not verify it.
    Host::start().await.verify_receipt(receipt).unwrap_err();
}

async fn verify(args: &[&str]) -> (bool, String) {
    let output = Command::from(tollhouse()).arg("verify-receipt").args(args).output().await.unwrap();
    let printed = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(printed).unwrap())
}

#[tokio::test]
async fn the_stock_typescript_client_pays_on_the_v2_wire() {
    let host = host().await;
    let done = pays_with(Path::new("node"), "pay.mjs", &host, None).await;
    paid_for(&host, &done, "eip155:84532", 2).await;
}

#[tokio::test]
async fn the_stock_typescript_client_of_v1_pays_on_its_wire() {
    let host = host().await;
    let done = pays_with(Path::new("node"), "pay-v1.mjs", &host, None).await;
    paid_for(&host, &done, "base-sepolia", 1).await;
}

#[tokio::test]
async fn the_stock_python_client_pays() {
    let host = host().await;
    let done = pays_with(&clients().join("venv/bin/python"), "pay.py", &host, None).await;
    paid_for(&host, &done, "eip155:84532", 2).await;
}

#[tokio::test]
async fn the_receipt_of_a_free_call_verifies_too() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, SHOUT)).await;
    let answer = host.call("shout", &json!({ "text": "x" })).await.is(200);
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert_eq!(receipt["kind"], "free");
    verifies(&host, &receipt).await;
}
