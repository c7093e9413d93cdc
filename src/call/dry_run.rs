//! Dry runs: show an owner what a handler does with an input. Nothing is sold or stored.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use tollhouse_base::{
    cpu_share::CpuTurn,
    id::{CallId, ReceiptId},
};
use tollhouse_capability::{DryRunStore, LogEntry, MeteredCharge};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_protocol::Spent;
use tollhouse_tool::MicroUsd;

use super::{CallError, CalledBy, Calls, Input, RequestHead};
use crate::run::{HandlerResult, Task};

/// A completed dry run, whatever its outcome.
#[derive(Debug)]
pub struct DryRun {
    /// The handler's answer, or its failure.
    pub ended: Result<HandlerResult, CallError>,
    /// The log, oldest first, including the host's own lines, for example a stack.
    pub log: Vec<LogEntry>,
    /// The resources used.
    pub spent: Spent,
}

impl Calls {
    /// Runs `live` once with this input, with temporary kv and files.
    ///
    /// # Errors
    ///
    /// Why it did not run: an input that does not match the schema, or a fault of the host.
    pub async fn dry_run(&self, live: Arc<LiveEndpoint>, input: Bytes, turn: &CpuTurn) -> Result<DryRun, CallError> {
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
        let (scratch, receipt, elapsed) = (DryRunStore::new(&self.clock), ReceiptId::generate(), OnceLock::new());
        let charge = Arc::new(MeteredCharge::new(live.endpoint.max_price_usd));
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
            charge: &charge,
            turn,
            elapsed: &elapsed,
        });
        match ran.await {
            Err(error) if !error.is_the_tools() => Err(error),
            ended => Ok(DryRun { ended, log: scratch.take_log(), spent: elapsed.into_inner().unwrap_or_default().spent }),
        }
    }
}
