//! Accounts for the messages of one call, and checks that an honest worker could have sent them.
//!
//! The worker enforces these limits itself, and the ledger enforces them again from outside.
//! Anything that a worker with its handler under control would never do is a [`Breach`]: either of
//! a limit, which becomes the call's outcome, or of the protocol, after which nothing from the
//! worker can be trusted.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tollhouse_protocol::{
    Limits, LogLine, MAX_PROBLEMS, OpRequest, Outcome, Problem, ProgressMessage, ReplyBody, Side, Spent, StopReason, Thrown, ToHost,
    ToolReply, Work,
    limits::{READS_PER_OP, STACK_BYTES, STREAM_CHUNK_BYTES, STREAM_CHUNKS},
};

/// Excess of a count over its limit that is not a breach yet, because host and worker count at
/// different moments.
const SLACK: u64 = 8;

/// Allowance for the headers of a reply in addition to its body, in bytes.
const HEADER_BYTES: u64 = 64 << 10;

/// Why the host ends a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    Limit(StopReason),
    Protocol(&'static str),
}

/// The action that a checked message requires.
#[derive(Debug)]
pub(crate) enum Step {
    /// The handler starts.
    Begin,
    Op(u32, OpRequest),
    Log(LogLine),
    Progress(ProgressMessage),
    Wait,
    /// The first call that was sent ahead must run elsewhere.
    Decline,
    /// No action: a log line or progress message beyond the limits.
    Drop,
    /// The handler has answered, and the call goes on.
    Answer(Outcome, Spent),
    Done(Outcome, Spent),
}

/// The limit on concurrent ops toward which an op counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    Request,
    Timer,
    /// A chunk of a streamed answer. They come one at a time, and have limits of their own.
    Chunk,
    /// None: the end of a request to another server, which the host answers at once.
    Cancel,
}

impl OpKind {
    pub(crate) fn of(request: &OpRequest) -> Self {
        match request {
            OpRequest::Sleep { .. } => Self::Timer,
            request if request.chunk().is_some() => Self::Chunk,
            OpRequest::FetchCancel { .. } => Self::Cancel,
            _ => Self::Request,
        }
    }
}

/// The state of a streamed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Closed,
    /// The host has not accepted the last chunk yet.
    Sending,
    /// The host has room for the next chunk.
    Open,
    /// The host refused a chunk, so the stream has no more.
    Failed,
}

/// The account of one call.
#[derive(Debug)]
pub(crate) struct CallLedger {
    limits: Limits,
    work: Work,
    started: bool,
    answered: bool,
    ops: u64,
    /// Reads of responses, which are not among `ops`.
    reads: u64,
    last_op: Option<u32>,
    requests: u64,
    timers: u64,
    stream: StreamState,
    chunks: u64,
    chunk_bytes: u64,
    waits: u64,
    log_lines: u64,
    log_bytes: u64,
    progress: u64,
}

impl CallLedger {
    pub(crate) fn new(limits: Limits, work: Work) -> Self {
        Self {
            limits,
            work,
            started: false,
            answered: false,
            ops: 0,
            reads: 0,
            last_op: None,
            requests: 0,
            timers: 0,
            stream: StreamState::Closed,
            chunks: 0,
            chunk_bytes: 0,
            waits: 0,
            log_lines: 0,
            log_bytes: 0,
            progress: 0,
        }
    }

    /// Returns the number of ops requested so far, without chunks of the answer.
    pub(crate) fn ops(&self) -> u64 {
        self.ops
    }

    /// Returns the number of pending ops.
    pub(crate) fn in_flight(&self) -> u64 {
        self.requests + self.timers + u64::from(self.stream == StreamState::Sending)
    }

    /// Records that an op was answered, and whether it succeeded.
    pub(crate) fn answered(&mut self, kind: OpKind, is_done: bool) {
        match kind {
            OpKind::Request => self.requests -= 1,
            OpKind::Timer => self.timers -= 1,
            OpKind::Chunk => self.stream = if is_done { StreamState::Open } else { StreamState::Failed },
            OpKind::Cancel => {}
        }
    }

    /// Checks a message of the running call.
    pub(crate) fn admit(&mut self, message: ToHost) -> Result<Step, Breach> {
        if matches!(self.work, Work::Check(_)) && proves_handler_ran(&message) {
            return Err(Breach::Protocol("a check that runs a handler"));
        }
        match message {
            ToHost::Begun => self.admit_begun(),
            ToHost::Op { op, request } => self.admit_op(op, request),
            ToHost::Log(line) => self.admit_log(line),
            ToHost::Progress(text) => self.admit_progress(text),
            ToHost::Waiting => self.admit_wait(),
            ToHost::Declined => Ok(Step::Decline),
            ToHost::Answered { outcome, spent } => self.admit_answer(outcome, spent),
            ToHost::Done { outcome, spent } => Ok(Step::Done(self.check_outcome(outcome)?, spent)),
            ToHost::Ready { .. } | ToHost::Loaded(_) | ToHost::Compiled(_) => Err(Breach::Protocol("a message out of order")),
        }
    }

    fn admit_begun(&mut self) -> Result<Step, Breach> {
        if self.has_begun() || self.answered {
            return Err(Breach::Protocol("a handler that started twice or too late"));
        }
        self.started = true;
        Ok(Step::Begin)
    }

    /// Returns whether the handler has visibly started.
    fn has_begun(&self) -> bool {
        self.started || self.ops > 0 || self.reads > 0 || self.chunks > 0 || self.log_lines > 0 || self.progress > 0
    }

    fn admit_op(&mut self, op: u32, request: OpRequest) -> Result<Step, Breach> {
        if self.last_op.is_some_and(|last| op <= last) {
            return Err(Breach::Protocol("an op number that does not increase"));
        }
        self.last_op = Some(op);
        let kind = OpKind::of(&request);
        if matches!(request, OpRequest::FetchRead { .. }) {
            self.reads += 1;
            over(self.reads, self.limits.ops.saturating_mul(READS_PER_OP), "reads of responses")?;
        } else {
            self.ops += u64::from(kind != OpKind::Chunk);
            over(self.ops, self.limits.ops, "ops")?;
        }
        match kind {
            OpKind::Chunk => self.admit_chunk(&request)?,
            OpKind::Request => {
                self.requests += 1;
                over(self.requests, self.limits.ops_in_flight, "ops at once")?;
            }
            OpKind::Timer => {
                self.timers += 1;
                over(self.timers, self.limits.timers, "timers at once")?;
            }
            OpKind::Cancel => {}
        }
        Ok(Step::Op(op, request))
    }

    /// Checks the next chunk of a streamed answer: its order, its size, and those of the whole.
    fn admit_chunk(&mut self, request: &OpRequest) -> Result<(), Breach> {
        let (expected, headers) = match request {
            OpRequest::StreamOpen { headers, .. } => (StreamState::Closed, headers.as_slice()),
            _ => (StreamState::Open, &[] as &[_]),
        };
        if self.stream != expected || self.answered || self.work != Work::Handle {
            return Err(Breach::Protocol("a chunk of an answer out of order"));
        }
        let bytes = request.chunk().map_or(0, Bytes::len);
        if !(1..=STREAM_CHUNK_BYTES).contains(&bytes) {
            return Err(Breach::Protocol("a chunk of an answer that is empty or too large"));
        }
        if header_bytes(headers) > HEADER_BYTES {
            return Err(Breach::Limit(StopReason::OutputSize { limit_bytes: self.limits.output_bytes }));
        }
        self.stream = StreamState::Sending;
        self.chunks += 1;
        self.chunk_bytes += bytes as u64;
        over(self.chunks, STREAM_CHUNKS, "chunks of an answer")?;
        if self.chunk_bytes > self.limits.stream_bytes {
            return Err(Breach::Limit(StopReason::OutputSize { limit_bytes: self.limits.stream_bytes }));
        }
        Ok(())
    }

    /// Checks a wait message. A worker reports a wait at most once per reply, and occasionally in
    /// between.
    fn admit_wait(&mut self) -> Result<Step, Breach> {
        self.waits += 1;
        if self.waits > (self.ops + self.reads + self.chunks) * 2 + SLACK {
            Err(Breach::Protocol("more waits than ops and timers"))
        } else {
            Ok(Step::Wait)
        }
    }

    /// Cuts a log line to the limit, and drops lines beyond the limits. A worker that sends far too
    /// many does not enforce its own limits.
    fn admit_log(&mut self, mut line: LogLine) -> Result<Step, Breach> {
        if line.fields.len() as u64 > self.limits.log_line_bytes {
            // A truncated piece of JSON is not valid JSON.
            line.fields.clear();
        }
        cut(&mut line.message, self.limits.log_line_bytes - line.fields.len() as u64);
        self.log_lines += 1;
        self.log_bytes += (line.message.len() + line.fields.len()) as u64;
        if self.log_lines > self.limits.log_lines * 2 + SLACK || self.log_bytes > (self.limits.log_bytes + self.limits.log_line_bytes) * 2 {
            return Err(Breach::Protocol("too many log lines"));
        }
        let within =
            self.log_lines <= self.limits.log_lines + SLACK && self.log_bytes <= self.limits.log_bytes + self.limits.log_line_bytes;
        Ok(if within { Step::Log(line) } else { Step::Drop })
    }

    /// Cuts a progress message to the limit, and drops messages beyond the limits. Excess means the
    /// same as in [`CallLedger::admit_log`].
    fn admit_progress(&mut self, mut message: ProgressMessage) -> Result<Step, Breach> {
        self.progress += 1;
        if self.progress > self.limits.progress_messages * 2 + SLACK {
            return Err(Breach::Protocol("too many progress messages"));
        }
        cut(&mut message.message, self.limits.progress_bytes);
        // A fraction outside 0 to 1 is not passed on.
        message.fraction = message.fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
        // After the answer, nobody waits for progress.
        Ok(if !self.answered && self.progress <= self.limits.progress_messages { Step::Progress(message) } else { Step::Drop })
    }

    /// Checks an answer before the end of the call. Only a handler that ran can have work left.
    fn admit_answer(&mut self, outcome: Outcome, spent: Spent) -> Result<Step, Breach> {
        let is_possible = match outcome {
            Outcome::Returned(_) | Outcome::Threw(_) | Outcome::Invalid(Side::Output, _) => true,
            Outcome::Invalid(Side::Input, _) | Outcome::Stopped(_) => false,
        };
        if self.answered || self.work != Work::Handle || !is_possible {
            return Err(Breach::Protocol("an answer before the end that is not possible"));
        }
        let outcome = self.check_outcome(outcome)?;
        self.answered = true;
        Ok(Step::Answer(outcome, spent))
    }

    fn check_outcome(&self, outcome: Outcome) -> Result<Outcome, Breach> {
        match outcome {
            Outcome::Returned(reply) => self.check_reply(reply).map(Outcome::Returned),
            Outcome::Threw(_) if matches!(self.work, Work::Check(_)) => Err(Breach::Protocol("a check that threw")),
            Outcome::Threw(thrown) => Ok(Outcome::Threw(self.truncate_thrown(thrown))),
            Outcome::Invalid(side, problems) => self.check_problems(side, problems),
            Outcome::Stopped(StopReason::Crashed) => Err(Breach::Protocol("a reported crash of its own process")),
            Outcome::Stopped(StopReason::Unlisted { side }) => self.check_side(side).map(|()| outcome),
            Outcome::Stopped(reason) => Ok(Outcome::Stopped(reason)),
        }
    }

    fn check_reply(&self, reply: ToolReply) -> Result<ToolReply, Breach> {
        let is_streamed = reply.body == ReplyBody::Streamed;
        // After an answer, an empty reply only reports the end.
        let is_expected =
            if self.answered { !is_streamed } else { self.stream == if is_streamed { StreamState::Open } else { StreamState::Closed } };
        if !is_expected {
            return Err(Breach::Protocol("an answer beside its stream"));
        }
        if reply.body.bytes().len() as u64 > self.limits.output_bytes || header_bytes(&reply.headers) > HEADER_BYTES {
            return Err(Breach::Limit(StopReason::OutputSize { limit_bytes: self.limits.output_bytes }));
        }
        Ok(reply)
    }

    fn check_problems(&self, side: Side, mut problems: Vec<Problem>) -> Result<Outcome, Breach> {
        if problems.is_empty() {
            return Err(Breach::Protocol("an invalid value without a problem"));
        }
        self.check_side(side)?;
        problems.truncate(MAX_PROBLEMS);
        problems.shrink_to_fit();
        for Problem { pointer, message } in &mut problems {
            cut(pointer, self.limits.error_bytes);
            cut(message, self.limits.error_bytes);
        }
        Ok(Outcome::Invalid(side, problems))
    }

    /// Checks that `side` can be found invalid at this point. An input is checked before its
    /// handler starts, so a caller is never blamed for a run that cost more.
    fn check_side(&self, side: Side) -> Result<(), Breach> {
        if matches!(self.work, Work::Check(request) if request != side) {
            return Err(Breach::Protocol("an invalid value on the side that was not checked"));
        }
        if side == Side::Input && self.has_begun() {
            return Err(Breach::Protocol("an input that became invalid after the handler started"));
        }
        Ok(())
    }

    fn truncate_thrown(&self, mut thrown: Thrown) -> Thrown {
        cut(&mut thrown.message, self.limits.error_bytes);
        cut(&mut thrown.stack, STACK_BYTES);
        thrown
    }
}

/// Returns whether only a running handler can have sent this message.
fn proves_handler_ran(message: &ToHost) -> bool {
    matches!(message, ToHost::Begun | ToHost::Op { .. } | ToHost::Log(_) | ToHost::Progress(_) | ToHost::Answered { .. })
}

fn header_bytes(headers: &[(String, String)]) -> u64 {
    headers.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
}

fn over(count: u64, limit: u64, what: &str) -> Result<(), Breach> {
    if count > limit + SLACK { Err(Breach::Limit(StopReason::Ops { what: what.into(), limit })) } else { Ok(()) }
}

/// Shortens `text` to at most `bytes` at a character boundary.
fn cut(text: &mut String, bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.shrink_to_fit();
    }
}
