//! Runs a call on a worker.

use std::{io, mem::ManuallyDrop, pin::pin, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tollhouse_protocol::{Limits, OpFailure, OpValue, Outcome, Spent, ToWorker, Work, frame::FrameError};

use super::{
    end::{ExchangeEnd, Interruption},
    ops::{OpAnswer, Ops},
};
use crate::{
    background::BackgroundWork,
    budget::{Budget, BudgetReport},
    call_account::{Breach, CallLedger, Step},
    flow::CallAccount,
    job::OpHost,
    process::Link,
    scheduler::Permit,
    watchdog::Meter,
    wire::Buffers,
};

/// Number of bytes up to which answers are collected for one write.
const BATCH_BYTES: usize = 64 << 10;

/// How a call begins on a worker that has its code loaded.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each call has one and passes it on at once")]
pub(crate) enum StartMessage {
    /// Send the call now. Its budget begins then.
    Now(ToWorker),
    /// The call was sent ahead at this time and its turn has come. Its budget is in force.
    SentAhead(Instant),
}

/// The work to run, its limits, its account of bytes in transit, and its work after the answer.
#[derive(Debug)]
pub(crate) struct ExchangeParams<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) work: Work,
    pub(crate) account: CallAccount<'a>,
    pub(crate) background: BackgroundWork<'a>,
}

/// Runs one call on a worker that has its code loaded, until it ends in any way.
pub(crate) async fn drive(
    link: &Link,
    buffers: &mut Buffers,
    ExchangeParams { limits, work, account, mut background }: ExchangeParams<'_>,
    begin: StartMessage,
    host: &dyn OpHost,
    permit: &mut Permit<'_>,
) -> ExchangeEnd {
    let sent_ahead = match &begin {
        StartMessage::Now(_) => {
            link.meter.begin(Budget::of_call(limits));
            None
        }
        StartMessage::SentAhead(since) => Some(*since),
    };
    let mut ledger = CallLedger::new(*limits, work);
    let running = RunningCall { meter: &link.meter, host };
    let ops = Ops::new(host, limits, account);
    let done = exchange(link, buffers, begin, (host, ops, &mut background), permit, &mut ledger).await;
    let mut report = running.ended();
    // The call may have run before its turn.
    report.wall = sent_ahead.map_or(report.wall, |since| since.elapsed());
    // Bytes after the answer belong to the next call, if one was sent ahead.
    let is_silent = buffers.is_drained() || link.pipeline.len() > 0;
    let (is_refused, done) = match done {
        Ok(Ended::Refused(outcome, spent)) => (true, Ok((outcome, spent))),
        Ok(Ended::Done(outcome, spent)) => (false, Ok((outcome, spent))),
        Err(interruption) => (false, Err(interruption)),
    };
    // A worker whose work was refused still does it.
    let ended = ExchangeEnd::of(done, &report, ledger.ops(), is_silent && buffers.is_sent() && !is_refused);
    host.used(Duration::from_micros(ended.spent.cpu_us.saturating_sub(background.reported_us())));
    ended.after(background.take_answer(), is_refused)
}

/// The end of an exchange.
enum Ended {
    Done(Outcome, Spent),
    /// The call has more work to do after this answer, but there is no place for it.
    Refused(Outcome, Spent),
}

/// A running call. Reports its usage to its host even if the call's future is dropped.
struct RunningCall<'a> {
    meter: &'a Meter,
    host: &'a dyn OpHost,
}

impl RunningCall<'_> {
    fn ended(self) -> BudgetReport {
        ManuallyDrop::new(self).meter.finish()
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.host.used(self.meter.finish().cpu_at_most());
    }
}

async fn exchange(
    link: &Link,
    buffers: &mut Buffers,
    begin: StartMessage,
    (host, mut ops, background): (&dyn OpHost, Ops<'_>, &mut BackgroundWork<'_>),
    permit: &mut Permit<'_>,
    ledger: &mut CallLedger,
) -> Result<Ended, Interruption> {
    let stream = &link.stream;
    let since = if let StartMessage::SentAhead(since) = &begin { *since } else { Instant::now() };
    match begin {
        StartMessage::Now(call) => {
            buffers.put(&call)?;
            buffers.flush(stream)?;
            if buffers.is_sent() {
                link.pipeline.open();
            }
        }
        StartMessage::SentAhead(_) => {
            link.pipeline.take_rest(buffers);
            buffers.flush(stream)?;
        }
    }
    permit.send_ahead(link.pipeline.room());
    let (mut computes_since, mut is_slowed) = (Instant::now(), false);
    let mut slice = pin!(sleep(permit.slice()));
    loop {
        while let Some(message) = buffers.next()? {
            match ledger.admit(message)? {
                Step::Op(op, request) => {
                    close(link, buffers, permit)?;
                    ops.admission(op, request)?;
                }
                Step::Begin => host.started(),
                Step::Log(line) => host.log(line),
                Step::Progress(text) => host.progress(text),
                Step::Wait => {
                    close(link, buffers, permit)?;
                    // Once a reply is on its way, the worker has something to compute again.
                    if ledger.in_flight() > 0 && buffers.is_sent() {
                        permit.park();
                        link.meter.set_parked(true);
                    }
                }
                Step::Decline if link.pipeline.decline() => {}
                Step::Decline => return Err(Breach::Protocol("a declined call that was not sent").into()),
                Step::Drop => {}
                Step::Answer(outcome, claim) => {
                    close(link, buffers, permit)?;
                    let wall_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                    let spent = Spent { cpu_us: claim.cpu_us.min(wall_us), wall_us, heap_bytes: claim.heap_bytes, ops: ledger.ops() };
                    if !background.begin(&outcome, spent.cpu_us) {
                        return Ok(Ended::Refused(outcome, claim));
                    }
                    host.used(Duration::from_micros(spent.cpu_us));
                    host.answered(outcome, spent);
                }
                Step::Done(outcome, claim) => {
                    // Ops that the handler did not wait for get one chance to complete.
                    while ops.next().now_or_never().flatten().is_some() {}
                    return Ok(Ended::Done(outcome, claim));
                }
            }
        }
        tokio::select! {
            biased;
            Some(answered) = ops.next() => {
                let mut answered = Some(answered);
                while let Some(OpAnswer { op, kind, result, .. }) = answered {
                    ledger.answered(kind, result.is_ok());
                    put_reply(buffers, op, result)?;
                    ops.note_unsent(buffers.unsent());
                    let has_room = buffers.unsent() < BATCH_BYTES;
                    answered = if has_room { ops.next().now_or_never().flatten() } else { None };
                }
                permit.request_resume();
            }
            () = permit.resumed(), if permit.is_resuming() => {
                link.meter.set_parked(false);
                (computes_since, is_slowed) = (Instant::now(), false);
                slice.as_mut().reset(computes_since + permit.slice());
            }
            changed = buffers.changed(stream) => {
                changed?;
                buffers.fill(stream)?;
            }
            () = &mut slice, if permit.computes() && !is_slowed => {
                if permit.end_slice(computes_since.elapsed() >= permit.quantum()) {
                    link.meter.slow_down();
                    is_slowed = true;
                }
                slice.as_mut().reset(Instant::now() + permit.slice());
            }
        }
        if permit.computes() {
            buffers.flush(stream)?;
        }
        ops.note_unsent(buffers.unsent());
    }
}

/// Stops sending calls ahead to the worker, because its call makes a request or waits.
fn close(link: &Link, buffers: &mut Buffers, permit: &Permit<'_>) -> io::Result<()> {
    link.pipeline.close(buffers);
    if permit.computes() { buffers.flush(&link.stream) } else { Ok(()) }
}

fn put_reply(buffers: &mut Buffers, op: u32, result: Result<OpValue, OpFailure>) -> Result<(), FrameError> {
    match buffers.put(&ToWorker::Reply { op, result }) {
        Err(FrameError::TooLarge(bytes)) => {
            let failure = OpFailure::new("too_large", format!("the answer has {bytes} bytes, which is more than a worker accepts"));
            buffers.put(&ToWorker::Reply { op, result: Err(failure) })
        }
        put => put,
    }
}
