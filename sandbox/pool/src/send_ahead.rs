//! Admission of a call: it gets a permit of its own, or is sent ahead to a worker that is still
//! busy (see [`pipeline`](crate::pipeline)).

use std::sync::Arc;

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tollhouse_protocol::{Isolation, Start, ToWorker, frame};

use crate::{
    budget::Budget,
    checkout::WorkerRequest,
    core::Core,
    error::PoolError,
    exchange::StartMessage,
    process::{Handover, Process},
    scheduler::{AdmissionRequest, Admitted, Ahead, Permit},
    status::count,
    worker_lease::WorkerLease,
};

/// First size of a frame that is sent ahead, in bytes.
const FRAME_BYTES: usize = 1_024;

/// Largest frame that is sent ahead, in bytes. Sixteen of them nearly fill a socket buffer.
const MAX_AHEAD_BYTES: usize = 16 << 10;

/// A call that can run now.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    /// The worker, if another call handed it over.
    pub(crate) lease: Option<WorkerLease<'a>>,
    pub(crate) permit: Permit<'a>,
    pub(crate) begin: StartMessage,
}

impl Core {
    /// Waits until a call can run: it has a running slot, or it was sent ahead and the worker has
    /// been handed over to it.
    ///
    /// # Errors
    ///
    /// The same as [`Scheduler::acquire`](crate::scheduler::Scheduler::acquire).
    pub(crate) async fn ready<'a>(
        self: &'a Arc<Self>,
        request: WorkerRequest<'_>,
        admission: AdmissionRequest<'a>,
        start: Start,
    ) -> Result<Ready<'a>, PoolError> {
        let deadline = self.scheduler.deadline();
        let mut ahead = if request.isolation == Isolation::Warm { Ahead::Now } else { Ahead::Never };
        let call = ToWorker::Call(start);
        loop {
            if let Admitted::Permit(permit) = self.scheduler.wait(admission, ahead, deadline).await? {
                return Ok(Ready { lease: None, permit, begin: StartMessage::Now(call) });
            }
            ahead = Ahead::Queued;
            if let Some(sent) = self.send_ahead(request, admission, &call) {
                let begin = StartMessage::SentAhead(sent.since);
                let turn_deadline = sent.since + self.config.pipeline_timeout;
                if let Some((lease, permit)) = sent.turn(turn_deadline.min(deadline)).await {
                    return Ok(Ready { lease: Some(lease), permit, begin });
                }
                ahead = Ahead::Never;
            }
        }
    }

    /// Sends a call ahead to a worker that meets `request` and is still busy with another call.
    fn send_ahead<'a>(
        self: &'a Arc<Self>,
        request: WorkerRequest<'_>,
        admission: AdmissionRequest<'a>,
        call: &ToWorker,
    ) -> Option<SentAhead<'a>> {
        let process = self.pipelined(request)?;
        let ahead = SentAhead::send(self, admission, &process, call, Budget::of_call(request.limits))?;
        count(&self.counters.pipelined);
        Some(ahead)
    }

    fn pipelined(&self, request: WorkerRequest<'_>) -> Option<Arc<Process>> {
        self.idle
            .lock()
            .pipelined
            .iter()
            .find(|process| request.is_held_by(process) && !process.is_retired() && process.link.pipeline.room() > 0)
            .cloned()
    }
}

/// A call that was sent ahead and waits for its turn. Dropping it abandons the call.
#[derive(Debug)]
struct SentAhead<'a> {
    core: &'a Arc<Core>,
    admission: AdmissionRequest<'a>,
    turn: oneshot::Receiver<Handover>,
    since: Instant,
}

impl<'a> SentAhead<'a> {
    /// Sends a call ahead to `process`. Returns `None` if the process takes no calls ahead now.
    fn send(core: &'a Arc<Core>, admission: AdmissionRequest<'a>, process: &Process, call: &ToWorker, budget: Budget) -> Option<Self> {
        let mut encoded = Vec::with_capacity(FRAME_BYTES);
        frame::encode(call, &mut encoded).ok().filter(|()| encoded.len() <= MAX_AHEAD_BYTES)?;
        let turn = process.link.pipeline.send(&process.link.stream, &encoded, budget)?;
        Some(Self { core, admission, turn, since: Instant::now() })
    }

    /// Waits for the turn of this call. Returns `None` at `deadline`, or as soon as the worker has
    /// declined the call or ended.
    async fn turn(mut self, deadline: Instant) -> Option<(WorkerLease<'a>, Permit<'a>)> {
        let handover = timeout_at(deadline, &mut self.turn).await.ok()?.ok()?;
        Some(self.take(handover))
    }

    fn take(&self, Handover { process, buffers }: Handover) -> (WorkerLease<'a>, Permit<'a>) {
        (WorkerLease::new(self.core, process, buffers), self.core.scheduler.take_over(self.admission))
    }
}

impl Drop for SentAhead<'_> {
    fn drop(&mut self) {
        self.turn.close();
        // The turn came while the call was being abandoned. The worker may have begun the call, so
        // it is ended.
        if let Ok(turn) = self.turn.try_recv() {
            drop(self.take(turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_protocol::Tier;

    use super::*;
    use crate::{config::PoolConfig, process::LoadedCode, wire::Buffers};

    fn core() -> Arc<Core> {
        Core::new(PoolConfig::new("/bin/false")).unwrap()
    }

    /// A worker that is busy with a call of `endpoint` and takes calls ahead.
    fn busy(core: &Core, endpoint: &str) -> Arc<Process> {
        let (process, _) = Process::standin();
        process.loaded.set(LoadedCode::standin(endpoint)).unwrap();
        process.link.pipeline.open();
        core.idle.lock().pipelined.push(Arc::clone(&process));
        process
    }

    #[tokio::test]
    async fn call_is_sent_ahead_only_to_a_fitting_worker_with_room() {
        let (core, holding) = (core(), LoadedCode::standin("x"));
        busy(&core, "y");
        busy(&core, "x").retire();
        busy(&core, "x").link.pipeline.close(&mut Buffers::default());
        assert!(core.pipelined(WorkerRequest::of(&holding, Tier::Jit)).is_none());
        let process = busy(&core, "x");
        assert!(core.pipelined(WorkerRequest::of(&holding, Tier::Jit)).is_some_and(|found| Arc::ptr_eq(&found, &process)));
        assert!(core.pipelined(WorkerRequest::of(&holding, Tier::Jitless)).is_none(), "its code must not be compiled anymore");
    }

    #[tokio::test]
    async fn worker_is_ended_and_its_slot_freed_if_the_next_call_was_canceled() {
        let (core, admission) = (core(), AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 });
        let (process, _theirs) = Process::standin();
        let (hands_over, turn) = oneshot::channel();
        let sent = SentAhead { core: &core, admission, turn, since: Instant::now() };
        let permit = core.scheduler.acquire(admission).await.unwrap();
        hands_over.send(Handover { process: Arc::clone(&process), buffers: Buffers::default() }).unwrap();
        permit.hand_over();
        drop(sent);
        assert!(!process.is_live());
        assert_eq!(core.scheduler.occupancy().admitted, 0);
    }
}
