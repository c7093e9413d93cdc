//! State of the running call for the ops: its limits, requests, log and end.

use std::sync::Arc;

use bytes::Bytes;
use deno_core::OpState;
use tollhouse_protocol::{
    Limits, LoadError, LogLevel, LogLine, OpRequest, Outcome, ProgressMessage, ReplyBody, StopReason, ToHost, ToolReply,
    limits::STACK_BYTES,
};

use crate::{budget::Budget, compressors::Compressors, decoders::Decoders, host::Outbox, op_queue::OpQueue, rejections};

/// The message of QuickJS's exception for one allocation beyond the heap limit. V8 ends the call there.
const QUICKJS_OUT_OF_MEMORY: &str = "InternalError: out of memory";

/// State of the running call, and of the load before the first one.
#[derive(Debug)]
pub(crate) struct CallState {
    limits: Limits,
    outbox: Outbox,
    ops: OpQueue,
    decoders: Decoders,
    compressors: Compressors,
    log: Log,
    /// Number of `ctx.progress` messages so far.
    progress: u64,
    /// Whether the caller can take a streamed answer.
    streams: bool,
    outcome: Option<Outcome>,
    /// Whether the handler's outcome was taken. Only the work of `ctx.waitUntil` goes on then.
    answered: bool,
    /// Whether the handler waits for work with `ctx.waitUntil`.
    has_background_work: bool,
    loaded: Option<Result<Exports, LoadError>>,
}

/// The exports of a module besides its handler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exports {
    /// Whether there is a function `scheduled`.
    pub(crate) scheduled: bool,
}

#[derive(Debug, Default)]
struct Log {
    lines: u64,
    bytes: u64,
    dropped: u64,
}

impl CallState {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            limits: Limits::default(),
            outbox: Outbox::default(),
            ops: OpQueue::new(budget),
            decoders: Decoders::default(),
            compressors: Compressors::default(),
            log: Log::default(),
            progress: 0,
            streams: false,
            outcome: None,
            answered: false,
            has_background_work: false,
            loaded: None,
        }
    }

    /// Returns the state of the running call.
    pub(crate) fn of(state: &mut OpState) -> &mut Self {
        state.borrow_mut()
    }

    /// Begins a new call, or a load, under `limits`.
    pub(crate) fn begin(&mut self, limits: Limits) {
        self.limits = limits;
        self.ops.begin(limits);
        self.decoders.clear();
        self.compressors.clear();
        rejections::clear();
        self.log = Log::default();
        self.progress = 0;
        self.streams = false;
        self.outcome = None;
        self.answered = false;
        self.has_background_work = false;
        self.loaded = None;
    }

    /// Adds a line to the log, or counts it as dropped.
    pub(crate) fn log(&mut self, level: LogLevel, mut message: String, mut fields: String) {
        let limits = &self.limits;
        cut(&mut message, limits.log_line_bytes);
        let room = limits.log_line_bytes - message.len() as u64;
        if fields.len() as u64 > room {
            fields = shortened(&fields, room);
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

    /// Sends a progress message to the caller, unless the call has ended or has sent its maximum.
    pub(crate) fn push_progress(&mut self, mut message: String, fraction: Option<f64>) {
        if self.has_ended() || self.answered || self.progress >= self.limits.progress_messages {
            return;
        }
        self.progress += 1;
        cut(&mut message, self.limits.progress_bytes);
        // A message has at most `progress_bytes`, far below a frame's limit.
        let _ = self.outbox.put(&ToHost::Progress(ProgressMessage { message, fraction }));
    }

    /// Ends the call with the handler's answer.
    pub(crate) fn reply(&mut self, reply: ToolReply) {
        let body = reply.body.bytes();
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

    /// Ends the call. The first end counts.
    pub(crate) fn end(&mut self, mut outcome: Outcome) {
        if self.outcome.is_some() || self.answered {
            return;
        }
        if cfg!(feature = "quickjs") && matches!(&outcome, Outcome::Threw(thrown) if thrown.message == QUICKJS_OUT_OF_MEMORY) {
            outcome = Outcome::Stopped(StopReason::Memory { limit_bytes: self.limits.heap_bytes });
        }
        if let Outcome::Threw(thrown) = &mut outcome {
            cut(&mut thrown.message, self.limits.error_bytes);
            cut(&mut thrown.stack, STACK_BYTES);
        }
        self.outcome = Some(outcome);
    }

    /// Begins a streamed answer, and returns the number of the op.
    pub(crate) fn open_stream(&mut self, status: u16, headers: Vec<(String, String)>, first: Bytes) -> u32 {
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes as u64 > self.limits.output_bytes {
            self.end(Outcome::Stopped(StopReason::OutputSize { limit_bytes: self.limits.output_bytes }));
            return 0;
        }
        self.ops.request(OpRequest::StreamOpen { status, headers, first })
    }

    /// Sets whether the caller can take a streamed answer.
    pub(crate) fn set_streams(&mut self, streams: bool) {
        self.streams = streams;
    }

    /// Returns whether the caller can take a streamed answer.
    pub(crate) fn streams(&self) -> bool {
        self.streams
    }

    /// Records whether the handler waits for work with `ctx.waitUntil`.
    pub(crate) fn set_background_work(&mut self, has_some: bool) {
        self.has_background_work = has_some;
    }

    /// Returns whether the call goes on after its outcome was taken.
    pub(crate) fn has_background_work(&self) -> bool {
        self.has_background_work
    }

    /// Returns whether the call can be answered now, before its remaining work, which includes pending writes. A
    /// pending charge comes before the answer, even if the handler does not wait for it.
    pub(crate) fn can_be_answered(&self) -> bool {
        self.has_background_work && !self.answered && !self.ops.is_charging()
    }

    /// Ends the load.
    pub(crate) fn loaded(&mut self, result: Result<Exports, LoadError>) {
        let result = result.map_err(|mut error| {
            cut(&mut error.message, self.limits.error_bytes);
            error
        });
        self.loaded.get_or_insert(result);
    }

    /// Returns whether the call, the load, or the work after an answer has ended.
    pub(crate) fn has_ended(&self) -> bool {
        if self.answered { !self.has_background_work } else { self.outcome.is_some() || self.loaded.is_some() }
    }

    /// Takes the end of the call, once.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.finish_log();
        let outcome = self.outcome.take();
        self.answered |= outcome.is_some();
        outcome
    }

    /// Takes the end of the load, once.
    pub(crate) fn take_loaded(&mut self) -> Option<Result<Exports, LoadError>> {
        self.finish_log();
        self.loaded.take()
    }

    /// Returns the ops of the running call.
    pub(crate) fn ops(&mut self) -> &mut OpQueue {
        &mut self.ops
    }

    /// Returns its streaming text decoders.
    pub(crate) fn decoders(&mut self) -> &mut Decoders {
        &mut self.decoders
    }

    /// Returns its streams of compressed data.
    pub(crate) fn compressors(&mut self) -> &mut Compressors {
        &mut self.compressors
    }

    /// Returns the maximum length of its answer, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "a limit is far below 2^53")]
    pub(crate) fn output_bytes(&self) -> f64 {
        self.limits.output_bytes as f64
    }

    /// Moves every request whose turn has come to the outbox.
    pub(crate) fn send_requests(&mut self) {
        self.ops.send(&mut self.outbox);
    }

    /// Returns the frames that wait to be written.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Reports dropped lines in the log.
    pub(crate) fn finish_log(&mut self) {
        if self.log.dropped > 0 {
            let message = format!("further log lines dropped: {}", self.log.dropped);
            self.log.dropped = 0;
            self.put_log(LogLine { level: LogLevel::Warn, message, fields: String::new() });
        }
    }

    fn put_log(&mut self, line: LogLine) {
        // A line has at most `log_line_bytes`, far below a frame's limit.
        let _ = self.outbox.put(&ToHost::Log(line));
    }
}

/// Returns the beginning of a JSON object that is too long, as a string in an object of at most
/// `room` bytes. Empty if nothing fits.
fn shortened(fields: &str, room: u64) -> String {
    const AROUND: u64 = r#"{"cut":""}"#.len() as u64;
    let mut beginning = fields.to_owned();
    // An escaped character, for example a quote, takes two bytes.
    cut(&mut beginning, room.saturating_sub(AROUND) / 2);
    if beginning.is_empty() { String::new() } else { serde_json::json!({ "cut": beginning }).to_string() }
}

/// Cuts `text` to at most `limit` bytes at a character boundary.
fn cut(text: &mut String, limit: u64) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
}

/// Returns the deepest nesting of arrays and objects in JSON text.
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
