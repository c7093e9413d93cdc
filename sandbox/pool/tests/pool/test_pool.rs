//! Shared test setup: a pool, tools to run in it, and lookups of its processes in `/proc`.

use std::{
    fs,
    net::IpAddr,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;
use tollhouse_pool::{CompletedRun, Job, OpHost, Pool, PoolConfig, PoolError};
use tollhouse_protocol::{
    Bundle, Isolation, Language, Limits, LogLine, OpFailure, OpRequest, OpValue, Outcome, ProgressMessage, ReplyBody, Schemas, Source,
    Start, Tier, Work,
};

pub const COUNTER: &str = "let calls = 0; export default () => ++calls;";
pub const ENDLESS: &str = "export default () => { for (;;) {} };";

/// A pool whose workers have a unique name, by which they are found in `/proc`.
pub struct TestPool {
    pub pool: Pool,
    pub name: String,
    /// Processor time reported to calls, oldest first.
    pub used: Mutex<Vec<Duration>>,
    link: PathBuf,
}

impl TestPool {
    pub async fn start(settings: impl FnOnce(&mut PoolConfig)) -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let name = format!("th{}-{}", std::process::id(), POOLS.fetch_add(1, Ordering::Relaxed));
        let link = std::env::temp_dir().join(&name);
        symlink(worker(), &link).unwrap();
        let mut config = PoolConfig::new(&link);
        config.timeout = Duration::from_secs(10);
        // Independent of the machine's speed.
        config.zygote_timeout = config.boot_timeout;
        settings(&mut config);
        let pool = Pool::start(config).unwrap();
        Self { pool, name, used: Mutex::default(), link }
    }

    pub async fn call(&self, tool: &Tool) -> Result<CompletedRun, PoolError> {
        let job = Job {
            bundle: &tool.bundle,
            owner: &tool.owner,
            endpoint: &tool.endpoint,
            caller: tool.caller,
            by_owner: false,
            isolation: tool.isolation,
            tier: tool.tier,
            concurrency: 1_000,
            start: Start {
                call: "call_1".into(),
                work: Work::Handle,
                announced: false,
                streams: false,
                head: Bytes::from_static(br#"{"query":{},"headers":{}}"#),
                body: Bytes::from_static(tool.body.as_bytes()),
                body_bytes: None,
                env: vec![],
                now_ms: 1_700_000_000_000,
                limits: tool.limits,
            },
        };
        self.pool.run(job, &Sleeper(&self.used)).await
    }

    pub fn held(&self, tool: &Tool) -> Option<Duration> {
        self.pool.held(&tool.endpoint)
    }

    pub fn retire(&self, tool: &Tool) {
        self.pool.retire(&tool.endpoint, &tool.bundle.version);
    }

    /// Waits until `holds` is true. Fails after 20 s.
    pub async fn until(&self, holds: impl Fn(&Pool) -> bool) {
        let timeout = Instant::now() + Duration::from_secs(20);
        while !holds(&self.pool) {
            assert!(Instant::now() < timeout, "it never came to be: {:?}", self.pool.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn processes(&self) -> Vec<i32> {
        processes_called(&self.name)
    }

    /// Returns the processes that its workers are forked from.
    pub fn zygotes(&self) -> Vec<i32> {
        zygotes_of(&self.name)
    }

    /// Prevents further processes from starting.
    pub fn take_worker_away(&self) {
        fs::remove_file(&self.link).unwrap();
        self.zygotes().into_iter().for_each(kill);
    }

    pub fn put_worker_back(&self) {
        symlink(worker(), &self.link).unwrap();
    }

    /// Returns its only process.
    pub fn process(&self) -> i32 {
        let [process] = self.processes()[..] else { panic!("not one process: {:?}", self.pool.status()) };
        process
    }

    pub async fn close(self) {
        self.pool.shutdown().await;
        assert_eq!([self.processes(), self.zygotes()].concat(), [0; 0], "every process ends with the pool");
        assert_eq!(self.pool.status().running, 0);
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
    }
}

pub struct Tool {
    pub bundle: Arc<Bundle>,
    endpoint: String,
    owner: String,
    pub caller: Option<IpAddr>,
    pub isolation: Isolation,
    pub tier: Tier,
    pub limits: Limits,
    pub body: &'static str,
}

impl Tool {
    pub fn new(endpoint: &str, source: &str) -> Self {
        let bundle = Bundle {
            version: format!("{:x}", source.bytes().fold(5_381_u64, |hash, byte| hash.wrapping_mul(33) ^ u64::from(byte))),
            specifier: format!("tool:/{endpoint}/1"),
            source: Some(Source { text: Bytes::copy_from_slice(source.as_bytes()), language: Language::Js }),
            schemas: Schemas::default(),
        };
        Self {
            bundle: Arc::new(bundle),
            endpoint: endpoint.into(),
            owner: "builder".into(),
            caller: None,
            isolation: Isolation::Warm,
            tier: Tier::Jit,
            limits: Limits::default(),
            body: "{}",
        }
    }

    pub fn of(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }
}

/// An op host that grants only timers.
struct Sleeper<'a>(&'a Mutex<Vec<Duration>>);

impl OpHost for Sleeper<'_> {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        Box::pin(async move {
            match request {
                OpRequest::Sleep { ms } => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Ok(OpValue::None)
                }
                other => Err(OpFailure::new("not_granted", format!("{other:?}"))),
            }
        })
    }

    fn log(&self, _: LogLine) {}

    fn progress(&self, _: ProgressMessage) {}

    fn used(&self, cpu: Duration) {
        self.0.lock().unwrap().push(cpu);
    }
}

pub fn sleeping(ms: u64) -> String {
    format!("export default async () => {{ await new Promise((wake) => setTimeout(wake, {ms})); return 1; }};")
}

pub fn json(ran: Result<CompletedRun, PoolError>) -> String {
    let ran = ran.unwrap();
    let spent = ran.spent;
    match ran.outcome {
        Outcome::Returned(reply) => match reply.body {
            ReplyBody::Json(json) => String::from_utf8(json.to_vec()).unwrap(),
            body => panic!("a body that is not JSON: {body:?}"),
        },
        other => panic!("no answer: {other:?}, {spent:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the path of the worker comes from the environment")]
fn worker() -> PathBuf {
    let path =
        std::env::var("TOLLHOUSE_WORKER").expect("TOLLHOUSE_WORKER must name the `tollhouse-worker` binary; `cargo xtask test` sets it");
    fs::canonicalize(&path).unwrap_or_else(|error| panic!("TOLLHOUSE_WORKER={path}: {error}"))
}

pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

pub fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Returns the live processes with that name.
pub fn processes_called(name: &str) -> Vec<i32> {
    stats_of(name).into_iter().filter(|(_, stat)| !stat.contains(") Z ")).map(|(pid, _)| pid).collect()
}

/// Returns the zygotes of the processes with that name, dead or alive.
pub fn zygotes_of(name: &str) -> Vec<i32> {
    let program = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.split('\0').next().map(PathBuf::from);
    let is_one_of_theirs = |pid: &i32| program(pid).is_some_and(|program| program.ends_with(name));
    stats_of("tollhouse-fork").into_iter().map(|(pid, _)| pid).filter(is_one_of_theirs).collect()
}

/// Returns the entries in `/proc` of processes with that name, including dead ones that are not
/// reaped.
pub fn stats_of(name: &str) -> Vec<(i32, String)> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let stats = pids.filter_map(|pid: i32| Some((pid, fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)));
    stats.filter(|(_, stat)| stat.contains(&format!("({name})"))).collect()
}
