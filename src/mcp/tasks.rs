//! Long-running calls as tasks (extension `io.modelcontextprotocol/tasks`), kept in the store.
//!
//! A task keeps no answer that is kept elsewhere. That of a paid call is its payment's. That of a free call, or of one that failed, lies in
//! the memory of the replica that ran it, or in the store where others share that, for minutes and within a bound ([`UnpaidTasks`]).
//!
//! A task's id is 128 random bits behind its time, and who shows it may see and cancel the task: callers have no other
//! name. A task is held by the replica that runs it, and is told by each; one whose replica is gone ends as its payment says:
//! settled, the answer is there; released, nothing was taken and nothing is run again.

mod look;
mod record;
mod told;
mod unpaid;

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::model::CreateTaskResult;
use tokio::sync::mpsc;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tollhouse_base::{
    aside::aside,
    clock::{Clock, Timestamp},
};
use tollhouse_call::{Call, CallError, Done, Progress};
use tollhouse_front::{Fault, Quota, Share, network};
use tollhouse_money::{Gate, Offered, PaymentId};
use tollhouse_replica::Replica;
use tollhouse_store::{Batch, Durability, Row, Store, StoreError, update};

use self::{
    record::{Answer, Record, State, TASKS, as_object, is_id, new_id, paid_ms},
    told::completed,
    unpaid::{Unpaid, UnpaidTasks, Whose, bytes_of, in_memory},
};
use super::{
    answer::{self, ToolAnswer},
    begun::Begun,
    offer::Dialect,
    recalls::{Recallable, Recalls},
    services::Services,
};

/// Time to the next try after the end of a task could not be stored.
const RETRY: Duration = Duration::from_secs(2);
/// How long a call may take to start before its client gets a task for it anyway.
const START: Duration = Duration::from_secs(5);
/// Time between two looks for tasks of this process to forget, and how many of them there are to one for all that are stored.
const SWEEP: Duration = Duration::from_secs(60);
const SWEEPS: u32 = 10;
/// Stored tasks read at once, and their bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// How much longer than its handler may run a task takes at most, waiting included.
const BESIDE: Duration = Duration::from_secs(120);
/// Tries of a conditional commit: each failure means that another succeeded.
const TRIES: usize = 100;

/// All tasks of a host.
pub(super) struct Tasks {
    store: Arc<dyn Store>,
    clock: Clock,
    gate: Arc<Gate>,
    background: TaskTracker,
    base_url: String,
    replica: Arc<Replica>,
    recalls: Arc<Recalls>,
    running: Mutex<HashMap<String, Running>>,
    /// Places of those.
    places: Arc<Quota>,
    unpaid: UnpaidTasks,
    /// How long the answer of an unpaid task is kept after its end.
    kept: Duration,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

/// A task that this process runs.
struct Running {
    cancel: CancellationToken,
    /// What its handler said last.
    said: Option<String>,
}

/// The place of a task among those that run.
pub(super) struct TaskPlace {
    _share: Share,
    whose: Whose,
    /// Nothing is taken for the call, however it ends.
    is_free: bool,
    /// How long its handler may run.
    wall: Duration,
}

/// What came of starting a call as a task.
pub(super) enum Started {
    Task(Box<ToolAnswer>),
    /// It ended before it ran for long, or was refused.
    Ended(Result<Done, Arc<CallError>>),
}

impl Tasks {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(services: &Services, recalls: Arc<Recalls>) -> Arc<Self> {
        let settings = services.settings.tasks;
        let tasks = Arc::new(Self {
            store: Arc::clone(&services.store),
            clock: services.clock.clone(),
            gate: Arc::clone(&services.gate),
            background: services.shared.background.clone(),
            base_url: services.base_url.clone(),
            replica: Arc::clone(&services.replica),
            recalls,
            running: Mutex::default(),
            places: Quota::new(Some(settings.running), Some(settings.running_of_address)),
            unpaid: UnpaidTasks::new(settings.bytes),
            kept: settings.kept,
        });
        let weak = Arc::downgrade(&tasks);
        tokio::spawn(async move {
            for sweep in (0..SWEEPS).cycle() {
                let Some(tasks) = weak.upgrade() else { return };
                let forgotten = if sweep == 0 { tasks.forget().await } else { Ok(()) };
                if let Err(error) = forgotten.and(tasks.forget_unpaid().await) {
                    tracing::error!(%error, "old tasks could not be forgotten");
                }
                drop(tasks);
                tokio::time::sleep(SWEEP).await;
            }
        });
        tasks
    }

    /// A place for `call` of this address among the tasks that run; `None` where there is none.
    pub(super) fn place(&self, address: IpAddr, call: &Call) -> Option<TaskPlace> {
        let mut share = self.places.share(address);
        share.take(1).ok()?;
        let endpoint = &call.live.endpoint;
        Some(TaskPlace {
            _share: share,
            whose: Whose { owner: endpoint.owner.clone(), address: network(address) },
            is_free: endpoint.most_usd().is_zero() || matches!(call.offered, Offered::Nothing),
            wall: Duration::from_millis(endpoint.limits.wall_ms),
        })
    }

    /// Waits until a call's payment is reserved and its input fits: then it becomes a task that outlives the request.
    ///
    /// # Errors
    ///
    /// The store's, when the task cannot be kept: then the call is taken back.
    pub(super) async fn keep(self: &Arc<Self>, mut begun: Begun, place: TaskPlace, dialect: Dialect) -> Result<Started, StoreError> {
        let payment = tokio::select! {
            biased;
            ended = &mut begun.performing => return Ok(Started::Ended(ended)),
            Some(progress) = next(&mut begun.happened) => match progress {
                Progress::Accepted { payment, .. } => payment,
                Progress::Update(_) => None,
            },
            () = tokio::time::sleep(START) => None,
        };
        let now = self.clock.now();
        let id = new_id()?;
        let holder = self.replica.id().to_string();
        let ttl_ms = if place.is_free { millis(place.wall + BESIDE + self.kept) } else { paid_ms() };
        let record = Record { holder, payment, state: State::Working, created_at: now, updated_at: now, ttl_ms, dotted: dialect.dotted };
        // The client must find it at once.
        self.running().insert(id.clone(), Running { cancel: begun.cancel.clone(), said: None });
        let mut batch = Batch::new();
        batch.insert(&TASKS, &id, &record);
        if let Err(error) = batch.commit(&*self.store, Durability::Durable).await {
            self.running().remove(&id);
            return Err(error);
        }
        begun.stop.take().map(DropGuard::disarm);
        let created = CreateTaskResult::new(record.told(&id, "running".to_owned()));
        let tasks = Arc::clone(self);
        self.background.spawn(async move { tasks.follow(id, place, dialect, begun).await });
        Ok(Started::Task(Box::new(ToolAnswer { response: created.into(), structured: None })))
    }

    /// Waits for the end of a task, and hears on the way what its handler says.
    async fn follow(&self, id: String, place: TaskPlace, dialect: Dialect, mut begun: Begun) {
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut begun.performing => break ended,
                Some(progress) = next(&mut begun.happened) => {
                    if let (Progress::Update(heard), Some(running)) = (progress, self.running().get_mut(&id)) {
                        running.said = Some(heard.message);
                    }
                }
            }
        };
        match ended {
            Ok(done) if done.success && done.payment.is_some() => self.end(&id, &State::Paid, done.payment, Durability::Durable).await,
            Ok(done) => self.end_unpaid(&id, place.whose, done).await,
            Err(error) => {
                let state = if matches!(*error, CallError::Cancelled) { State::Cancelled } else { refused(&error, dialect) };
                let bytes = state.bytes();
                self.end(&id, &state, None, Durability::Durable).await;
                self.keep_unpaid(&id, place.whose, bytes, None).await;
            }
        }
        self.running().remove(&id);
    }

    /// The end of a task whose answer no payment keeps.
    async fn end_unpaid(&self, id: &str, whose: Whose, done: Done) {
        let body = done.answer.body.len();
        if self.store.is_shared() {
            let state = aside(body, || State::Answered(Answer::of(&done))).await;
            let bytes = state.bytes();
            self.end(id, &state, None, Durability::Buffered).await;
            self.keep_unpaid(id, whose, bytes, None).await;
        } else {
            // Before its state says that it is there.
            self.keep_unpaid(id, whose, bytes_of(&done), Some(in_memory(&done))).await;
            self.end(id, &State::Held, None, Durability::Buffered).await;
        }
    }

    /// Remembers the end of a task that no payment keeps, and forgets what goes for it.
    async fn keep_unpaid(&self, id: &str, whose: Whose, bytes: usize, done: Option<Done>) {
        let until = Timestamp(self.clock.now().0.saturating_add(millis(self.kept)));
        let gone = self.unpaid.put(id, Unpaid { whose, bytes, until, done });
        if let Err(error) = self.remove(&gone).await {
            tracing::warn!(%error, "tasks that went for others stay in the store until their time is over");
        }
    }

    /// Stores the end of a task of ours.
    async fn end(&self, id: &str, state: &State, payment: Option<PaymentId>, durability: Durability) {
        for _ in 0..TRIES {
            let payment = payment.clone();
            let ending = update(&*self.store, durability, |mut tx| {
                let payment = payment.clone();
                async move {
                    if let Some(row) = tx.row(&TASKS, &id.to_owned()).await?.filter(|row| row.value.state.is_working()) {
                        let (before, now) = (row.value.clone(), self.clock.now());
                        let ttl_ms = match state {
                            State::Paid => before.ttl_ms,
                            _ => now.0.saturating_sub(before.created_at.0).saturating_add(millis(self.kept)),
                        };
                        let payment = payment.or(before.payment.clone());
                        tx.replace(&TASKS, &row, &Record { state: state.clone(), payment, updated_at: now, ttl_ms, ..before });
                    }
                    tx.answer::<_, StoreError>(())
                }
            });
            match ending.await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the end of a task could not be stored yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Takes a task back, if it has not ended and is not being settled. False when there is none with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn cancel(&self, id: &str) -> Result<bool, StoreError> {
        if self.recall(id, Duration::ZERO) {
            return Ok(true);
        }
        let Some(row) = self.read(id).await? else { return Ok(false) };
        if row.value.state.is_working() {
            self.recalls.tell(id).await?;
        }
        Ok(true)
    }

    /// Whether there is a task with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn has(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.read(id).await?.is_some())
    }

    async fn read(&self, id: &str) -> Result<Option<Row<String, Record>>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        Ok(TASKS.row(&*self.store, &id.to_owned()).await?.filter(|row| !row.value.is_expired(self.clock.now())))
    }

    /// Forgets the unpaid tasks of this process that are past their time.
    async fn forget_unpaid(&self) -> Result<(), StoreError> {
        self.remove(&self.unpaid.expire(self.clock.now())).await
    }

    /// Forgets all tasks past their time, whichever process has run them.
    async fn forget(&self) -> Result<(), StoreError> {
        let mut rest = TASKS.all().within(BATCH_BYTES);
        while let Some(some) = TASKS.next(&*self.store, &mut rest, BATCH).await? {
            let now = self.clock.now();
            let expired = some.into_iter().flatten().filter(|row| row.value.is_expired(now)).map(|row| row.key);
            self.remove(&expired.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn remove(&self, ids: &[String]) -> Result<(), StoreError> {
        for some in ids.chunks(BATCH) {
            let mut batch = Batch::new();
            some.iter().for_each(|id| _ = batch.delete(&TASKS, id));
            batch.commit(&*self.store, Durability::Buffered).await?;
        }
        Ok(())
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recallable for Tasks {
    fn any(&self) -> bool {
        !self.running().is_empty()
    }

    /// No other task has its id.
    fn recall(&self, id: &str, _ago: Duration) -> bool {
        self.running().get(id).map(|running| running.cancel.cancel()).is_some()
    }
}

/// A call that ended without a result, as the state of its task.
fn refused(error: &CallError, dialect: Dialect) -> State {
    match answer::failed(&Fault::from(error), dialect) {
        Ok(result) => State::Completed(completed(result.into())),
        Err(error) => State::Failed(as_object(&error)),
    }
}

async fn next(happened: &mut Option<mpsc::Receiver<Progress>>) -> Option<Progress> {
    happened.as_mut()?.recv().await
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
