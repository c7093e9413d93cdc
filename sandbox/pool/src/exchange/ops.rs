//! The ops of one call: those that have started, and those that wait until their bytes fit.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tollhouse_protocol::{Limits, OpFailure, OpRequest, OpValue, StopReason, limits::CALL_BYTES};

use crate::{
    call_account::{Breach, OpKind},
    flow::CallAccount,
    job::OpHost,
};

type Answer = Result<OpValue, OpFailure>;

/// The ops of one call.
pub(super) struct Ops<'a> {
    host: &'a dyn OpHost,
    limits: &'a Limits,
    account: CallAccount<'a>,
    /// `None` before the first op, because most calls have none.
    started: Option<FuturesUnordered<StartedOp<'a>>>,
    /// In order of arrival.
    waiting: VecDeque<PendingOp>,
    /// Number of requests in `started`. Timers take no bytes.
    requests: usize,
    /// Bytes of all ops that have started or wait.
    bytes: usize,
    /// The part of `bytes` that belongs to requests.
    request_bytes: usize,
    /// Bytes of answers that the socket has not taken yet.
    unsent: usize,
}

/// An op that the host has completed.
pub(super) struct OpAnswer {
    pub(super) op: u32,
    pub(super) kind: OpKind,
    pub(super) result: Answer,
    bytes: usize,
    request_bytes: usize,
}

struct PendingOp {
    op: u32,
    request: OpRequest,
    bytes: usize,
    answer_bytes: usize,
}

struct StartedOp<'a> {
    op: u32,
    kind: OpKind,
    bytes: usize,
    request_bytes: usize,
    answer: BoxFuture<'a, Answer>,
}

impl Future for StartedOp<'_> {
    type Output = OpAnswer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<OpAnswer> {
        let Self { op, kind, bytes, request_bytes, .. } = *self;
        self.answer.as_mut().poll(context).map(|result| OpAnswer { op, kind, result, bytes, request_bytes })
    }
}

impl<'a> Ops<'a> {
    pub(super) fn new(host: &'a dyn OpHost, limits: &'a Limits, account: CallAccount<'a>) -> Self {
        Self { host, limits, account, started: None, waiting: VecDeque::new(), requests: 0, bytes: 0, request_bytes: 0, unsent: 0 }
    }

    /// Accepts an op. Begins it if its bytes fit and no op waits before it.
    ///
    /// # Errors
    ///
    /// The requests exceed the bytes of a call. An honest worker waits for room before it sends.
    pub(super) fn admission(&mut self, op: u32, request: OpRequest) -> Result<(), Breach> {
        if matches!(OpKind::of(&request), OpKind::Timer | OpKind::Cancel) {
            self.begin(op, request, 0, 0);
            return Ok(());
        }
        let (bytes, answer_bytes) = (request.bytes(), request.answer_bytes(self.limits));
        self.request_bytes += bytes;
        if self.request_bytes > CALL_BYTES {
            return Err(Breach::Limit(StopReason::Ops { what: "bytes in flight".into(), limit: CALL_BYTES as u64 }));
        }
        self.bytes += bytes;
        self.account.set(self.bytes + self.unsent);
        self.waiting.push_back(PendingOp { op, request, bytes, answer_bytes });
        self.begin_waiting();
        Ok(())
    }

    /// Returns the next completed op, or `None` if no op is pending.
    pub(super) async fn next(&mut self) -> Option<OpAnswer> {
        while !self.waiting.is_empty() {
            let mut freed = pin!(self.account.freed());
            // Bytes that are freed after this line wake us.
            freed.as_mut().enable();
            self.begin_waiting();
            if self.waiting.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(answered) = next(&mut self.started) => return Some(self.done(answered)),
                () = freed => {}
            }
        }
        let answered = next(&mut self.started).await?;
        Some(self.done(answered))
    }

    /// Records how many bytes to the worker its socket has not taken yet.
    pub(super) fn note_unsent(&mut self, unsent: usize) {
        self.unsent = unsent;
        if self.bytes > 0 || self.started.is_some() {
            self.account.set(self.bytes + unsent);
        }
    }

    fn done(&mut self, answered: OpAnswer) -> OpAnswer {
        self.bytes -= answered.bytes;
        self.request_bytes -= answered.request_bytes;
        self.requests -= usize::from(!matches!(answered.kind, OpKind::Timer | OpKind::Cancel));
        answered
    }

    fn begin_waiting(&mut self) {
        while let Some(first) = self.waiting.front()
            && self.account_for(first.answer_bytes)
        {
            let Some(PendingOp { op, request, bytes, answer_bytes }) = self.waiting.pop_front() else { return };
            self.bytes += answer_bytes;
            self.requests += 1;
            self.begin(op, request, bytes + answer_bytes, bytes);
        }
    }

    /// Adds `more` bytes to the account if they fit, and returns whether they did.
    fn account_for(&mut self, more: usize) -> bool {
        let all = self.bytes + self.unsent + more;
        if self.requests == 0 && self.unsent == 0 {
            self.account.set(all);
            return true;
        }
        all <= CALL_BYTES && self.account.try_set(all)
    }

    fn begin(&mut self, op: u32, request: OpRequest, bytes: usize, request_bytes: usize) {
        let started = StartedOp { op, kind: OpKind::of(&request), bytes, request_bytes, answer: self.host.op(request) };
        self.started.get_or_insert_with(FuturesUnordered::new).push(started);
    }
}

async fn next<'a>(started: &mut Option<FuturesUnordered<StartedOp<'a>>>) -> Option<OpAnswer> {
    match started {
        Some(started) => started.next().await,
        None => None,
    }
}
