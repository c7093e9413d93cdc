//! The pending ops of one call: numbered, sent in order, counted.

use std::{collections::VecDeque, sync::Arc};

use tollhouse_protocol::{
    Limits, OpFailure, OpRequest, StopReason, ToHost,
    limits::{CALL_BYTES, READS_PER_OP, REQUEST_BODY_BYTES, STREAM_CHUNKS},
};

use crate::{budget::Budget, host::Outbox};

/// An op that the host has not answered.
#[derive(Debug)]
struct PendingOp {
    /// Its number in scripts.
    number: u32,
    /// Its number in messages, once it is sent. Numbers rise in sending order and are never reused
    /// in a worker's life, so that a late answer has no effect.
    sent: Option<u32>,
    /// Whether it changes stored data. The call does not end before such an op is answered.
    writes: bool,
    /// Whether it sets the charge of the call, which is final with the answer.
    charges: bool,
    /// The limit on concurrent ops toward which it counts.
    turn: Turn,
    /// Whether its answer still wakes the handler.
    is_awaited: bool,
    /// Bytes of its request, until it is answered.
    bytes: usize,
    /// The request, until it is sent.
    request: Option<OpRequest>,
}

/// The limits on concurrent ops, each with ops of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Request,
    Timer,
    /// The end of a request to another server. It waits for no other op, because those can wait for that server.
    Cancel,
    /// A chunk of the answer. It waits for the caller, and neither delays other ops nor waits for them.
    Chunk,
}

/// The pending ops of one call.
#[derive(Debug)]
pub(crate) struct OpQueue {
    budget: Arc<Budget>,
    limits: Limits,
    last_op: u32,
    last_sent: u32,
    ops: u64,
    http_requests: u64,
    /// Reads of responses so far. They are not among `ops`.
    reads: u64,
    /// Chunks of a streamed answer, and their bytes.
    chunks: u64,
    chunk_bytes: u64,
    waiting: Vec<PendingOp>,
    /// Bytes of the requests that are not sent yet.
    queued_bytes: usize,
    refused: VecDeque<(u32, OpFailure)>,
}

impl OpQueue {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            limits: Limits::default(),
            last_op: 0,
            last_sent: 0,
            ops: 0,
            http_requests: 0,
            reads: 0,
            chunks: 0,
            chunk_bytes: 0,
            waiting: Vec::new(),
            queued_bytes: 0,
            refused: VecDeque::new(),
        }
    }

    /// Discards the ops of the previous call, and applies `limits` to the next.
    pub(crate) fn begin(&mut self, limits: Limits) {
        self.limits = limits;
        self.ops = 0;
        self.http_requests = 0;
        self.reads = 0;
        (self.chunks, self.chunk_bytes) = (0, 0);
        self.waiting.clear();
        self.queued_bytes = 0;
        self.refused.clear();
    }

    /// Queues a request and returns its number.
    pub(crate) fn request(&mut self, request: OpRequest) -> u32 {
        if matches!(request, OpRequest::HttpGetJson { .. } | OpRequest::Fetch { .. }) {
            self.http_requests += 1;
            if self.http_requests > self.limits.http_requests {
                self.stop_ops("requests to other servers", self.limits.http_requests);
                return 0;
            }
        }
        if matches!(&request, OpRequest::Fetch { body, .. } if body.len() > REQUEST_BODY_BYTES) {
            return self.refuse("invalid_argument", &format!("the body of a request can have {REQUEST_BODY_BYTES} bytes, and not more"));
        }
        if let Some(chunk) = request.chunk() {
            self.chunks += 1;
            self.chunk_bytes += chunk.len() as u64;
            let (limit, unit) = if self.chunks > STREAM_CHUNKS { (STREAM_CHUNKS, "chunks") } else { (self.limits.stream_bytes, "bytes") };
            if self.chunks > STREAM_CHUNKS || self.chunk_bytes > limit {
                return self.refuse("quota_exceeded", &format!("a streamed answer can have {limit} {unit}, and not more"));
            }
            return self.add(request, Turn::Chunk);
        }
        let turn = if matches!(request, OpRequest::FetchCancel { .. }) { Turn::Cancel } else { Turn::Request };
        self.add(request, turn)
    }

    /// Queues a read of the response to the request `id`. Returns its number.
    pub(crate) fn read_response(&mut self, id: u32) -> u32 {
        let max = self.limits.ops.saturating_mul(READS_PER_OP);
        self.reads += 1;
        if self.reads > max {
            self.stop_ops("reads of responses", max);
            return 0;
        }
        self.push(OpRequest::FetchRead { id }, Turn::Request)
    }

    /// Queues a timer of `ms` milliseconds. `set` is the number of timers that are set now.
    pub(crate) fn sleep(&mut self, ms: u64, set: u64) -> u32 {
        if set > self.limits.timers {
            self.stop_ops("timers at once", self.limits.timers);
            return 0;
        }
        self.add(OpRequest::Sleep { ms }, Turn::Timer)
    }

    /// Adds an op that fails without a request to the host.
    pub(crate) fn refuse(&mut self, code: &str, message: &str) -> u32 {
        self.last_op += 1;
        self.refused.push_back((self.last_op, OpFailure::new(code, message)));
        self.last_op
    }

    /// Queues a task of the scripts, which runs once all microtasks have. It is delivered like a refused op.
    pub(crate) fn task(&mut self) -> u32 {
        self.refuse("task", "")
    }

    /// Marks op `number` as unwanted: its answer wakes nobody. Returns whether it was sent to the host, which has not
    /// answered.
    pub(crate) fn forget(&mut self, number: u32) -> bool {
        let Some(at) = self.waiting.iter().position(|op| op.number == number) else { return false };
        let is_sent = self.waiting[at].request.is_none();
        if is_sent {
            self.waiting[at].is_awaited = false;
        } else {
            self.queued_bytes -= self.waiting.remove(at).bytes;
        }
        is_sent
    }

    /// Removes the op that the host answered. Returns its number for scripts, if its answer is
    /// still wanted.
    pub(crate) fn answered(&mut self, sent: u32) -> Option<u32> {
        let at = self.waiting.iter().position(|op| op.sent == Some(sent))?;
        let op = self.waiting.remove(at);
        op.is_awaited.then_some(op.number)
    }

    /// Takes the next op that failed without a request to the host.
    pub(crate) fn next_refused(&mut self) -> Option<(u32, OpFailure)> {
        self.refused.pop_front()
    }

    /// Returns whether there is an undelivered op that failed without a request to the host.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Returns whether any answer could wake the handler.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|op| op.is_awaited)
    }

    /// Returns whether a pending op changes stored data.
    pub(crate) fn is_writing(&self) -> bool {
        self.waiting.iter().any(|op| op.writes)
    }

    /// Returns whether a pending op sets the charge of the call.
    pub(crate) fn is_charging(&self) -> bool {
        self.waiting.iter().any(|op| op.charges)
    }

    /// Moves every request whose turn has come to the outbox.
    pub(crate) fn send(&mut self, outbox: &mut Outbox) {
        let mut bytes: usize = self.waiting.iter().filter(|op| op.sent.is_some()).map(|op| op.bytes).sum();
        let in_flight = |turn| self.waiting.iter().filter(|op| op.turn == turn && op.sent.is_some()).count() as u64;
        let mut requests = self.limits.ops_in_flight.max(1).saturating_sub(in_flight(Turn::Request));
        let mut timers = self.limits.timers.max(1).saturating_sub(in_flight(Turn::Timer));
        let mut chunks = 1u64.saturating_sub(in_flight(Turn::Chunk));
        let mut cancels = u64::MAX;
        for op in &mut self.waiting {
            let turns = match op.turn {
                Turn::Request => &mut requests,
                Turn::Timer => &mut timers,
                Turn::Chunk => &mut chunks,
                Turn::Cancel => &mut cancels,
            };
            if *turns == 0 {
                continue;
            }
            let fits = op.turn == Turn::Cancel || bytes + op.bytes <= CALL_BYTES;
            let Some(request) = op.request.take_if(|_| fits) else {
                if op.request.is_some() {
                    // Later ops do not overtake it.
                    *turns = 0;
                }
                continue;
            };
            *turns -= 1;
            bytes += op.bytes;
            self.queued_bytes -= op.bytes;
            self.last_sent += 1;
            op.sent = Some(self.last_sent);
            if outbox.put(&ToHost::Op { op: self.last_sent, request }).is_err() {
                self.refused.push_back((op.number, OpFailure::new("quota_exceeded", "the request is larger than the host accepts")));
            }
        }
        let refused = &self.refused;
        self.waiting.retain(|op| !refused.iter().any(|(number, _)| *number == op.number));
    }

    /// Returns the number of ops of this call so far, without chunks of its answer.
    pub(crate) fn count(&self) -> u64 {
        self.ops
    }

    fn add(&mut self, request: OpRequest, turn: Turn) -> u32 {
        self.ops += u64::from(turn != Turn::Chunk);
        if self.ops > self.limits.ops {
            self.stop_ops("requests", self.limits.ops);
            return 0;
        }
        self.push(request, turn)
    }

    fn push(&mut self, request: OpRequest, turn: Turn) -> u32 {
        let is_small = matches!(turn, Turn::Timer | Turn::Cancel);
        let (writes, bytes) = (request.writes(), if is_small { 0 } else { request.bytes() });
        if bytes > CALL_BYTES {
            return self.refuse("quota_exceeded", "the request is larger than the host accepts");
        }
        if (self.queued_bytes + bytes) as u64 > self.limits.buffer_bytes {
            self.stop_ops("bytes of waiting requests", self.limits.buffer_bytes);
            return 0;
        }
        self.last_op += 1;
        self.queued_bytes += bytes;
        self.waiting.push(PendingOp {
            number: self.last_op,
            sent: None,
            writes,
            charges: matches!(request, OpRequest::Charge { .. }),
            turn,
            // Nothing depends on when a request has ended.
            is_awaited: turn != Turn::Cancel,
            bytes,
            request: Some(request),
        });
        self.last_op
    }

    fn stop_ops(&self, what: &str, limit: u64) {
        self.budget.stop(StopReason::Ops { what: what.into(), limit });
    }
}
