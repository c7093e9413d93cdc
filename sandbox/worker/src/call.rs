//! The running call as the ops see it: its limits, its requests to the host, its log, its end.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use tollhouse_protocol::{
    Limits, LoadError, LogLevel, LogLine, OpFailure, OpRequest, Outcome, ReplyBody, Said, StopReason, ToHost, ToolReply,
};

use crate::{budget::Budget, host::Outbox};

/// Longest stack kept of a thrown error, in bytes.
const STACK_BYTES: usize = 8 << 10;

/// An op that the host has not answered.
#[derive(Debug)]
struct Waiting {
    /// What the scripts know it by.
    number: u32,
    /// What the host knows it by, once it is sent: rising in the order of sending, never used twice
    /// in a worker's life, so that a late answer hits nothing.
    sent: Option<u32>,
    /// It changes what is kept: the call does not end before it is done.
    writes: bool,
    /// A timer: it takes no turn from other ops.
    sleeps: bool,
    /// Its answer still wakes somebody.
    heard: bool,
    /// The request, until it is its turn to be sent.
    request: Option<OpRequest>,
}

/// State of the running call, and of the load before the first one.
#[derive(Debug)]
pub(crate) struct Call {
    budget: Arc<Budget>,
    limits: Limits,
    outbox: Outbox,
    last_op: u32,
    last_sent: u32,
    ops: u64,
    http_requests: u64,
    waiting: Vec<Waiting>,
    refused: VecDeque<(u32, OpFailure)>,
    log: Log,
    /// Messages of `ctx.progress` so far.
    progress: u64,
    outcome: Option<Outcome>,
    loaded: Option<Result<(), LoadError>>,
}

#[derive(Debug, Default)]
struct Log {
    lines: u64,
    bytes: u64,
    dropped: u64,
}

impl Call {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            limits: Limits::default(),
            outbox: Outbox::default(),
            last_op: 0,
            last_sent: 0,
            ops: 0,
            http_requests: 0,
            waiting: Vec::new(),
            refused: VecDeque::new(),
            log: Log::default(),
            progress: 0,
            outcome: None,
            loaded: None,
        }
    }

    /// A new call, or a load, under `limits`.
    pub(crate) fn begin(&mut self, limits: Limits) {
        self.limits = limits;
        self.ops = 0;
        self.http_requests = 0;
        self.waiting.clear();
        self.refused.clear();
        self.log = Log::default();
        self.progress = 0;
        self.outcome = None;
        self.loaded = None;
    }

    /// Gives a request its number; it is sent when its turn comes.
    pub(crate) fn request(&mut self, request: OpRequest) -> u32 {
        if matches!(request, OpRequest::HttpGetJson { .. }) {
            self.http_requests += 1;
            if self.http_requests > self.limits.http_requests {
                self.stop_ops("httpGetJson requests", self.limits.http_requests);
                return 0;
            }
        }
        self.add(request, false)
    }

    /// A timer of `ms`, the `set`-th of those set now.
    pub(crate) fn sleep(&mut self, ms: u64, set: u64) -> u32 {
        if set > self.limits.timers {
            self.stop_ops("timers at once", self.limits.timers);
            return 0;
        }
        self.add(OpRequest::Sleep { ms }, true)
    }

    /// An op that fails without asking the host.
    pub(crate) fn refuse(&mut self, code: &str, message: &str) -> u32 {
        self.last_op += 1;
        self.refused.push_back((self.last_op, OpFailure { code: code.into(), message: message.into() }));
        self.last_op
    }

    /// Nobody listens to op `number` any more.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(at) = self.waiting.iter().position(|op| op.number == number) {
            if self.waiting[at].request.is_some() {
                self.waiting.remove(at);
            } else {
                self.waiting[at].heard = false;
            }
        }
    }

    /// Takes the op that the host answered off those under way; the scripts' number for it, when
    /// somebody still listens.
    pub(crate) fn answered(&mut self, sent: u32) -> Option<u32> {
        let at = self.waiting.iter().position(|op| op.sent == Some(sent))?;
        let op = self.waiting.remove(at);
        op.heard.then_some(op.number)
    }

    /// The next op that failed without asking the host.
    pub(crate) fn next_refused(&mut self) -> Option<(u32, OpFailure)> {
        self.refused.pop_front()
    }

    /// Whether an op failed without asking the host, and nobody knows yet.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether any answer could wake the handler.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|op| op.heard)
    }

    /// Whether something that changes what is kept is not done yet.
    pub(crate) fn is_writing(&self) -> bool {
        self.waiting.iter().any(|op| op.writes)
    }

    /// Puts every request whose turn has come into the outbox.
    pub(crate) fn send_requests(&mut self) {
        let under_way = |sleeps| self.waiting.iter().filter(|op| op.sleeps == sleeps && op.sent.is_some()).count() as u64;
        let mut turns = self.limits.ops_in_flight.max(1).saturating_sub(under_way(false));
        let mut sleeps = self.limits.timers.max(1).saturating_sub(under_way(true));
        for op in &mut self.waiting {
            let turns = if op.sleeps { &mut sleeps } else { &mut turns };
            if *turns == 0 {
                continue;
            }
            let Some(request) = op.request.take() else { continue };
            *turns -= 1;
            self.last_sent += 1;
            op.sent = Some(self.last_sent);
            if self.outbox.put(&ToHost::Op { op: self.last_sent, request }).is_err() {
                let message = "the request is larger than the host takes".into();
                self.refused.push_back((op.number, OpFailure { code: "quota_exceeded".into(), message }));
            }
        }
        let refused = &self.refused;
        self.waiting.retain(|op| !refused.iter().any(|(number, _)| *number == op.number));
    }

    /// Writes a line to the log, or counts it as dropped.
    pub(crate) fn log(&mut self, level: LogLevel, mut message: String, mut fields: String) {
        let limits = &self.limits;
        cut(&mut message, limits.log_line_bytes);
        if message.len() as u64 + fields.len() as u64 > limits.log_line_bytes {
            fields = String::new();
        }
        let bytes = message.len() as u64 + fields.len() as u64;
        if self.log.lines >= limits.log_lines || self.log.bytes + bytes > limits.log_bytes {
            self.log.dropped += 1;
            return;
        }
        self.log.lines += 1;
        self.log.bytes += bytes;
        self.put_log(LogLine { level, message, fields });
    }

    /// Lets the caller hear how far the call is, unless it has ended, or has said all it may: nothing, where nobody hears.
    pub(crate) fn say(&mut self, mut message: String, fraction: Option<f64>) {
        if self.has_ended() || self.progress >= self.limits.progress_messages {
            return;
        }
        self.progress += 1;
        cut(&mut message, self.limits.progress_bytes);
        // A message is at most `progress_bytes`, far below a frame's limit.
        let _ = self.outbox.put(&ToHost::Progress(Said { message, fraction }));
    }

    /// The handler answered.
    pub(crate) fn reply(&mut self, reply: ToolReply) {
        let (ReplyBody::Json(body) | ReplyBody::Raw(body)) = &reply.body;
        let headers: usize = reply.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if (body.len() + headers) as u64 > self.limits.output_bytes {
            return self.end(Outcome::Stopped(StopReason::OutputSize { limit_bytes: self.limits.output_bytes }));
        }
        if let ReplyBody::Json(json) = &reply.body
            && depth(json) > self.limits.output_depth
        {
            return self.end(Outcome::Stopped(StopReason::OutputDepth { limit: self.limits.output_depth }));
        }
        self.end(Outcome::Returned(reply));
    }

    /// The call has ended. The first end counts.
    pub(crate) fn end(&mut self, mut outcome: Outcome) {
        if self.outcome.is_some() {
            return;
        }
        if let Outcome::Threw(thrown) = &mut outcome {
            cut(&mut thrown.message, self.limits.error_bytes);
            cut(&mut thrown.stack, STACK_BYTES as u64);
        }
        self.outcome = Some(outcome);
    }

    /// The load has ended.
    pub(crate) fn loaded(&mut self, result: Result<(), LoadError>) {
        let result = result.map_err(|mut error| {
            cut(&mut error.message, self.limits.error_bytes);
            error
        });
        self.loaded.get_or_insert(result);
    }

    /// Whether the call has an end.
    pub(crate) fn has_ended(&self) -> bool {
        self.outcome.is_some() || self.loaded.is_some()
    }

    /// The call's end, once.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.finish_log();
        self.outcome.take()
    }

    /// The load's end, once.
    pub(crate) fn take_loaded(&mut self) -> Option<Result<(), LoadError>> {
        self.finish_log();
        self.loaded.take()
    }

    /// Ops of this call so far.
    pub(crate) fn ops(&self) -> u64 {
        self.ops
    }

    /// Frames that wait to be written.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    fn add(&mut self, request: OpRequest, sleeps: bool) -> u32 {
        self.ops += 1;
        if self.ops > self.limits.ops {
            self.stop_ops("requests", self.limits.ops);
            return 0;
        }
        self.last_op += 1;
        let writes = matches!(
            request,
            OpRequest::KvSet { .. }
                | OpRequest::KvDelete { .. }
                | OpRequest::KvAtomic { .. }
                | OpRequest::FileWrite { .. }
                | OpRequest::FileDelete { .. }
        );
        self.waiting.push(Waiting { number: self.last_op, sent: None, writes, sleeps, heard: true, request: Some(request) });
        self.last_op
    }

    fn stop_ops(&self, what: &str, limit: u64) {
        self.budget.stop(StopReason::Ops { what: what.into(), limit });
    }

    fn finish_log(&mut self) {
        if self.log.dropped > 0 {
            let message = format!("{} more log lines were dropped", self.log.dropped);
            self.log.dropped = 0;
            self.put_log(LogLine { level: LogLevel::Warn, message, fields: String::new() });
        }
    }

    fn put_log(&mut self, line: LogLine) {
        // A line is at most `log_line_bytes`, far below a frame's limit.
        let _ = self.outbox.put(&ToHost::Log(line));
    }
}

/// Cuts `text` to `limit` bytes, at a character's edge.
fn cut(text: &mut String, limit: u64) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
}

/// Deepest nesting of arrays and objects in JSON text.
fn depth(json: &Bytes) -> u64 {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0u64, 0u64, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
