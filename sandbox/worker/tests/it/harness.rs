//! Test host for one worker, with a map as store and a fake clock.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use tollhouse_protocol::{
    AtomicWrite, Bundle, JailReport, Language, Limits, Load, LoadError, LoadFault, Loaded, LogLine, OpFailure, OpRequest, OpValue, Outcome,
    ProgressMessage, ReplyBody, Schemas, Source, Spent, Start, StopReason, Tier, ToHost, ToWorker, ToolReply, Work,
    frame::{self, PREFIX_BYTES},
    limits::BODY_CHUNK_BYTES,
};

/// Value of `Date.now()` at the start of every call.
pub const NOW_MS: u64 = 1_760_000_000_000;

pub struct Worker {
    child: Child,
    stream: UnixStream,
    pub jail: JailReport,
    pub limits: Limits,
    pub schemas: Schemas,
    pub work: Work,
    pub announced: bool,
    /// Whether the caller takes a streamed answer.
    pub streams: bool,
    /// Number of chunks of an answer after which the caller is gone.
    pub takes_chunks: usize,
    /// Number of times that the worker reported that a handler began.
    pub started: usize,
    pub env: Vec<(String, String)>,
    /// `req.query` as JSON text.
    pub query: String,
    pub kv: BTreeMap<String, Vec<u8>>,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Body of the call, if it is not JSON.
    pub body: Option<Vec<u8>>,
    /// Its `Content-Type`.
    pub content_type: String,
    /// The pieces of the bodies of responses from `pieces.example`, after the first.
    pub pieces: VecDeque<Result<OpValue, OpFailure>>,
    /// Ops of the last call, in order.
    pub ops: Vec<OpRequest>,
    pub logs: Vec<LogLine>,
    /// Progress messages of the last call.
    pub messages: Vec<ProgressMessage>,
    /// Answers of the last call before its end.
    pub answers: Vec<Outcome>,
    /// Compiled code of the bundle, if the worker sent it.
    pub compiled: Option<Bytes>,
    /// Highest number of concurrent ops of the last call, without timers.
    pub max_in_flight: usize,
    pub waits: usize,
    /// Peak memory of the process, in bytes, once it has ended.
    peak: Option<u64>,
}

/// How a call ended.
pub struct CallEnd {
    pub outcome: Outcome,
    pub spent: Spent,
}

impl Worker {
    /// Starts a blank worker of the tier in `TOLLHOUSE_TIER`, or of the default tier.
    pub fn start() -> Self {
        Self::of_tier(std::env::var("TOLLHOUSE_TIER").map_or(Tier::default(), |name| Tier::named(&name).unwrap()))
    }

    /// Starts a blank worker of a tier.
    pub fn of_tier(tier: Tier) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let descriptor: OwnedFd = theirs.into();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse-worker"));
        command
            .args(["--socket", "3", "--tier", &tier.to_string()])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        let source = descriptor.as_raw_fd();
        #[expect(unsafe_code, reason = "the child's descriptor must get its number between fork and exec")]
        // SAFETY: dup2 and fcntl are async-signal-safe, and both descriptors belong to the child.
        unsafe {
            command.pre_exec(move || {
                // dup2(2) of a descriptor onto itself keeps its close-on-exec flag.
                let moved = if source == 3 { libc::fcntl(3, libc::F_SETFD, 0) == 0 } else { libc::dup2(source, 3) == 3 };
                if moved { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = command.spawn().unwrap();
        drop(descriptor);
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut worker = Self {
            child,
            stream: ours,
            jail: JailReport::default(),
            limits: Limits::default(),
            schemas: Schemas::default(),
            work: Work::Handle,
            announced: false,
            streams: false,
            takes_chunks: usize::MAX,
            started: 0,
            env: Vec::new(),
            query: r#"{"q":"1"}"#.into(),
            kv: BTreeMap::new(),
            files: BTreeMap::new(),
            body: None,
            pieces: VecDeque::new(),
            content_type: "application/json".into(),
            ops: Vec::new(),
            logs: Vec::new(),
            messages: Vec::new(),
            answers: Vec::new(),
            compiled: None,
            max_in_flight: 0,
            waits: 0,
            peak: None,
        };
        match worker.receive() {
            Some(ToHost::Ready { jail }) => worker.jail = jail,
            other => panic!("the first message of the worker is {other:?}"),
        }
        worker
    }

    /// Starts a worker and loads `source`.
    pub fn with(source: &str) -> Self {
        let mut worker = Self::start();
        worker.load(source, Language::Js).unwrap();
        worker
    }

    /// Starts a worker whose handler has this body, with `req` and `ctx` in scope.
    pub fn handler(body: &str) -> Self {
        Self::with(&format!("export default async function (req, ctx) {{\n{body}\n}}"))
    }

    /// The same with other limits.
    pub fn handler_limited(body: &str, limits: Limits) -> Self {
        let mut worker = Self::start();
        worker.limits = limits;
        worker.load(&format!("export default async function (req, ctx) {{\n{body}\n}}"), Language::Js).unwrap();
        worker
    }

    pub fn load(&mut self, source: &str, language: Language) -> Result<Loaded, LoadError> {
        self.load_bundle(Some(Source { text: source.as_bytes().to_vec().into(), language })).map_err(|fault| match fault {
            LoadFault::Handler(error) => error,
            other => panic!("the source is not to blame: {other:?}"),
        })
    }

    /// Loads a bundle with this worker's schemas.
    pub fn load_bundle(&mut self, source: Option<Source>) -> Result<Loaded, LoadFault> {
        let bundle =
            Bundle { version: "0".repeat(64), specifier: "tool:/example/000000000000".into(), source, schemas: self.schemas.clone() };
        self.send(&ToWorker::Load(Load { bundle, limits: self.limits }));
        loop {
            match self.receive() {
                Some(ToHost::Loaded(result)) => return result,
                Some(ToHost::Compiled(code)) => self.compiled = Some(code),
                Some(ToHost::Log(line)) => self.logs.push(line),
                Some(ToHost::Waiting) => {}
                Some(ToHost::Op { op, request }) => self.answer(op, &request),
                other => panic!("while loading, the worker sent {other:?}"),
            }
        }
    }

    /// Calls with `input`, and serves ops until the end.
    pub fn call(&mut self, input: &Value) -> CallEnd {
        self.begin(input);
        self.finish()
    }

    /// Returns the JSON result of a call. Panics if it does not return one.
    pub fn json(&mut self, input: &Value) -> Value {
        let ended = self.call(input);
        match ended.outcome {
            Outcome::Returned(ToolReply { body: ReplyBody::Json(json), .. }) => serde_json::from_slice(&json).unwrap(),
            other => panic!("the call ended with {other:?}; logs {:?}", self.logs),
        }
    }

    /// Returns the error message of a call. Panics if it does not throw.
    pub fn thrown(&mut self, input: &Value) -> String {
        match self.call(input).outcome {
            Outcome::Threw(thrown) => thrown.message,
            other => panic!("the call ended with {other:?}"),
        }
    }

    /// Returns why a call was stopped. Panics if it was not, or the worker is still there.
    pub fn stopped(&mut self, input: &Value) -> StopReason {
        match self.call(input).outcome {
            Outcome::Stopped(reason) => {
                assert!(self.receive().is_none(), "a stopped worker sends nothing more");
                self.child.wait().unwrap();
                reason
            }
            other => panic!("the call ended with {other:?}"),
        }
    }

    pub fn begin(&mut self, input: &Value) {
        self.ops.clear();
        self.logs.clear();
        self.messages.clear();
        self.answers.clear();
        self.max_in_flight = 0;
        self.waits = 0;
        let head = serde_json::json!({
            "method": "POST", "url": "https://host.example/tools/example?q=1", "path": "/tools/example",
            "headers": {"content-type": self.content_type}, "caller": {"payer": "0xabc", "free": false, "receiptId": "rcpt_1"},
        });
        let head = format!("{{\"query\":{},{}", self.query, &head.to_string()[1..]);
        let start = Start {
            call: "call_1".into(),
            work: self.work,
            announced: self.announced,
            streams: self.streams,
            head: head.into(),
            body: if self.body.is_some() { Bytes::new() } else { input.to_string().into() },
            body_bytes: self.body.as_ref().map(|body| body.len() as u64),
            env: self.env.clone(),
            now_ms: NOW_MS,
            limits: self.limits,
        };
        self.send(&ToWorker::Call(start));
    }

    fn finish(&mut self) -> CallEnd {
        let mut in_flight: Vec<(u32, OpRequest)> = Vec::new();
        let mut last = None;
        loop {
            match self.receive() {
                Some(ToHost::Op { op, request }) => {
                    assert!(last.is_none_or(|last| last < op), "op {op} after {last:?}");
                    last = Some(op);
                    self.ops.push(request.clone());
                    in_flight.push((op, request));
                    let counted = in_flight.iter().filter(|(_, request)| !matches!(request, OpRequest::Sleep { .. })).count();
                    self.max_in_flight = self.max_in_flight.max(counted);
                }
                Some(ToHost::Begun) => self.started += 1,
                Some(ToHost::Log(line)) => self.logs.push(line),
                Some(ToHost::Progress(message)) => self.messages.push(message),
                Some(ToHost::Waiting) => {
                    self.waits += 1;
                    // Immediate ops first, then the shortest timer.
                    let next = in_flight.iter().enumerate().min_by_key(|(_, (_, request))| match request {
                        OpRequest::Sleep { ms } => ms + 1,
                        _ => 0,
                    });
                    if let Some((at, _)) = next {
                        let (op, request) = in_flight.remove(at);
                        self.answer(op, &request);
                    }
                }
                Some(ToHost::Answered { outcome, .. }) => self.answers.push(outcome),
                Some(ToHost::Done { outcome, spent }) => return CallEnd { outcome, spent },
                None => return self.end_from_exit_status(),
                other => panic!("during a call, the worker sent {other:?} (exit {:?})", self.child.try_wait()),
            }
        }
    }

    /// Returns the end of a worker that sent no message, from its exit status.
    fn end_from_exit_status(&mut self) -> CallEnd {
        let status = self.reap();
        let reason = status.code().and_then(|status| StopReason::of_exit_status(status, &self.limits));
        let reason = reason.unwrap_or_else(|| panic!("during a call, the worker ended: {status}"));
        CallEnd { outcome: Outcome::Stopped(reason), spent: Spent::default() }
    }

    fn answer(&mut self, op: u32, request: &OpRequest) {
        let json = |value: Value| Ok(OpValue::Json(value.to_string().into()));
        #[allow(clippy::match_wildcard_for_single_variants, reason = "other ops need no answer here")]
        let result = match request {
            OpRequest::KvGet { key } => Ok(self.kv.get(key).map_or(OpValue::None, |value| OpValue::Json(value.clone().into()))),
            OpRequest::KvSet { key, value, .. } => {
                self.kv.insert(key.clone(), value.to_vec());
                Ok(OpValue::None)
            }
            OpRequest::KvDelete { key } => {
                self.kv.remove(key);
                Ok(OpValue::None)
            }
            OpRequest::KvList { prefix, limit, .. } => {
                let rows = self.kv.iter().filter(|(key, _)| key.starts_with(prefix)).take(*limit as usize);
                let rows: Vec<Value> = rows
                    .map(|(key, value)| serde_json::json!({"key": key, "value": serde_json::from_slice::<Value>(value).unwrap()}))
                    .collect();
                json(serde_json::json!({"entries": rows, "cursor": null}))
            }
            OpRequest::KvAtomic { checks, writes } => {
                let holds = checks.iter().all(|check| self.kv.get(&check.key).map(Vec::as_slice) == check.value.as_deref());
                if holds {
                    for write in writes {
                        self.write(write);
                    }
                }
                json(serde_json::json!({"ok": holds}))
            }
            OpRequest::FileRead { path } => Ok(self.files.get(path).map_or(OpValue::None, |held| OpValue::Bytes(held.clone().into()))),
            OpRequest::BodyRead { offset } => {
                let body = self.body.as_deref().unwrap_or_default();
                let rest = body.get(usize::try_from(*offset).unwrap()..).unwrap_or_default();
                let piece = &rest[..rest.len().min(BODY_CHUNK_BYTES)];
                Ok(if piece.is_empty() { OpValue::None } else { OpValue::Bytes(piece.to_vec().into()) })
            }
            OpRequest::FileWrite { path, content } => {
                self.files.insert(path.clone(), content.to_vec());
                Ok(OpValue::None)
            }
            OpRequest::FileList { prefix, .. } => {
                let rows: Vec<Value> = self
                    .files
                    .iter()
                    .filter(|(path, _)| path.starts_with(prefix))
                    .map(|(path, held)| serde_json::json!({"path": path, "size": held.len(), "modifiedAt": "2026-01-01T00:00:00.000Z"}))
                    .collect();
                json(serde_json::json!({"files": rows, "cursor": null}))
            }
            OpRequest::HttpGetJson { url, .. } if url.contains("10.0.0.1") => {
                Err(OpFailure::new("forbidden_address", "`10.0.0.1` is not a public address"))
            }
            OpRequest::HttpGetJson { url, .. } if url.contains("missing") => {
                Err(OpFailure { status: Some(404), ..OpFailure::new("not_json", "the answer (status 404) is `text/html`, not JSON") })
            }
            OpRequest::HttpGetJson { url, .. } => {
                json(serde_json::json!({"status": 200, "headers": {"x-test": "1"}, "json": {"url": url}}))
            }
            OpRequest::Fetch { url, .. } if url.contains("10.0.0.1") => {
                Err(OpFailure::new("forbidden_address", "`10.0.0.1` is not a public address"))
            }
            OpRequest::Fetch { url, .. } if url.contains("pieces.example") => {
                let head = serde_json::json!({
                    "status": 200, "statusText": "OK", "url": url, "redirected": false, "headers": [["content-type", "text/event-stream"]],
                });
                Ok(OpValue::Response { head: head.to_string().into(), body: "first;".into(), more: true })
            }
            OpRequest::FetchRead { .. } => self.pieces.pop_front().unwrap_or(Ok(OpValue::None)),
            OpRequest::Fetch { method, url, body, .. } => {
                let headers = [["content-type", "application/json"], ["x-word", "caf\u{e9}"], ["set-cookie", "a=b"], ["set-cookie", "c=d"]];
                let head = serde_json::json!({
                    "status": 201, "statusText": "Created", "url": url, "redirected": true, "headers": headers,
                });
                let sent = String::from_utf8_lossy(body);
                let body = serde_json::json!({ "method": method, "body": sent }).to_string();
                Ok(OpValue::Response { head: head.to_string().into(), body: body.into(), more: false })
            }
            OpRequest::StreamOpen { .. } | OpRequest::StreamWrite { .. }
                if self.takes_chunks != usize::MAX && self.chunks().len() > self.takes_chunks =>
            {
                Err(OpFailure::new("canceled", "the caller is gone"))
            }
            OpRequest::Sleep { ms } => {
                std::thread::sleep(Duration::from_millis((*ms).min(50)));
                Ok(OpValue::None)
            }
            other => {
                if let OpRequest::FileDelete { path } = other {
                    self.files.remove(path);
                }
                Ok(OpValue::None)
            }
        };
        self.send(&ToWorker::Reply { op, result });
    }

    /// Returns the chunks of the answer of the last call.
    pub fn chunks(&self) -> Vec<Bytes> {
        self.ops.iter().filter_map(OpRequest::chunk).cloned().collect()
    }

    fn write(&mut self, write: &AtomicWrite) {
        match write {
            AtomicWrite::Set { key, value, .. } => {
                self.kv.insert(key.clone(), value.to_vec());
            }
            AtomicWrite::Delete { key } => {
                self.kv.remove(key);
            }
            AtomicWrite::Add { key, by } => {
                let held = self.kv.get(key).map_or(0, |value| serde_json::from_slice::<i64>(value).unwrap());
                self.kv.insert(key.clone(), (held + by).to_string().into_bytes());
            }
        }
    }

    pub fn send(&mut self, message: &ToWorker) {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes).unwrap();
        // A worker that was just stopped reads nothing anymore.
        let _ = self.stream.write_all(&bytes);
    }

    /// Returns the worker's next message, or `None` if it is gone.
    pub fn receive(&mut self) -> Option<ToHost> {
        let mut prefix = [0; PREFIX_BYTES];
        match self.stream.read_exact(&mut prefix) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset) => return None,
            Err(error) => panic!("no message of the worker can be read: {error}"),
        }
        let mut payload = vec![0; frame::length(prefix).unwrap()];
        self.stream.read_exact(&mut payload).unwrap();
        Some(frame::decode(&payload).unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the peak memory of the process, in bytes. Ends it first if it still runs.
    pub fn peak_bytes(&mut self) -> u64 {
        if self.peak.is_none() {
            let _ = self.child.kill();
            self.reap();
        }
        self.peak.unwrap()
    }

    /// Waits for the process, and records its peak memory.
    #[expect(unsafe_code, reason = "the standard library does not return the usage of a child")]
    fn reap(&mut self) -> ExitStatus {
        let mut status = 0;
        // SAFETY: all zeros are a valid `rusage`, and the child has not been waited for.
        let used = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            assert!(libc::wait4(self.child.id().cast_signed(), &raw mut status, 0, &raw mut used) > 0);
            used
        };
        self.peak = Some(used.ru_maxrss.unsigned_abs() << 10);
        ExitStatus::from_raw(status)
    }

    pub fn wait_for_exit(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
