//! One worker process: started by a thread that lives as long as the pool, ended by SIGKILL.
//!
//! The kernel sends a worker its parent-death signal when the *thread* that started it ends, so
//! workers are started by a thread of their own and not by one of the runtime's, which come and
//! go. Another thread waits for ended processes, so that nobody else has to.

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixStream as Socket},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::Shutdown,
};
use tokio::{
    net::UnixStream,
    sync::{Notify, oneshot},
    time::{Instant, timeout},
};
use tollhouse_protocol::{Bundle, Isolation, JailLayer, Limits, ToHost};

use crate::{
    PoolConfig, PoolError,
    pipeline::Pipeline,
    usage::Usage,
    watch::{Alarm, Link},
    wire::Buffers,
};

/// Starts processes and waits for their end. Its threads end with it.
#[derive(Debug)]
pub(crate) struct Nursery {
    orders: mpsc::Sender<oneshot::Sender<io::Result<(Child, Socket)>>>,
    graves: mpsc::Sender<Child>,
    census: Arc<Census>,
}

/// Processes that are there.
#[derive(Debug, Default)]
struct Census {
    /// Started and not ended by us.
    live: AtomicUsize,
    /// Started and not waited for.
    unburied: AtomicUsize,
    buried: Notify,
}

impl Nursery {
    /// # Errors
    ///
    /// [`PoolError::Spawn`] when the threads cannot be started.
    pub(crate) fn new(config: &PoolConfig) -> Result<Self, PoolError> {
        let (orders, ordered) = mpsc::channel::<oneshot::Sender<io::Result<(Child, Socket)>>>();
        let (graves, dead) = mpsc::channel::<Child>();
        let census = Arc::<Census>::default();
        let (config, counted) = (config.clone(), Arc::clone(&census));
        let starter = move || {
            for order in ordered {
                if let Err(Ok((mut child, _))) = order.send(start(&config)) {
                    // Nobody waits for it any more.
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        };
        let digger = move || {
            for mut child in dead {
                let _ = child.wait();
                counted.unburied.fetch_sub(1, Ordering::AcqRel);
                counted.buried.notify_waiters();
            }
        };
        thread::Builder::new().name("tollhouse-start".into()).spawn(starter).map_err(spawn_error)?;
        thread::Builder::new().name("tollhouse-wait".into()).spawn(digger).map_err(spawn_error)?;
        Ok(Self { orders, graves, census })
    }

    /// Processes that were started and not ended.
    pub(crate) fn live(&self) -> usize {
        self.census.live.load(Ordering::Acquire)
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_buried(&self) {
        loop {
            let buried = self.census.buried.notified();
            if self.census.unburied.load(Ordering::Acquire) == 0 {
                return;
            }
            buried.await;
        }
    }

    /// Starts a process. It has to be told to [`Process::wait_until_ready`] before it is used.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] with what the system said.
    pub(crate) async fn start(&self, config: &PoolConfig, alarm: &Arc<Alarm>) -> Result<Process, PoolError> {
        let (order, answer) = oneshot::channel();
        self.orders.send(order).map_err(spawn_error)?;
        let (child, socket) = answer.await.map_err(spawn_error)?.map_err(spawn_error)?;
        self.census.live.fetch_add(1, Ordering::AcqRel);
        self.census.unburied.fetch_add(1, Ordering::AcqRel);
        let (pid, mut grave) = (child.id(), Grave { child: Some(child), graves: self.graves.clone(), census: Arc::clone(&self.census) });
        let stream = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket));
        let stream = stream.inspect_err(|_| grave.fill()).map_err(spawn_error)?;
        Ok(Process {
            pid,
            link: Link::new(stream, Pipeline::new(config.pipeline, config.pipeline_time), Arc::clone(alarm)),
            born: Instant::now(),
            grave: Mutex::new(grave),
            jail: OnceLock::new(),
            loaded: OnceLock::new(),
            calls: AtomicU64::new(0),
            first_idle_bytes: AtomicU64::new(0),
            has_heir: AtomicBool::new(false),
            is_doomed: AtomicBool::new(false),
        })
    }
}

fn start(config: &PoolConfig) -> io::Result<(Child, Socket)> {
    let (ours, theirs) = Socket::pair()?;
    // The worker inherits its end under the number it has here, and closes all others first thing.
    // Only this thread starts workers, so none of them gets the end of another.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let child = Command::new(&config.worker)
        .args(["--socket", &theirs.as_raw_fd().to_string()])
        .args(&config.worker_args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

fn spawn_error(error: impl std::fmt::Display) -> PoolError {
    PoolError::Spawn(error.to_string())
}

/// A worker process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) link: Link,
    pub(crate) born: Instant,
    grave: Mutex<Grave>,
    jail: OnceLock<Vec<JailLayer>>,
    /// What it holds, once it holds something.
    pub(crate) loaded: OnceLock<Holding>,
    pub(crate) calls: AtomicU64,
    /// Resident memory when it was first seen idle after a call, in bytes; 0 before.
    pub(crate) first_idle_bytes: AtomicU64,
    /// Whether a successor is under way.
    pub(crate) has_heir: AtomicBool,
    /// Whether it must not serve another call.
    pub(crate) is_doomed: AtomicBool,
}

/// The code in a worker, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) endpoint: Box<str>,
    pub(crate) limits: Limits,
    pub(crate) isolation: Isolation,
}

impl Holding {
    /// Whether a worker that holds `self` may serve a call of `endpoint` with this bundle and these
    /// limits. Another endpoint with the same code gets a process of its own.
    pub(crate) fn serves(&self, endpoint: &str, bundle: &Arc<Bundle>, limits: &Limits) -> bool {
        *self.endpoint == *endpoint
            && (Arc::ptr_eq(&self.bundle, bundle) || self.bundle.version == bundle.version && self.bundle.schemas == bundle.schemas)
            && self.limits.heap_bytes == limits.heap_bytes
            && self.limits.buffer_bytes == limits.buffer_bytes
    }
}

impl Process {
    /// Waits until the worker is jailed and ready for a bundle.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] when it ends, says something else, or takes longer than
    /// [`PoolConfig::boot_patience`].
    pub(crate) async fn wait_until_ready(&self, config: &PoolConfig) -> Result<(), PoolError> {
        let mut buffers = Buffers::default();
        let first = timeout(config.boot_patience, first_message(&self.link.stream, &mut buffers)).await;
        let jail = match first {
            Ok(Some(ToHost::Ready { jail })) if buffers.are_empty() => jail,
            Ok(_) => return Err(spawn_error("worker ended before it was ready")),
            Err(_) => return Err(spawn_error("worker was not ready in time")),
        };
        // What cannot be watched is not lent.
        Usage::of(self.pid).map_err(|_| spawn_error("the worker's entry in /proc cannot be read"))?;
        self.jail.set(jail).map_err(|_| spawn_error("worker was ready twice"))
    }

    /// The layers of the jail that are in force, once it is ready.
    pub(crate) fn jail(&self) -> Option<&[JailLayer]> {
        self.jail.get().map(Vec::as_slice)
    }

    /// Ends the process now.
    pub(crate) fn end(&self) {
        self.grave.lock().unwrap_or_else(PoisonError::into_inner).fill();
        // The call that uses the socket learns of it even if something else holds the other end.
        let _ = rustix::net::shutdown(&self.link.stream, Shutdown::Both);
    }

    /// Whether nobody ended it yet.
    pub(crate) fn is_live(&self) -> bool {
        self.grave.lock().unwrap_or_else(PoisonError::into_inner).child.is_some()
    }

    pub(crate) fn is_doomed(&self) -> bool {
        self.is_doomed.load(Ordering::Acquire)
    }

    pub(crate) fn doom(&self) {
        self.is_doomed.store(true, Ordering::Release);
    }
}

async fn first_message(stream: &UnixStream, buffers: &mut Buffers) -> Option<ToHost> {
    loop {
        if let Some(message) = buffers.next().ok()? {
            return Some(message);
        }
        buffers.changed(stream).await.ok()?;
        buffers.fill(stream).ok()?;
    }
}

/// Where a process goes.
#[derive(Debug)]
struct Grave {
    child: Option<Child>,
    graves: mpsc::Sender<Child>,
    census: Arc<Census>,
}

impl Grave {
    fn fill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            self.census.live.fetch_sub(1, Ordering::AcqRel);
            if let Err(mpsc::SendError(mut child)) = self.graves.send(child) {
                let _ = child.wait();
            }
        }
    }
}

impl Drop for Grave {
    fn drop(&mut self) {
        self.fill();
    }
}
