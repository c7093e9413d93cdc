use std::{
    cell::{Cell, RefCell},
    process::Stdio,
};

use rustix::net::{Shutdown, send, shutdown};

use super::*;

const LIFE: Duration = Duration::from_mins(10);
const BOOT: Duration = Duration::from_secs(5);

/// A source of fake zygotes with scripted answers, and the process that they claim to have forked.
struct Nursery {
    worker: Child,
    /// Messages of each future zygote: 0 for ready, then the answer to an order.
    replies: RefCell<Vec<i32>>,
    /// The other ends of the sockets of started zygotes, oldest first.
    ends: RefCell<Vec<OwnedFd>>,
    started: Cell<usize>,
}

impl Nursery {
    fn new() -> Self {
        let worker = sleeper();
        let forks = std::iter::once(0).chain(std::iter::repeat_n(worker.id().cast_signed(), 9));
        Self { replies: RefCell::new(forks.collect()), worker, ends: RefCell::default(), started: Cell::new(0) }
    }

    fn start(&self) -> io::Result<Zygote> {
        let (control, end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        self.replies.borrow().iter().for_each(|number| send_order(&end, *number));
        self.ends.borrow_mut().push(end);
        self.started.set(self.started.get() + 1);
        Ok(Zygote { child: sleeper(), control, forked: Instant::now(), forks: 0, is_ready: false })
    }

    /// Returns whether a worker of a tier is forked.
    fn forks(&self, zygotes: &mut Zygotes, tier: Tier) -> bool {
        zygotes.fork_worker(|| self.start(), tier, WorkerSpec::default()).is_some()
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        let _ = self.worker.kill();
        let _ = self.worker.wait();
    }
}

fn sleeper() -> Child {
    Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap()
}

fn send_order(end: &OwnedFd, number: i32) {
    send(end, &number.to_le_bytes(), SendFlags::NOSIGNAL).unwrap();
}

/// Returns zygotes that fork three workers each and have no patience.
fn zygotes() -> Zygotes {
    let config = PoolConfig::new("/bin/false");
    Zygotes::new(&PoolConfig { zygote_forks: 3, zygote_life: LIFE, zygote_timeout: Duration::ZERO, boot_timeout: BOOT, ..config })
}

#[tokio::test(start_paused = true)]
async fn next_zygote_takes_over_after_enough_forks() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    // The fourth is forked while the successor boots, the fifth by the successor.
    for started in [1, 1, 1, 2, 2] {
        assert!(nursery.forks(&mut zygotes, Tier::Jit));
        assert_eq!(nursery.started.get(), started);
    }
    assert_eq!((zygotes.slots[Tier::Jit].now.as_ref().unwrap().forks, zygotes.counts().zygotes), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn next_zygote_takes_over_from_an_old_one() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
    tokio::time::advance(LIFE).await;
    assert!(nursery.forks(&mut zygotes, Tier::Jit) && nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.slots[Tier::Jit].now.as_ref().unwrap().forks), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn next_zygote_is_awaited_while_it_boots_and_abandoned_when_it_fails() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    assert!((0..3).all(|_| nursery.forks(&mut zygotes, Tier::Jit)));
    nursery.replies.borrow_mut().clear();
    assert!((0..3).all(|_| nursery.forks(&mut zygotes, Tier::Jit)));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (2, 2), "it is booting");
    // A process that has just started may still have the socket open.
    shutdown(nursery.ends.borrow().last().unwrap(), Shutdown::Both).unwrap();
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (2, 1), "it failed, and none starts for a while");
    tokio::time::advance(PAUSE).await;
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!(nursery.started.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn slow_boot_is_neither_awaited_nor_given_up_early() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    let forks = nursery.replies.take();
    assert!(!nursery.forks(&mut zygotes, Tier::Jit) && !nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (1, 1));
    forks.iter().for_each(|number| send_order(&nursery.ends.borrow()[0], *number));
    // The successors do not get ready in time, neither before nor after this one is gone.
    assert!((0..4).all(|_| nursery.forks(&mut zygotes, Tier::Jit)));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (2, 2));
    tokio::time::advance(BOOT).await;
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (2, 1));
    zygotes.slots[Tier::Jit] = ZygoteSlot::default();
    assert!(!nursery.forks(&mut zygotes, Tier::Jit));
    tokio::time::advance(BOOT).await;
    assert!(!nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn silent_zygote_is_ended_and_its_worker_stays() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    nursery.replies.borrow_mut().truncate(1);
    assert!(!nursery.forks(&mut zygotes, Tier::Jit));
    assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (1, 0));
    let mut zygote = nursery.start().unwrap();
    send_order(&nursery.ends.borrow()[1], 5);
    assert_eq!([zygote.last_answer().unwrap(), zygote.last_answer().unwrap()], [0, 5]);
    assert!(zygote.has_ended());
}

#[tokio::test(start_paused = true)]
async fn workers_start_without_a_zygote_for_a_while_after_a_failure() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    nursery.replies.replace(vec![0, -11]);
    for (wait, started) in [(Duration::ZERO, 1), (PAUSE / 2, 1), (PAUSE / 2, 2)] {
        tokio::time::advance(wait).await;
        assert!(!nursery.forks(&mut zygotes, Tier::Jit));
        assert_eq!((nursery.started.get(), zygotes.counts().zygotes), (started, 0));
    }
}

#[test]
fn zygote_reports_a_failed_fork_and_invalid_replies_are_rejected() {
    let nursery = Nursery::new();
    nursery.replies.replace(vec![-11, 0, std::process::id().cast_signed()]);
    let mut zygote = nursery.start().unwrap();
    let errors = [(); 3].map(|()| zygote.fork_worker(WorkerSpec::default(), Duration::ZERO).unwrap_err().raw_os_error());
    assert_eq!(errors, [Some(11), Some(0), Some(10)], "this process is not its own child");
    assert_eq!(zygote.fork_worker(WorkerSpec::default(), Duration::ZERO).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn worker_is_forked_without_a_group_and_reported_if_groups_fail() {
    let nursery = Nursery::new();
    let worker = nursery.worker.id().cast_signed();
    let group = std::fs::File::open("/").unwrap();
    let spec = WorkerSpec { group: Some(group.as_fd()), ..WorkerSpec::default() };
    for (text, is_in_group, forked) in [(vec![worker], true, 1), (vec![-38, worker], false, 1)] {
        nursery.replies.replace(text);
        let mut zygote = nursery.start().unwrap();
        let newborn = zygote.fork_worker(spec, Duration::ZERO).unwrap();
        assert_eq!((newborn.pid.as_raw_nonzero().get(), newborn.is_in_group, zygote.forks), (worker, is_in_group, forked));
    }
    nursery.replies.replace(vec![-38, -11]);
    let error = nursery.start().unwrap().fork_worker(spec, Duration::ZERO).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(11), "it cannot be used");
}

#[tokio::test(start_paused = true)]
async fn ended_zygote_is_released_at_the_next_check() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    assert!(nursery.forks(&mut zygotes, Tier::Jit) && nursery.forks(&mut zygotes, Tier::Jitless));
    zygotes.check();
    assert_eq!(zygotes.counts().zygotes, 2);
    let child = &mut zygotes.slots[Tier::Jit].now.as_mut().unwrap().child;
    child.kill().unwrap();
    child.wait().unwrap();
    zygotes.check();
    assert_eq!(zygotes.counts().zygotes, 1);
    assert!(!nursery.forks(&mut zygotes, Tier::Jit) && nursery.forks(&mut zygotes, Tier::Jitless));
}

#[tokio::test(start_paused = true)]
async fn broken_zygotes_are_ended_and_none_starts_for_a_while() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
    zygotes.distrust();
    assert_eq!(zygotes.counts(), ZygoteCounts::default());
    assert!(!nursery.forks(&mut zygotes, Tier::Jit), "not for a while");
    assert!(nursery.forks(&mut zygotes, Tier::Jitless), "there was none");
    tokio::time::advance(PAUSE).await;
    assert!(nursery.forks(&mut zygotes, Tier::Jit));
}

#[tokio::test(start_paused = true)]
async fn zygote_of_an_unused_tier_is_ended_except_the_default() {
    let (nursery, mut zygotes) = (Nursery::new(), zygotes());
    assert!(Tier::ALL.into_iter().all(|tier| nursery.forks(&mut zygotes, tier)));
    tokio::time::advance(LIFE / 2).await;
    assert!(nursery.forks(&mut zygotes, Tier::Jitless));
    tokio::time::advance(LIFE / 2).await;
    zygotes.check();
    assert_eq!(zygotes.counts().zygotes, 2, "it was used since");
    tokio::time::advance(LIFE / 2).await;
    zygotes.check();
    assert!(zygotes.slots[Tier::Jit].now.is_some() && zygotes.slots[Tier::Jitless].now.is_none());
    assert!(nursery.forks(&mut zygotes, Tier::Jitless), "it starts again when it is used");
}
