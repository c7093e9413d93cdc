//! Starts worker processes on a thread that lives as long as the pool, from a [zygote](Zygotes) if
//! possible.
//!
//! The kernel sends a worker its parent-death signal when the *thread* that started it ends.
//! Therefore a dedicated thread starts workers: the threads of the runtime can end earlier. Workers
//! are ended with SIGKILL. Another thread waits for them, see [`Reaper`].

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream as Socket,
    },
    process::{Command, Stdio},
    sync::{
        Arc, Weak,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::Pid,
};
use tokio::{net::UnixStream, sync::oneshot, time::Instant};
use tollhouse_protocol::Tier;

use crate::{
    cgroups::Groups,
    config::PoolConfig,
    error::PoolError,
    namespace::PidNamespace,
    pipeline::Pipeline,
    process::{Link, Process},
    process_slots::{ProcessSlot, ProcessSlots},
    reaper::{ProcessGuard, Reaper},
    watchdog::Meter,
    watchdog_alarm::Alarm,
    zygote::{ForkedWorker, WorkerSpec, Zygote, ZygoteCounts, Zygotes},
};

/// Interval between two checks of the zygotes. Up to twice as long while workers are being started.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts processes. Its threads end with it.
#[derive(Debug)]
pub(crate) struct Spawner {
    requests: mpsc::Sender<SpawnRequest>,
    reaper: Arc<Reaper>,
}

#[derive(Debug)]
enum SpawnRequest {
    /// Start a process: its tier, its place, and where to deliver it.
    Start(Tier, Arc<ProcessSlot>, oneshot::Sender<io::Result<SpawnedProcess>>),
    /// Replace the current zygotes.
    Distrust,
    /// End all zygotes and remove the groups.
    Close(oneshot::Sender<()>),
}

/// A process that was started. Dropping it ends the process and has it reaped.
#[derive(Debug)]
struct SpawnedProcess {
    pid: Pid,
    child: ProcessGuard,
    slot: Weak<ProcessSlot>,
    socket: Socket,
    is_forked: bool,
}

impl Spawner {
    /// Starts the threads that start processes.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] if the threads cannot be started.
    pub(crate) fn new(config: &PoolConfig, slots: Arc<ProcessSlots>) -> Result<Self, PoolError> {
        let (requests, receiver) = mpsc::channel::<SpawnRequest>();
        let reaper = Arc::new(Reaper::start().map_err(failed)?);
        let mut starter = SpawnerThread {
            zygotes: Zygotes::new(config),
            groups: Groups::new(config),
            slots,
            reaper: Arc::clone(&reaper),
            // Without a namespace to return to, workers stay in this process's namespace and report
            // that.
            namespace: PidNamespace::own().ok(),
            config: config.clone(),
        };
        let serve = move || {
            let mut checked = Instant::now();
            loop {
                match receiver.recv_timeout(CHECK_INTERVAL) {
                    Ok(request) => starter.serve(request),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if checked.elapsed() >= CHECK_INTERVAL {
                    starter.check();
                    checked = Instant::now();
                }
            }
        };
        thread::Builder::new().name("tollhouse-start".into()).spawn(serve).map_err(failed)?;
        Ok(Self { requests, reaper })
    }

    /// Starts a process of a tier, which keeps `slot` until it is gone from the system. Also returns
    /// whether it was forked from a zygote.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] with the error of the system.
    pub(crate) async fn start(
        &self,
        config: &PoolConfig,
        tier: Tier,
        alarm: &Arc<Alarm>,
        slot: Arc<ProcessSlot>,
    ) -> Result<(Process, bool), PoolError> {
        let (request, answer) = oneshot::channel();
        self.requests.send(SpawnRequest::Start(tier, slot, request)).map_err(failed)?;
        let SpawnedProcess { pid, child, slot, socket, is_forked } = answer.await.map_err(failed)?.map_err(failed)?;
        let pid = pid.as_raw_nonzero().get().cast_unsigned();
        let stream = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket)).map_err(failed)?;
        let pipeline = Pipeline::new(config.pipeline, config.pipeline_time);
        Ok((Process::new(pid, tier, (child, slot), Link { stream, pipeline, meter: Meter::new(Arc::clone(alarm)) }), is_forked))
    }

    /// Reports that a started process does not work, so that all zygotes are replaced.
    pub(crate) fn distrust_zygotes(&self) {
        let _ = self.requests.send(SpawnRequest::Distrust);
    }

    /// Ends the zygotes, and waits until they are gone from the system.
    pub(crate) async fn close(&self) {
        let (ended, wait) = oneshot::channel();
        let _ = self.requests.send(SpawnRequest::Close(ended));
        let _ = wait.await;
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_reaped(&self) {
        self.reaper.all_reaped().await;
    }
}

/// The state of the thread that starts processes.
struct SpawnerThread {
    config: PoolConfig,
    zygotes: Zygotes,
    groups: Arc<Groups>,
    /// The record of the memory of the zygotes.
    slots: Arc<ProcessSlots>,
    reaper: Arc<Reaper>,
    namespace: Option<PidNamespace>,
}

impl SpawnerThread {
    fn serve(&mut self, request: SpawnRequest) {
        match request {
            // If the receiver is gone, the delivery is returned and dropped.
            SpawnRequest::Start(tier, slot, request) => drop(request.send(self.start(tier, slot))),
            SpawnRequest::Distrust => self.zygotes.distrust(),
            SpawnRequest::Close(ended) => {
                self.zygotes.close();
                self.groups = Groups::none();
                self.slots.record_zygotes(ZygoteCounts::default());
                let _ = ended.send(());
            }
        }
    }

    fn check(&mut self) {
        self.zygotes.check();
        self.slots.record_zygotes(self.zygotes.counts());
    }

    fn start(&mut self, tier: Tier, slot: Arc<ProcessSlot>) -> io::Result<SpawnedProcess> {
        let (config, user, mut group_limits) = (&self.config, slot.user(), self.groups.take());
        let folder = group_limits.folder();
        let spec = WorkerSpec { user, group: folder.as_ref().map(AsFd::as_fd) };
        let forked = self.zygotes.fork_worker(|| Zygote::start(&mut command(config, tier)), tier, spec);
        let is_forked = forked.is_some();
        let ForkedWorker { pid, socket, is_in_group } = forked.map_or_else(|| spawn(config, tier, user, self.namespace.as_ref()), Ok)?;
        let (child, weak) = (self.reaper.adopt(pid, Arc::clone(&slot)), Arc::downgrade(&slot));
        if !is_in_group {
            group_limits.add_process(pid);
        }
        slot.bind(group_limits);
        Ok(SpawnedProcess { pid, child, slot: weak, socket, is_forked })
    }
}

fn spawn(config: &PoolConfig, tier: Tier, user: Option<u32>, namespace: Option<&PidNamespace>) -> io::Result<ForkedWorker> {
    let (ours, theirs) = Socket::pair()?;
    // The worker inherits its end of the socket under the same number, and first closes all other
    // descriptors. Only this thread starts workers, so none of them inherits the socket of another.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut command = command(config, tier);
    command
        .args(["--socket", &theirs.as_raw_fd().to_string()])
        .args(user.into_iter().flat_map(|user| ["--user".to_owned(), user.to_string()]));
    let child = match namespace {
        Some(here) => here.outside(|| command.spawn())?,
        None => command.spawn()?,
    };
    Ok(ForkedWorker { pid: Pid::from_child(&child), socket: ours, is_in_group: false })
}

/// Returns the command that starts a worker of `tier`, with an empty environment.
fn command(config: &PoolConfig, tier: Tier) -> Command {
    let mut command = Command::new(&config.worker);
    command.args(["--tier", &tier.to_string()]).args(&config.worker_args);
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn failed(error: impl std::fmt::Display) -> PoolError {
    PoolError::Spawn(error.to_string())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::users::UserAllocator;

    #[tokio::test]
    async fn started_process_keeps_its_place_until_it_is_dropped_and_reaped() {
        let config = PoolConfig::new("/bin/false");
        let slots = ProcessSlots::new(2, u64::MAX, UserAllocator::default());
        let spawner = Spawner::new(&config, Arc::clone(&slots)).unwrap();
        let alarm = Arc::default();
        let start = || spawner.start(&config, Tier::Jit, &alarm, slots.take().unwrap());
        let processes = tokio::try_join!(start(), start()).unwrap();
        assert!(slots.take().is_none());
        assert!(spawner.all_reaped().now_or_never().is_none());
        drop(processes);
        spawner.all_reaped().await;
        assert_eq!(slots.taken(), 0);
        drop(start());
        assert_eq!(slots.taken(), 0, "it was not started yet");
    }

    #[tokio::test]
    async fn started_process_without_a_receiver_is_ended_and_reaped() {
        let config = PoolConfig::new("/bin/false");
        let (slots, alarm) = (ProcessSlots::new(1, u64::MAX, UserAllocator::default()), Arc::default());
        let spawner = Spawner::new(&config, Arc::clone(&slots)).unwrap();
        let mut start = Box::pin(spawner.start(&config, Tier::Jit, &alarm, slots.take().unwrap()));
        assert!((&mut start).now_or_never().is_none());
        while spawner.all_reaped().now_or_never().is_some() {
            tokio::task::yield_now().await;
        }
        drop(start);
        spawner.all_reaped().await;
        assert_eq!(slots.taken(), 0);
    }

    #[test]
    fn spawner_is_notified_of_a_broken_process() {
        let (requests, receiver) = mpsc::channel();
        let spawner = Spawner { requests, reaper: Arc::new(Reaper::start().unwrap()) };
        spawner.distrust_zygotes();
        assert!(matches!(receiver.try_recv(), Ok(SpawnRequest::Distrust)));
    }
}
