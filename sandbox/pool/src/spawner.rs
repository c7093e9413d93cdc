//! Starts worker processes on a thread that lives as long as the pool, from a [zygote](Zygotes) if
//! possible.
//!
//! The kernel sends a worker its parent-death signal when the *thread* that started it ends.
//! Therefore a dedicated thread starts workers, and not one of the runtime's threads, which come
//! and go. Workers end by SIGKILL. Another thread waits for them, see [`Reaper`].

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
    alarm::Alarm,
    config::PoolConfig,
    error::PoolError,
    groups::Groups,
    namespace::PidNamespace,
    pipeline::Pipeline,
    places::{Place, Places},
    process::{Link, Process},
    reaper::{Adopted, Reaper},
    watchdog::Meter,
    zygote::{Census, Newborn, Terms, Zygote, Zygotes},
};

/// Interval between two looks at the zygotes. Twice as long while workers are being started.
const LOOK: Duration = Duration::from_secs(1);

/// Starts processes. Its threads end with it.
#[derive(Debug)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
    reaper: Arc<Reaper>,
}

#[derive(Debug)]
enum Order {
    /// Start a process: its tier, its place, and where to deliver it.
    Start(Tier, Arc<Place>, oneshot::Sender<io::Result<Delivery>>),
    /// Replace the current zygotes.
    Distrust,
    /// End all zygotes and remove the groups.
    Close(oneshot::Sender<()>),
}

/// A process that was started. Dropping it ends the process and has it reaped.
#[derive(Debug)]
struct Delivery {
    pid: Pid,
    child: Adopted,
    place: Weak<Place>,
    socket: Socket,
    is_forked: bool,
}

impl Spawner {
    /// Starts the threads that start processes.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] if the threads cannot be started.
    pub(crate) fn new(config: &PoolConfig, places: Arc<Places>) -> Result<Self, PoolError> {
        let (orders, ordered) = mpsc::channel::<Order>();
        let reaper = Arc::new(Reaper::start().map_err(failed)?);
        let mut starter = Starter {
            zygotes: Zygotes::new(config),
            groups: Groups::new(config),
            places,
            reaper: Arc::clone(&reaper),
            // Without a namespace to return to, workers stay in this process's namespace and report
            // that.
            namespace: PidNamespace::own().ok(),
            config: config.clone(),
        };
        let serve = move || {
            let mut looked = Instant::now();
            loop {
                match ordered.recv_timeout(LOOK) {
                    Ok(order) => starter.serve(order),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if looked.elapsed() >= LOOK {
                    starter.look();
                    looked = Instant::now();
                }
            }
        };
        thread::Builder::new().name("tollhouse-start".into()).spawn(serve).map_err(failed)?;
        Ok(Self { orders, reaper })
    }

    /// Starts a process of a tier, which keeps `place` until it is gone from the system. Also
    /// returns whether it was forked from a zygote.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] with the error of the system.
    pub(crate) async fn start(
        &self,
        config: &PoolConfig,
        tier: Tier,
        alarm: &Arc<Alarm>,
        place: Arc<Place>,
    ) -> Result<(Process, bool), PoolError> {
        let (order, answer) = oneshot::channel();
        self.orders.send(Order::Start(tier, place, order)).map_err(failed)?;
        let Delivery { pid, child, place, socket, is_forked } = answer.await.map_err(failed)?.map_err(failed)?;
        let pid = pid.as_raw_nonzero().get().cast_unsigned();
        let stream = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket)).map_err(failed)?;
        let pipeline = Pipeline::new(config.pipeline, config.pipeline_time);
        Ok((Process::new(pid, tier, (child, place), Link { stream, pipeline, meter: Meter::new(Arc::clone(alarm)) }), is_forked))
    }

    /// Reports that a started process does not work, so that all zygotes are replaced.
    pub(crate) fn distrust_zygotes(&self) {
        let _ = self.orders.send(Order::Distrust);
    }

    /// Ends the zygotes, and waits until they are gone from the system.
    pub(crate) async fn close(&self) {
        let (ended, wait) = oneshot::channel();
        let _ = self.orders.send(Order::Close(ended));
        let _ = wait.await;
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_reaped(&self) {
        self.reaper.all_reaped().await;
    }
}

/// The state of the thread that starts processes.
struct Starter {
    config: PoolConfig,
    zygotes: Zygotes,
    groups: Arc<Groups>,
    /// The record of the memory of the zygotes.
    places: Arc<Places>,
    reaper: Arc<Reaper>,
    namespace: Option<PidNamespace>,
}

impl Starter {
    fn serve(&mut self, order: Order) {
        match order {
            // If the receiver is gone, the delivery is returned and dropped.
            Order::Start(tier, place, order) => drop(order.send(self.start(tier, place))),
            Order::Distrust => self.zygotes.distrust(),
            Order::Close(ended) => {
                self.zygotes.close();
                self.groups = Groups::none();
                self.places.note_zygotes(Census::default());
                let _ = ended.send(());
            }
        }
    }

    fn look(&mut self) {
        self.zygotes.look();
        self.places.note_zygotes(self.zygotes.census());
    }

    fn start(&mut self, tier: Tier, place: Arc<Place>) -> io::Result<Delivery> {
        let (config, user, mut bounds) = (&self.config, place.user(), self.groups.take());
        let folder = bounds.folder();
        let terms = Terms { user, group: folder.as_ref().map(AsFd::as_fd) };
        let forked = self.zygotes.fork(|| Zygote::start(&mut command(config, tier)), tier, terms);
        let is_forked = forked.is_some();
        let Newborn { pid, socket, is_in_group } = forked.map_or_else(|| spawn(config, tier, user, self.namespace.as_ref()), Ok)?;
        let (child, weak) = (self.reaper.adopt(pid, Arc::clone(&place)), Arc::downgrade(&place));
        if !is_in_group {
            bounds.take_in(pid);
        }
        place.bind(bounds);
        Ok(Delivery { pid, child, place: weak, socket, is_forked })
    }
}

fn spawn(config: &PoolConfig, tier: Tier, user: Option<u32>, namespace: Option<&PidNamespace>) -> io::Result<Newborn> {
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
    Ok(Newborn { pid: Pid::from_child(&child), socket: ours, is_in_group: false })
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
    use crate::users::Turn;

    #[tokio::test]
    async fn started_process_has_its_place_until_it_is_dropped_and_is_waited_for() {
        let config = PoolConfig::new("/bin/false");
        let places = Places::new(2, u64::MAX, Turn::default());
        let spawner = Spawner::new(&config, Arc::clone(&places)).unwrap();
        let alarm = Arc::default();
        let start = || spawner.start(&config, Tier::Jit, &alarm, places.take().unwrap());
        let processes = tokio::try_join!(start(), start()).unwrap();
        assert!(places.take().is_none());
        assert!(spawner.all_reaped().now_or_never().is_none());
        drop(processes);
        spawner.all_reaped().await;
        assert_eq!(places.taken(), 0);
        drop(start());
        assert_eq!(places.taken(), 0, "it was not ordered yet");
    }

    #[tokio::test]
    async fn process_that_was_delivered_to_nobody_is_ended_and_waited_for() {
        let config = PoolConfig::new("/bin/false");
        let (places, alarm) = (Places::new(1, u64::MAX, Turn::default()), Arc::default());
        let spawner = Spawner::new(&config, Arc::clone(&places)).unwrap();
        let mut start = Box::pin(spawner.start(&config, Tier::Jit, &alarm, places.take().unwrap()));
        assert!((&mut start).now_or_never().is_none());
        while spawner.all_reaped().now_or_never().is_some() {
            tokio::task::yield_now().await;
        }
        drop(start);
        spawner.all_reaped().await;
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn thread_that_starts_processes_is_told_when_one_is_no_good() {
        let (orders, ordered) = mpsc::channel();
        let spawner = Spawner { orders, reaper: Arc::new(Reaper::start().unwrap()) };
        spawner.distrust_zygotes();
        assert!(matches!(ordered.try_recv(), Ok(Order::Distrust)));
    }
}
