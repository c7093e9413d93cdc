//! Dry runs: what a handler does with an input, told to its owner alone. Nothing is sold, and nothing is kept.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use tollhouse_base::{
    id::{CallId, ReceiptId},
    share::Turn,
};
use tollhouse_capability::{LogEntry, Scratch, Till};
use tollhouse_catalog::Live;
use tollhouse_protocol::Spent;
use tollhouse_tool::MicroUsd;

use super::{CallError, CalledBy, Calls, Input, RequestHead};
use crate::run::{Produced, Task};

/// A dry run that came to its end, whatever the end.
#[derive(Debug)]
pub struct DryRun {
    /// What the handler answered, or what was wrong with it.
    pub ended: Result<Produced, CallError>,
    /// Oldest first; with the host's own lines, such as a stack.
    pub log: Vec<LogEntry>,
    /// What it took.
    pub spent: Spent,
}

impl Calls {
    /// Runs `live` once, as a call with this input would, on kv and files of its own.
    ///
    /// # Errors
    ///
    /// Why it did not run: an input that does not fit, or what is the host's fault.
    pub async fn dry_run(&self, live: Arc<Live>, input: Bytes, turn: &Turn) -> Result<DryRun, CallError> {
        let _running = self.running.token();
        let (input, _) = Input::Body(input).read(&live).await?;
        let input = input.check()?;
        let head = RequestHead {
            method: "POST",
            url: live.terms.resource_url.clone(),
            path: format!("/tools/{}", live.endpoint.slug),
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
        };
        let (scratch, receipt, took) = (Scratch::new(&self.clock), ReceiptId::generate(), OnceLock::new());
        let till = Arc::new(Till::new(live.endpoint.max_price_usd));
        let ran = self.runner.run(Task {
            live: &live,
            by: CalledBy::Owner,
            price: MicroUsd::ZERO,
            call: CallId::generate(),
            receipt: &receipt,
            head: &head,
            input: &input,
            payer: None,
            payment: None,
            now: self.clock.now(),
            progress: None,
            scratch: Some(&scratch),
            till: &till,
            turn,
            took: &took,
        });
        match ran.await {
            Err(error) if !error.is_the_tools() => Err(error),
            ended => Ok(DryRun { ended, log: scratch.take_log(), spent: took.into_inner().unwrap_or_default().spent }),
        }
    }
}
