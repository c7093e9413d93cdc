//! Starts worker processes, by a thread that lives as long as the pool.
//!
//! The kernel sends a worker its parent-death signal when the *thread* that started it ends, so
//! workers are started by a thread of their own and not by one of the runtime's, which come and
//! go. They end by SIGKILL; another thread waits for those, see [`Reaper`].

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixStream as Socket},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::{net::UnixStream, sync::oneshot};
use tollhouse_protocol::Tier;

use crate::{
    alarm::Alarm,
    config::PoolConfig,
    error::PoolError,
    pipeline::Pipeline,
    places::Place,
    process::{Link, Process},
    reaper::Reaper,
    watchdog::Meter,
};

/// Starts processes. Its threads end with it.
#[derive(Debug)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
    reaper: Reaper,
}

/// A process that was asked for: its tier, the place it will have, and where it is to be delivered.
type Order = (Tier, Arc<Place>, oneshot::Sender<io::Result<(Child, Socket, Arc<Place>)>>);

impl Spawner {
    /// # Errors
    ///
    /// [`PoolError::Spawn`] when the threads cannot be started.
    pub(crate) fn new(config: &PoolConfig) -> Result<Self, PoolError> {
        let (orders, ordered) = mpsc::channel::<Order>();
        let config = config.clone();
        let mut users = config.users.in_turn();
        let spawn = move || {
            for (tier, place, order) in ordered {
                let spawned = spawn(&config, tier, users.next()).map(|(child, socket)| (child, socket, place));
                if let Err(Ok((mut child, ..))) = order.send(spawned) {
                    // Nobody waits for it any more.
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        };
        thread::Builder::new().name("tollhouse-start".into()).spawn(spawn).map_err(failed)?;
        Ok(Self { orders, reaper: Reaper::start().map_err(failed)? })
    }

    /// Starts a process of a tier, which has `place` until it is gone from the system.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] with what the system said.
    pub(crate) async fn start(&self, config: &PoolConfig, tier: Tier, alarm: &Arc<Alarm>, place: Arc<Place>) -> Result<Process, PoolError> {
        let (order, answer) = oneshot::channel();
        self.orders.send((tier, place, order)).map_err(failed)?;
        let (child, socket, place) = answer.await.map_err(failed)?.map_err(failed)?;
        let (pid, weak) = (child.id(), Arc::downgrade(&place));
        // From here on it is ended, and waited for, whatever goes wrong.
        let child = self.reaper.adopt(child, place);
        let stream = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket)).map_err(failed)?;
        let pipeline = Pipeline::new(config.pipeline, config.pipeline_time);
        Ok(Process::new(pid, tier, (child, weak), Link { stream, pipeline, meter: Meter::new(Arc::clone(alarm)) }))
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_reaped(&self) {
        self.reaper.all_reaped().await;
    }
}

fn spawn(config: &PoolConfig, tier: Tier, user: Option<u32>) -> io::Result<(Child, Socket)> {
    let (ours, theirs) = Socket::pair()?;
    // The worker inherits its end under the number it has here, and closes all others first thing.
    // Only this thread starts workers, so none of them gets the end of another.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let child = Command::new(&config.worker)
        .args(["--socket", &theirs.as_raw_fd().to_string(), "--tier", &tier.to_string()])
        .args(user.into_iter().flat_map(|user| ["--user".to_owned(), user.to_string()]))
        .args(&config.worker_args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

fn failed(error: impl std::fmt::Display) -> PoolError {
    PoolError::Spawn(error.to_string())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::places::Places;

    #[tokio::test]
    async fn started_process_has_its_place_until_it_is_dropped_and_is_waited_for() {
        let config = PoolConfig::new("/bin/false");
        let (spawner, places) = (Spawner::new(&config).unwrap(), Places::new(2, u64::MAX));
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
}
