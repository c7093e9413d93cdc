//! `tollhouse call` and answers that a tool streams.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{
    call::{funded, printed, remaining},
    harness::Shell,
};
use crate::{
    answer_streams::{go, host},
    harness::Host,
};

/// Price of a call of the tool `words`, and of the first balance.
const BALANCE: u64 = 1_000_000;
const PRICE: u64 = 10_000;

async fn at_a_host() -> (Host, Shell) {
    let host = host().await;
    let shell = Shell::at(&host.url);
    funded(&shell).await;
    (host, shell)
}

#[tokio::test]
async fn streamed_answers_are_printed_as_they_come() {
    let (host, shell) = at_a_host().await;
    for (name, kind) in [("text", "text/plain"), ("events", "text/event-stream")] {
        let input = format!(r#"{{"name":"{name}","lines":3,"type":"{kind}"}}"#);
        let mut child = shell.command(&["call", "words", "--json", &input]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.ends_with('0') {
                // The tool sends no more before this.
                go(&host, name, 1).await;
            }
            seen.extend(line.strip_prefix("data: ").or(Some(&line)).filter(|line| !line.is_empty()).map(str::to_owned));
        }
        assert_eq!(seen, ["0", "1", "2"], "{kind}");
        let ended = child.wait_with_output().await.unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success() && told.starts_with("paid $0.01 (simulated)  rcpt_") && told.lines().count() == 1, "{told}");
    }
    assert_eq!(remaining(&shell).await, BALANCE - 2 * PRICE);
}

#[tokio::test]
async fn streamed_answer_has_its_head_once() {
    let (host, shell) = at_a_host().await;
    go(&host, "a", 1).await;
    let ran = shell.run(&["call", "words", "-i"]).await.is(0);
    assert!(ran.stdout.starts_with("HTTP 200\n") && ran.stdout.ends_with("\n\n0\n1\n"), "{ran:?}");
    assert_eq!(ran.stdout.matches("HTTP 200").count(), 1);
}

#[tokio::test]
async fn answer_that_breaks_off_is_got_whole_with_the_same_payment() {
    let (host, shell) = at_a_host().await;
    go(&host, "a", 1).await;
    let call = ["call", "words", "--json", r#"{"fails":1}"#];
    let ran = shell.run(&call).await.is(6);
    assert_eq!(ran.stdout, "0\n");
    let id = printed(&ran.stderr);
    ran.warned(&format!(
        "unknown: The answer broke off, so it is incomplete.  Payment {id} was sent; the host reports that it was charged once.\n\
         get the whole answer with the same payment: tollhouse call --resume {id}"
    ));
    let again = shell.run(&call).await.is(6);
    assert!(again.stdout.is_empty() && again.stderr.contains(&format!("--resume {id}")), "{again:?}");
    assert_eq!(shell.run(&["call", "--resume", &id]).await.is(0).stdout, "0\n1\n");
    assert_eq!(remaining(&shell).await, BALANCE - PRICE);
}
