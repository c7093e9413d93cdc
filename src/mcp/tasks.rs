//! Long-running calls as tasks (extension `io.modelcontextprotocol/tasks`), kept in the store.
//!
//! A task does not copy an answer that is stored elsewhere. The answer of a paid call is stored with its payment. The
//! answer of a free or failed call is in memory of the replica that ran it, or in the store if it is shared, for
//! minutes and within a limit ([`UnpaidTasks`]).
//!
//! A task id is a time and 128 random bits. Anyone who has it can read and cancel the task, because callers have no
//! other identity. One replica runs a task, and every replica can report it. If that replica dies, the task ends as its
//! payment did: settled, the answer is there; released, nothing was charged and nothing runs again.

mod poll;
mod record;
mod unpaid;

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use rmcp::model::CreateTaskResult;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tollhouse_base::{clock::Timestamp, lock::Lock, offload::run_blocking};
use tollhouse_call::{Call, CallError, CompletedCall, Progress};
use tollhouse_front::{ApiError, Quota, QuotaShare, network};
use tollhouse_money::{OfferedPayment, PaymentId};
use tollhouse_store::{Batch, Durability, Row, StoreError, log_unavailable, update};

use self::{
    record::{PAID_MS, TASKS, TaskAnswer, TaskRecord, TaskState, as_object, completed, is_id, new_id},
    unpaid::{TaskOwner, UnpaidEnd, UnpaidTasks, bytes_of, in_memory},
};
use super::{
    answer::{self, ToolAnswer},
    dialect::Dialect,
    remote_cancel::{Cancelable, RemoteCancels},
    services::Services,
    started_call::{CallEnd, StartedCall},
};

/// Delay before retrying to store the end of a task.
const RETRY: Duration = Duration::from_secs(2);
/// Maximum time to wait for a call to start before its client gets a task anyway.
const START: Duration = Duration::from_secs(5);
/// Interval of expiring this process's tasks, and how many such runs there are for each expiry of all stored tasks.
const SWEEP: Duration = Duration::from_secs(60);
const SWEEPS: u32 = 10;
/// Maximum tasks read at once, and their maximum bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum time of a task beyond its handler's time limit, including waiting.
const OVERHEAD: Duration = Duration::from_secs(120);
/// Maximum tries of a conditional commit. Each failure means that another commit succeeded.
const TRIES: usize = 100;

/// All tasks of a host.
pub(super) struct Tasks {
    services: Arc<Services>,
    remote_cancels: Arc<RemoteCancels>,
    running: Lock<HashMap<String, RunningTask>>,
    slots: Arc<Quota>,
    unpaid: UnpaidTasks,
    /// How long the answer of an unpaid task is kept after its end.
    retention: Duration,
}

struct RunningTask {
    cancel: CancellationToken,
    /// The latest progress message of its handler.
    progress: Option<String>,
}

pub(super) struct TaskPermit {
    _share: QuotaShare,
    owner: TaskOwner,
    /// The call is never charged.
    is_free: bool,
    wall: Duration,
}

/// The result of starting a call as a task.
pub(super) enum TaskStart {
    Task(Box<ToolAnswer>),
    /// The call ended soon, or was rejected.
    Ended(CallEnd),
}

impl Tasks {
    /// Returns the tasks and starts their background work. Call it inside a tokio runtime.
    pub(super) fn new(services: &Arc<Services>, remote_cancels: Arc<RemoteCancels>) -> Arc<Self> {
        let settings = services.settings.given.tasks;
        let tasks = Arc::new(Self {
            services: Arc::clone(services),
            remote_cancels,
            running: Lock::default(),
            slots: Quota::new(settings.running.max, settings.running.max_per_address),
            unpaid: UnpaidTasks::new(settings.bytes),
            retention: settings.kept,
        });
        let weak = Arc::downgrade(&tasks);
        tokio::spawn(async move {
            for sweep in (0..SWEEPS).cycle() {
                let Some(tasks) = weak.upgrade() else { return };
                let expired = if sweep == 0 { tasks.expire().await } else { Ok(()) };
                if let Err(error) = expired.and(tasks.expire_unpaid().await) {
                    log_unavailable(&error, "removing expired tasks");
                }
                drop(tasks);
                tokio::time::sleep(SWEEP).await;
            }
        });
        tasks
    }

    /// Takes a slot for `call` of this address. Returns `None` if none is free.
    pub(super) fn reserve(&self, address: IpAddr, call: &Call) -> Option<TaskPermit> {
        let mut share = self.slots.share(address);
        share.take(1).ok()?;
        let endpoint = &call.live.endpoint;
        Some(TaskPermit {
            _share: share,
            owner: TaskOwner { owner: endpoint.owner.clone(), address: network(address) },
            is_free: endpoint.max_usd().is_zero() || matches!(call.offered, OfferedPayment::Nothing),
            wall: Duration::from_millis(endpoint.limits.wall_ms),
        })
    }

    /// Waits until a call's payment is reserved and its input is valid. Then the call becomes a task that outlives the
    /// request.
    ///
    /// # Errors
    ///
    /// Errors of the store when the task cannot be stored. The call is then canceled.
    pub(super) async fn start(
        self: &Arc<Self>,
        mut started: StartedCall,
        permit: TaskPermit,
        dialect: Dialect,
    ) -> Result<TaskStart, StoreError> {
        let payment = match until_accepted(&mut started).await {
            Ok(payment) => payment,
            Err(ended) => return Ok(TaskStart::Ended(ended)),
        };
        let now = self.services.clock.now();
        let id = new_id()?;
        let holder = self.services.replica.id().clone();
        let ttl_ms = if permit.is_free { millis(permit.wall + OVERHEAD + self.retention) } else { PAID_MS };
        let record =
            TaskRecord { holder, payment, state: TaskState::Working, created_at: now, updated_at: now, ttl_ms, dotted: dialect.dotted };
        // The client must be able to find the task at once.
        self.running.lock().insert(id.clone(), RunningTask { cancel: started.cancel.clone(), progress: None });
        let mut batch = Batch::new();
        batch.insert(&TASKS, &id, &record);
        if let Err(error) = batch.commit(&*self.services.store, Durability::Durable).await {
            self.running.lock().remove(&id);
            return Err(error);
        }
        started.stop.take().map(DropGuard::disarm);
        let created = CreateTaskResult::new(record.task_view(&id, "running".to_owned()));
        let (tasks, has_payment) = (Arc::clone(self), record.payment.is_some());
        self.services.shared.background.spawn(async move { tasks.follow(id, permit, dialect, started, has_payment).await });
        Ok(TaskStart::Task(Box::new(ToolAnswer { response: created.into(), structured: None })))
    }

    /// Waits for the end of a task and records its handler's progress, and its payment unless the task `has_payment`.
    async fn follow(&self, id: String, permit: TaskPermit, dialect: Dialect, mut started: StartedCall, mut has_payment: bool) {
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut started.run => break ended,
                Some(progress) = next(&mut started.progress) => {
                    match progress {
                        Progress::Admitted(payment) | Progress::Accepted { payment: Some(payment), .. } if !has_payment => {
                            has_payment = true;
                            self.note_payment(&id, &payment).await;
                        }
                        Progress::Admitted(_) | Progress::Accepted { .. } => {}
                        Progress::Update(received) => {
                            if let Some(running) = self.running.lock().get_mut(&id) {
                                running.progress = Some(received.message);
                            }
                        }
                    }
                }
            }
        };
        match ended {
            Ok(done) if done.success && done.payment.is_some() => self.end(&id, &TaskState::Paid, done.payment, Durability::Durable).await,
            Ok(done) => self.end_unpaid(&id, permit.owner, done).await,
            Err(error) => {
                let state = if matches!(*error, CallError::Cancelled) { TaskState::Cancelled } else { refused(&error, dialect) };
                let bytes = state.bytes();
                self.end(&id, &state, None, Durability::Durable).await;
                self.add_unpaid(&id, permit.owner, bytes, None).await;
            }
        }
        self.running.lock().remove(&id);
    }

    /// Stores the end of a task whose answer is not stored with a payment.
    async fn end_unpaid(&self, id: &str, owner: TaskOwner, done: CompletedCall) {
        let body = done.answer.body.len();
        if self.services.store.is_shared() {
            let state = run_blocking(body, || TaskState::Answered(TaskAnswer::of(&done))).await;
            let bytes = state.bytes();
            self.end(id, &state, None, Durability::Buffered).await;
            self.add_unpaid(id, owner, bytes, None).await;
        } else {
            // Keep the answer before the state says that it exists.
            self.add_unpaid(id, owner, bytes_of(&done), Some(in_memory(&done))).await;
            self.end(id, &TaskState::Held, None, Durability::Buffered).await;
        }
    }

    /// Records the end of an unpaid task, and removes the tasks that it displaces.
    async fn add_unpaid(&self, id: &str, owner: TaskOwner, bytes: usize, done: Option<CompletedCall>) {
        let until = Timestamp(self.services.clock.now().0.saturating_add(millis(self.retention)));
        let removed = self.unpaid.put(id, UnpaidEnd { owner, bytes, until, done });
        if let Err(error) = self.remove(&removed).await {
            tracing::warn!(%error, "displaced tasks could not be removed from the store; they stay until they expire");
        }
    }

    /// Stores the payment of a task that began before its payment was reserved. If the process dies, the payment shows
    /// how the task ended.
    async fn note_payment(&self, id: &str, payment: &PaymentId) {
        let noting = update(&*self.services.store, Durability::Durable, |mut tx| async move {
            if let Some(row) = tx.row(&TASKS, &id.to_owned()).await?.filter(|row| row.value.state.is_working()) {
                tx.replace(&TASKS, &row, &TaskRecord { payment: Some(payment.clone()), ..row.value.clone() });
            }
            tx.answer::<_, StoreError>(())
        });
        if let Err(error) = noting.await {
            tracing::warn!(%error, "the payment of a task could not be stored; if the host dies before the task ends, the task does not name it");
        }
    }

    /// Stores the end of a task of this process.
    async fn end(&self, id: &str, state: &TaskState, payment: Option<PaymentId>, durability: Durability) {
        for _ in 0..TRIES {
            let payment = payment.clone();
            let ending = update(&*self.services.store, durability, |mut tx| {
                let payment = payment.clone();
                async move {
                    if let Some(row) = tx.row(&TASKS, &id.to_owned()).await?.filter(|row| row.value.state.is_working()) {
                        let (before, now) = (row.value.clone(), self.services.clock.now());
                        let ttl_ms = match state {
                            TaskState::Paid => before.ttl_ms,
                            _ => now.0.saturating_sub(before.created_at.0).saturating_add(millis(self.retention)),
                        };
                        let payment = payment.or(before.payment.clone());
                        tx.replace(&TASKS, &row, &TaskRecord { state: state.clone(), payment, updated_at: now, ttl_ms, ..before });
                    }
                    tx.answer::<_, StoreError>(())
                }
            });
            match ending.await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the end of a task could not be stored; the host will try again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Cancels a task unless it has ended or is being settled. Returns false if there is no task with this id.
    pub(super) async fn cancel(&self, id: &str) -> Result<bool, StoreError> {
        if self.cancel_named(id, Duration::ZERO) {
            return Ok(true);
        }
        let Some(row) = self.read(id).await? else { return Ok(false) };
        if row.value.state.is_working() {
            self.remote_cancels.request_cancel(id).await?;
        }
        Ok(true)
    }

    /// Returns whether there is a task with this id.
    pub(super) async fn has(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.read(id).await?.is_some())
    }

    async fn read(&self, id: &str) -> Result<Option<Row<String, TaskRecord>>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        Ok(TASKS.row(&*self.services.store, &id.to_owned()).await?.filter(|row| !row.value.is_expired(self.services.clock.now())))
    }

    /// Removes the expired unpaid tasks of this process.
    async fn expire_unpaid(&self) -> Result<(), StoreError> {
        self.remove(&self.unpaid.expire(self.services.clock.now())).await
    }

    /// Removes all expired tasks, whichever process ran them.
    async fn expire(&self) -> Result<(), StoreError> {
        let mut rest = TASKS.all().within(BATCH_BYTES);
        while let Some(some) = TASKS.next(&*self.services.store, &mut rest, BATCH).await? {
            let now = self.services.clock.now();
            let expired = some.into_iter().flatten().filter(|row| row.value.is_expired(now)).map(|row| row.key);
            self.remove(&expired.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn remove(&self, ids: &[String]) -> Result<(), StoreError> {
        for some in ids.chunks(BATCH) {
            let mut batch = Batch::new();
            some.iter().for_each(|id| _ = batch.delete(&TASKS, id));
            batch.commit(&*self.services.store, Durability::Buffered).await?;
        }
        Ok(())
    }
}

impl Cancelable for Tasks {
    fn any(&self) -> bool {
        !self.running.lock().is_empty()
    }

    /// Ignores the time, because ids are never reused.
    fn cancel_named(&self, id: &str, _ago: Duration) -> bool {
        self.running.lock().get(id).map(|running| running.cancel.cancel()).is_some()
    }
}

/// Converts the error of a call to the state of its task.
fn refused(error: &CallError, dialect: Dialect) -> TaskState {
    match answer::failed(&ApiError::from(error), dialect) {
        Ok(result) => TaskState::Completed(completed(result.into())),
        Err(error) => TaskState::Failed(as_object(&error)),
    }
}

/// Waits until the handler of a call starts, at most [`START`]. Returns the payment, if it is reserved by then. It may be
/// settled long before the handler starts.
///
/// # Errors
///
/// The end of the call, if it ended before.
async fn until_accepted(started: &mut StartedCall) -> Result<Option<PaymentId>, CallEnd> {
    let (mut payment, deadline) = (None, tokio::time::Instant::now() + START);
    loop {
        tokio::select! {
            biased;
            ended = &mut started.run => return Err(ended),
            Some(progress) = next(&mut started.progress) => match progress {
                Progress::Admitted(admitted) => payment = Some(admitted),
                Progress::Accepted { payment: accepted, .. } => return Ok(accepted.or(payment)),
                Progress::Update(_) => return Ok(payment),
            },
            () = tokio::time::sleep_until(deadline) => return Ok(payment),
        }
    }
}

async fn next(progress: &mut Option<mpsc::Receiver<Progress>>) -> Option<Progress> {
    progress.as_mut()?.recv().await
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
