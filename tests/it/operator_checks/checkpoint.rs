//! Damaged checkpoints of the store.

use std::fs;

use serde_json::json;

use super::run;
use crate::harness::{Host, js};

#[tokio::test]
async fn a_damaged_checkpoint_is_named_in_the_log_as_the_host_starts() {
    const TOLD: &str = "the store's checkpoint, or its journal, is damaged";
    let mut host = Host::start().await;
    host.publish(&js("echo", 0.0, "export default () => 1;")).await;
    host.kill9();
    let compacted = run(host.folder(), &["store", "compact", "--data", "data"], &[]).await;
    assert!(compacted.status.success(), "{compacted:?}");
    let mut checkpoints = fs::read_dir(host.folder().join("data/store/checkpoint")).unwrap();
    let checkpoint = checkpoints.next().unwrap().unwrap().path();
    let mut bytes = fs::read(&checkpoint).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&checkpoint, bytes).unwrap();
    host.restart().await;
    let log = host.log();
    assert!(log.contains(TOLD) && log.contains(checkpoint.file_name().unwrap().to_str().unwrap()), "{log}");
    assert!(log.contains("tollhouse store check"), "it names the remedy: {log}");
    host.call("echo", &json!({})).await.is(200);
}
