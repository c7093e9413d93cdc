//! Scheduled runs of handlers, which nobody calls and nobody pays for.
//!
//! They use what calls leave free: none begins while a call waits for a slot, only a few run at once, owners take turns,
//! and each owner has a share of the processor like a caller's address. A run that gets no slot is delayed until the next
//! time of its expression. A run is [claimed](tollhouse_catalog::ScheduleClaim) before it
//! begins, has a record among the tool's calls, and holds the next run of its tool until it ends.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use serde_json::json;
use tollhouse_api::{CallKind, ScheduledRun};
use tollhouse_base::{
    cpu_share::CpuTurn,
    id::{CallId, ReceiptId},
};
use tollhouse_catalog::{DueSchedule, LiveEndpoint, ScheduleClaim};
use tollhouse_money::receipt::PaymentKind;
use tollhouse_protocol::Work;
use tollhouse_store::{StoreError, log_unavailable};
use tollhouse_tool::{MicroUsd, Owner};

use super::{
    CallError, Calls, ParsedInput,
    history::{CallOutcome, CallRecord, Charge},
    new_call::{FailureReason, millis},
    request::{CalledBy, RequestHead},
    run::{RunUsage, Task},
    write_behind::{Failed, FailedSchedule},
};

/// Maximum number of pages of due tools that a turn looks at. The others get their turn once these have run.
const MAX_PAGES: usize = 16;

/// The message of a run whose host ended.
const LOST: &str = "The host that began this run ended before the run did, so nobody knows how far it got. It is not repeated";

/// The start of the addresses for owners' shares of the processor. No packet has such an address (RFC 6666).
const SHARE_PREFIX: u128 = 0x0100 << 112;

impl Calls {
    /// Begins the scheduled runs that are due, as far as there is room. Call it once a second.
    ///
    /// # Errors
    ///
    /// Those of the store. A run that was claimed just then counts as lost later.
    pub async fn run_schedules(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.running.is_closed() || self.check_callable().is_err() {
            return Ok(());
        }
        // Otherwise a long list of due tools would be read every second for nothing.
        if self.scheduled.is_full() || self.parts.runner.is_busy() {
            return Ok(());
        }
        let (mut pages, mut due) = (self.parts.catalog.due_schedules(self.parts.clock.now()), Vec::new());
        for _ in 0..MAX_PAGES {
            let Some(page) = pages.next().await? else { break };
            due.extend(page);
        }
        for schedule in self.scheduled.in_turns(due) {
            // Calls go first.
            if self.scheduled.is_full() || self.parts.runner.is_busy() {
                break;
            }
            self.begin_scheduled(schedule).await?;
        }
        Ok(())
    }

    /// Runs the first schedule of a tool now, whether it is due or not. Returns false if it has none. For a process that
    /// embeds this host.
    ///
    /// # Errors
    ///
    /// Why it did not run. A failure of the run is in its record.
    pub async fn run_schedule_now(&self, slug: &str) -> Result<bool, CallError> {
        let live = self.parts.catalog.find(slug).await?.ok_or_else(|| CallError::unknown_endpoint(slug))?;
        let Some(cron) = live.endpoint.schedules.first() else { return Ok(false) };
        let claim = ScheduleClaim::now(CallId::generate(), cron.clone(), self.parts.clock.now());
        let turn = self.parts.shares.turn(share_address(&live.endpoint.owner), Duration::ZERO).await?;
        self.run_scheduled(&live, &claim, turn).await;
        Ok(true)
    }

    /// Begins the next run of a tool if its owner can have one more.
    async fn begin_scheduled(self: &Arc<Self>, schedule: DueSchedule) -> Result<(), StoreError> {
        let DueSchedule { owner, endpoint } = schedule;
        let Some(permit) = self.scheduled.take(&owner) else { return Ok(()) };
        // A shutdown that begins during the claim waits for the run, which would be lost otherwise.
        let _running = self.running.token();
        if self.running.is_closed() {
            return Ok(());
        }
        let Some(turn) = self.parts.shares.turn_now(share_address(&owner)) else { return Ok(()) };
        let claimed = self.parts.catalog.claim_schedule(&endpoint, &CallId::generate(), self.parts.clock.now()).await?;
        if let Some((lost, live)) = claimed.lost {
            let code = (self.parts.code)(&CallError::Internal);
            let reason = FailureReason { code, message: Some(LOST.to_owned()), thrown_at: vec![] };
            self.record_scheduled(&live, &lost, Some(reason), Usage { failures: claimed.failures, ..Usage::default() });
        }
        if let Some((claim, live)) = claimed.run {
            self.scheduled.record_begun(&owner);
            let this = Arc::clone(self);
            self.running.spawn(async move {
                let _permit = permit;
                this.run_scheduled(&live, &claim, turn).await;
            });
        }
        Ok(())
    }

    async fn run_scheduled(&self, live: &Arc<LiveEndpoint>, claim: &ScheduleClaim, turn: CpuTurn) {
        let (started, now) = (Instant::now(), self.parts.clock.now());
        let event = json!({ "cron": claim.cron, "scheduledTime": claim.at.0 });
        let (input, head) = (ParsedInput::event(&event), RequestHead::post(live, BTreeMap::new()));
        let (receipt, elapsed, charge) = (ReceiptId::generate(), OnceLock::new(), Arc::default());
        let running = self.parts.runner.run(Task {
            live,
            work: Work::Scheduled,
            by: CalledBy::Owner,
            price: MicroUsd::ZERO,
            call: claim.call.clone(),
            receipt: &receipt,
            head: &head,
            input: &input,
            payer: None,
            payment: None,
            now,
            progress: None,
            stream: None,
            scratch: None,
            charge: &charge,
            turn: &turn,
            elapsed: &elapsed,
        });
        let failure = running.await.err();
        if matches!(failure, Some(CallError::Busy { .. })) && self.is_delayed(live, claim).await {
            return;
        }
        let reason = failure.map(|error| self.reason(&error));
        let micros = started.elapsed().as_micros();
        let finished = self.parts.catalog.finish_schedule(&live.endpoint.id, &claim.call, reason.is_some()).await;
        let failures = finished.unwrap_or_else(|error| {
            log_unavailable(&error, "recording the end of a scheduled run");
            u32::from(reason.is_some())
        });
        let usage = Usage { micros, input_bytes: input.text.len(), run: elapsed.into_inner(), failures };
        self.record_scheduled(live, claim, reason, usage);
    }

    /// Delays a run that got no slot, if there is time until the next one. It has no record then.
    async fn is_delayed(&self, live: &LiveEndpoint, claim: &ScheduleClaim) -> bool {
        let delayed = self.parts.catalog.delay_schedule(&live.endpoint.id, claim, self.parts.clock.now()).await;
        delayed.unwrap_or_else(|error| {
            log_unavailable(&error, "delaying a scheduled run");
            false
        })
    }

    /// Records a run among the tool's calls, as failed if `reason` is set.
    fn record_scheduled(&self, live: &LiveEndpoint, claim: &ScheduleClaim, reason: Option<FailureReason>, usage: Usage) {
        let (endpoint, at) = (&live.endpoint, self.parts.clock.now());
        if let Some(FailureReason { code, .. }) = &reason {
            self.parts.write_behind.failed(Failed {
                call: claim.call.clone(),
                owner: endpoint.owner.clone(),
                endpoint: endpoint.id.clone(),
                slug: endpoint.slug.clone(),
                by: CalledBy::Owner,
                code,
                at,
                paid: None,
                schedule: Some(FailedSchedule { cron: claim.cron.clone(), failures: usage.failures }),
            });
        }
        let outcome = if reason.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded };
        let (code, error, thrown_at) = match reason {
            Some(FailureReason { code, message, thrown_at }) => (Some(code.to_owned()), message, thrown_at),
            None => (None, None, vec![]),
        };
        let record = CallRecord {
            call_id: claim.call.clone(),
            at,
            kind: CallKind::Scheduled,
            schedule: Some(ScheduledRun { cron: claim.cron.clone(), scheduled_time: claim.at }),
            outcome,
            code,
            error,
            thrown_at,
            charged: Charge::No,
            price_usd: MicroUsd::ZERO,
            owner: true,
            payment: PaymentKind::Free,
            duration_ms: millis(usage.micros),
            cpu_ms: usage.run.map(|run| millis(run.spent.cpu_us.into())),
            tier: usage.run.map(|_| endpoint.tier),
            cold: usage.run.map(|run| run.cold),
            input_bytes: usage.input_bytes as u64,
            receipt_id: None,
            version: endpoint.version.clone(),
            method: None,
            status: None,
        };
        self.parts.write_behind.ended(&endpoint.id, record);
    }
}

/// The resources that a scheduled run used, and the failures of its tool.
#[derive(Default)]
struct Usage {
    /// Its duration, in microseconds.
    micros: u128,
    input_bytes: usize,
    /// Absent if it did not run.
    run: Option<RunUsage>,
    /// Number of runs of the tool that have failed in a row.
    failures: u32,
}

/// Returns the address under which an owner's scheduled runs share the processor with callers.
fn share_address(owner: &Owner) -> IpAddr {
    let mut hasher = DefaultHasher::new();
    owner.share().hash(&mut hasher);
    IpAddr::V6(Ipv6Addr::from(SHARE_PREFIX | u128::from(hasher.finish())))
}

#[cfg(test)]
mod tests {
    use tollhouse_base::id::BuilderId;

    use super::*;

    #[test]
    fn owners_have_shares_apart_from_each_other_and_from_callers() {
        let [one, other] = [(); 2].map(|()| share_address(&Owner::Builder(BuilderId::generate())));
        assert_ne!(one, other);
        assert!(one.to_string().starts_with("100::"), "{one}");
        assert_eq!(share_address(&Owner::Platform), share_address(&Owner::Platform));
    }
}
